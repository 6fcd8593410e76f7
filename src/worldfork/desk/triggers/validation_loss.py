"""Held-out validation loss (registered family 5)."""

from worldfork.desk.triggers.base import Recorded

__all__ = ["ValidationLoss"]


class ValidationLoss(Recorded):
    """The frozen model's training loss on the segment: nothing of the stream was ever trained on."""

    needs = "the frozen model's loss on the segment before the fork"
