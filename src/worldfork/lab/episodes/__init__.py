"""Rolls out batches of episodes: agent by environment by draws. Streams and evaluations both pass through here."""

from worldfork.lab.episodes.filming import Film
from worldfork.lab.episodes.log import Rolled, Trace
from worldfork.lab.episodes.rolling import Draws, Record, objection_to_ends, roll_out

__all__ = ["Draws", "Film", "Record", "Rolled", "Trace", "objection_to_ends", "roll_out"]
