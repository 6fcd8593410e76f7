"""Thresholded one-step error: the mean over the segment (registered family 1)."""

import numpy as np
from jaxtyping import Float

from worldfork.desk.triggers.base import SegmentStatistic

__all__ = ["Residual"]


class Residual(SegmentStatistic):
    """Mean one-step prediction error."""

    quantity = "error"

    @staticmethod
    def statistic(segment: Float[np.ndarray, "steps"]) -> float:
        return float(segment.mean())
