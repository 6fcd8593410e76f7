"""How dR is distributed, as bars of a histogram whose edges never straddle zero."""

import dataclasses
import math
from typing import Final

import numpy as np
from jaxtyping import Float

from worldfork.desk.page.strips import Axis

__all__ = ["Bar", "bars"]

BARS: Final = 36  # about so many, whatever the range


@dataclasses.dataclass(frozen=True)
class Bar:
    """Forks with low <= dR < high, and their number as a share of the fullest bar's."""

    low: float
    high: float
    forks: int
    share: float

    @property
    def side(self) -> str:
        """Which side of zero it lies on."""
        return "help" if self.low >= 0 else "hurt"


def bars(delta: Float[np.ndarray, "forks"], axis: Axis) -> list[Bar]:
    """The bars between the ends of a line, on which every fork lies; empty ones are left out."""
    width = _round_width((axis.high - axis.low) / BARS)
    place = np.floor(delta / width).astype(np.int64)
    low, counts = int(place.min()), np.bincount(place - place.min())
    most = int(counts.max())
    return [
        Bar((low + index) * width, (low + index + 1) * width, int(count), count / most)
        for index, count in enumerate(counts.tolist())
        if count
    ]


def _round_width(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return power * next(times for times in (1, 2, 5, 10) if times * power >= rough)
