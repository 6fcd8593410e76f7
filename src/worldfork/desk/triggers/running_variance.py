"""Running variance of the one-step error (registered family 2)."""

import numpy as np
from jaxtyping import Float

from worldfork.desk.triggers.base import SegmentStatistic

__all__ = ["RunningVariance"]


class RunningVariance(SegmentStatistic):
    """Variance of the one-step error over the segment, ddof 1."""

    quantity = "error"

    @staticmethod
    def statistic(segment: Float[np.ndarray, "steps"]) -> float:
        return float(segment.var(ddof=1))
