"""Raw KL between posterior and prior, without free bits (registered family 4)."""

import numpy as np
from jaxtyping import Float

from worldfork.desk.triggers.base import SegmentStatistic

__all__ = ["RawKL"]


class RawKL(SegmentStatistic):
    """Mean raw KL over the segment."""

    quantity = "kl"

    @staticmethod
    def statistic(segment: Float[np.ndarray, "steps"]) -> float:
        return float(segment.mean())
