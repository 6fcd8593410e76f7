"""Rules that are fed a deployment segment by segment, in the analysis or while it runs, and say when to update."""

from worldfork.triggers.base import Answer, CellKey, LabelledDeployment, Segment, Trigger
from worldfork.triggers.feeding import Asked, draw_event, feed

__all__ = [
    "Answer",
    "Asked",
    "CellKey",
    "LabelledDeployment",
    "Segment",
    "Trigger",
    "draw_event",
    "feed",
]
