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
from worldfork.triggers.base import CellKey, Detector

BETS: Final = (-1.0, 0.0, 1.0)  # slopes: small p-values are likely, nothing, large p-values are likely


@dataclasses.dataclass(frozen=True)
class _Betting:
    """The errors since the last alarm, in order of size, and the capital on each bet."""

    draws: np.random.Generator
    seen: Float[np.ndarray, "seen"] = dataclasses.field(default_factory=lambda: np.zeros(0))
    capital: tuple[float, float, float] = (1 / len(BETS),) * 3


class ConformalMartingale(Detector):
    """The Simple Jumper: three linear bets on the p-value, a little capital moving between them.

    Args:
        capital: what the capital must reach for an alarm; its inverse bounds the probability of a false one.
        jump: the share that is dealt out anew over the bets at each step.

    >>> trigger = ConformalMartingale(capital=20.0)
    """

    capital: float = Field(default=100.0, gt=1)  # what the capital must reach
    jump: float = Field(default=0.01, ge=0, le=1)  # share that is dealt out anew over the bets at each step

    def begin(self, cell: CellKey, *, event: Event) -> _Betting:
        return _Betting(generator(event))

    def show(self, memory: _Betting, errors: Float[np.ndarray, "shown"]) -> tuple[_Betting, bool]:
        alarmed, enough, jump, stay = False, self.capital, self.jump, 1 - self.jump
        seen, (low, flat, high) = memory.seen.tolist(), memory.capital
        count, bets, bisect_left, bisect_right = len(seen), len(BETS), bisect.bisect_left, bisect.bisect_right
        total = low + flat + high
        for error, tie in zip(errors.tolist(), memory.draws.random(len(errors)).tolist(), strict=True):
            place = bisect_right(seen, error)
            # Large errors are strange: small p. The error is among those of its own size.
            if place and seen[place - 1] == error:
                rank = count - place + tie * (place + 1 - bisect_left(seen, error))
            else:
                rank = count - place + tie
            seen.insert(place, error)
            count += 1
            centred = rank / count - 0.5
            dealt = jump * total / bets
            # A bet of slope b multiplies its capital by 1 + b (p - 1/2).
            low = (stay * low + dealt) * (1 - centred)
            flat = stay * flat + dealt
            high = (stay * high + dealt) * (1 + centred)
            total = low + flat + high
            if total >= enough:
                alarmed = True
                seen, count, (low, flat, high) = [], 0, _Betting.capital
                total = low + flat + high
        return _Betting(memory.draws, np.array(seen), (low, flat, high)), alarmed
