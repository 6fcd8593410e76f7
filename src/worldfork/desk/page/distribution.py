"""How dR is distributed, as bars of a histogram whose edges never straddle zero."""

import dataclasses
import math
import sys
from typing import Final

import numpy as np
from jaxtyping import Float

__all__ = ["Bar", "bars"]

BARS: Final = 36  # about so many, whatever the range


@dataclasses.dataclass(frozen=True)
class Bar:
    """Forks with low <= dR < high, and their number as a share of the fullest bar's; exact zeros have their own."""

    low: float
    high: float
    forks: int
    share: float

    @property
    def side(self) -> str:
        """Which side of zero it lies on."""
        return "even" if self.low < 0 < self.high else "help" if self.low >= 0 else "hurt"


def bars(delta: Float[np.ndarray, "forks"]) -> list[Bar]:
    """The bars that hold every fork, between the extremes and zero; empty ones are left out."""
    reach = max(0.0, float(delta.max())) - min(0.0, float(delta.min()))
    # The smallest numbers there are have no thirty-sixth.
    width = _round_width(max((reach or 1.0) / BARS, sys.float_info.min))
    place, counts = np.unique(np.floor(delta[delta != 0] / width).astype(np.int64), return_counts=True)
    zeros = int((delta == 0).sum())
    most = max(zeros, int(counts.max(initial=0)))
    shown = [
        Bar(index * width, (index + 1) * width, count, count / most)
        for index, count in zip(place.tolist(), counts.tolist(), strict=True)
    ]
    return [*shown, Bar(-width / 4, width / 4, zeros, zeros / most)] if zeros else shown


def _round_width(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return power * next(times for times in (1, 2, 5, 10) if times * power >= rough)
