"""Rules that read the pre-fork stream and say when to update."""

from worldfork.desk.triggers.base import Alarms, Reading, Signal, Trigger, Unavailable
from worldfork.desk.triggers.catalogue import CATALOGUE, is_reference, read_triggers

__all__ = ["CATALOGUE", "Alarms", "Reading", "Signal", "Trigger", "Unavailable", "is_reference", "read_triggers"]
