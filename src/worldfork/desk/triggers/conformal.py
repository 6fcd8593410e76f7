"""A conformal test martingale on the error stream (Vovk et al., 2021, "Retrain or not retrain").

Each error gets a conformal p-value: its randomised rank among the errors so far. While errors are exchangeable
these are independent and uniform, and betting against uniformity gains nothing: by Ville's inequality the capital
ever reaches 100 with probability at most 1 in 100. When it does, that is the alarm, and the test starts afresh.
"""

import bisect

import numpy as np
from jaxtyping import Bool, Float

from worldfork.desk.triggers.detector import Detector
from worldfork.randomness import Event, generator

__all__ = ["ConformalMartingale"]

CAPITAL = 100.0  # what the capital must reach
JUMP = 0.01  # share of the capital that is dealt out anew over the three bets at each step
BETS = (-1.0, 0.0, 1.0)  # slopes: small p-values are likely, nothing, large p-values are likely


class ConformalMartingale(Detector):
    """The Simple Jumper: three linear bets on the p-value, a little capital moving between them."""

    def alarms(
        self, errors: Float[np.ndarray, "steps"], *, segment: int, event: Event
    ) -> Bool[np.ndarray, "steps"]:
        ties = generator(event.at(iteration=2)).random(len(errors)).tolist()
        alarmed = np.zeros(len(errors), bool)
        seen: list[float] = []
        capital = [1 / len(BETS)] * len(BETS)
        for step, (error, tie) in enumerate(zip(errors.tolist(), ties, strict=True)):
            bisect.insort(seen, error)
            below, up_to = bisect.bisect_left(seen, error), bisect.bisect_right(seen, error)
            # Large errors are strange: small p.
            p = (len(seen) - up_to + tie * (up_to - below)) / len(seen)
            total = sum(capital)
            capital = [
                ((1 - JUMP) * held + JUMP * total / len(BETS)) * (1 + bet * (p - 0.5))
                for held, bet in zip(capital, BETS, strict=True)
            ]
            if sum(capital) >= CAPITAL:
                alarmed[step] = True
                seen, capital = [], [1 / len(BETS)] * len(BETS)
        return alarmed
