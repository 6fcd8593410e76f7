"""Rules that are fed the pre-fork stream and say when to update, on every fork of a table."""

from worldfork.desk.triggers.base import Alarms, Reading, Signal, Unavailable
from worldfork.desk.triggers.reading import (
    answers_by_cell,
    chosen_triggers,
    comes_with_worldfork,
    imports_nothing_new,
    is_reference,
    read_triggers,
    read_triggers_together,
    unread_candidates,
)
from worldfork.triggers import Segment, Trigger

__all__ = [
    "Alarms",
    "Reading",
    "Segment",
    "Signal",
    "Trigger",
    "Unavailable",
    "answers_by_cell",
    "chosen_triggers",
    "comes_with_worldfork",
    "imports_nothing_new",
    "is_reference",
    "read_triggers",
    "read_triggers_together",
    "unread_candidates",
]
