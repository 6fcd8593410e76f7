"""A conformal test martingale on the error stream (Vovk et al., 2021, "Retrain or not retrain").

Each error gets a conformal p-value: its randomised rank among the errors so far. While errors are exchangeable
these are independent and uniform, and betting against uniformity gains nothing: by Ville's inequality the capital
ever reaches 100 with probability at most 1 in 100. When it does, that is the alarm, and the test starts afresh.
"""

import bisect
import dataclasses
from typing import Final

import numpy as np
from jaxtyping import Float
from pydantic import Field

from worldfork.randomness import Event, generator
from worldfork.triggers.base import CellKey
from worldfork.triggers.detectors import Detector

__all__ = ["ConformalMartingale"]

BETS: Final = (-1.0, 0.0, 1.0)  # slopes: small p-values are likely, nothing, large p-values are likely


@dataclasses.dataclass
class _Betting:
    """The errors since the last alarm, in order of size, and the capital on each bet."""

    draws: np.random.Generator
    seen: list[float] = dataclasses.field(default_factory=list)
    capital: list[float] = dataclasses.field(default_factory=lambda: [1 / len(BETS)] * len(BETS))


class ConformalMartingale(Detector):
    """The Simple Jumper: three linear bets on the p-value, a little capital moving between them."""

    capital: float = Field(default=100.0, gt=1)  # what the capital must reach
    jump: float = Field(default=0.01, ge=0, le=1)  # share that is dealt out anew over the bets at each step

    def begin(self, cell: CellKey, *, event: Event) -> _Betting:
        return _Betting(generator(event))

    def show(self, memory: _Betting, errors: Float[np.ndarray, "shown"]) -> tuple[_Betting, bool]:
        alarmed = False
        for error, tie in zip(errors.tolist(), memory.draws.random(len(errors)).tolist(), strict=True):
            self._bet(memory, error, tie)
            if sum(memory.capital) >= self.capital:
                alarmed = True
                memory = _Betting(memory.draws)
        return memory, alarmed

    def _bet(self, memory: _Betting, error: float, tie: float) -> None:
        seen = memory.seen
        bisect.insort(seen, error)
        below, up_to = bisect.bisect_left(seen, error), bisect.bisect_right(seen, error)
        # Large errors are strange: small p.
        p = (len(seen) - up_to + tie * (up_to - below)) / len(seen)
        total = sum(memory.capital)
        memory.capital = [
            ((1 - self.jump) * held + self.jump * total / len(BETS)) * (1 + bet * (p - 0.5))
            for held, bet in zip(memory.capital, BETS, strict=True)
        ]
