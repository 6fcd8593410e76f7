"""A high percentile of the one-step error (registered family 3)."""

import numpy as np
from jaxtyping import Float

from worldfork.desk.triggers.base import SegmentStatistic

__all__ = ["Percentile"]


class Percentile(SegmentStatistic):
    """The 95th percentile of the one-step error over the segment, linearly interpolated."""

    quantity = "error"

    @staticmethod
    def statistic(segment: Float[np.ndarray, "steps"]) -> float:
        return float(np.percentile(segment, 95))
