"""Rolls out batches of episodes: agent by environment by draws. Streams and evaluations both pass through here."""

from worldfork.lab.episodes.draws import Draws
from worldfork.lab.episodes.rolling import Rolled, Trace, roll_out

__all__ = ["Draws", "Rolled", "Trace", "roll_out"]
