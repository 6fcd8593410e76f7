"""Rules that are fed the pre-fork stream and say when to update."""

from worldfork.desk.triggers.base import Alarms, Reading, Segment, Signal, Trigger, Unavailable
from worldfork.desk.triggers.reading import is_reference, read_triggers

__all__ = ["Alarms", "Reading", "Segment", "Signal", "Trigger", "Unavailable", "is_reference", "read_triggers"]
