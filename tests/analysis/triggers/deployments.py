"""Deployments that triggers are fed in these tests."""

import numpy as np

from worldfork.triggers import CellKey, Segment

SEGMENT, FORKS = 120, 6
CELLS = (CellKey("0", "away", 0), CellKey("0", "toward", 0), CellKey("1", "away", 3))


def deployment(cell: int, *, seed: int = 0, jump: float = 1.0) -> list[Segment]:
    """One deployment whose error jumps after the third segment; everything a trigger can ask for is there."""
    draws = np.random.default_rng([seed, cell])
    steps = SEGMENT * FORKS
    columns = {
        "error": draws.gamma(4, 0.05, steps) + jump * (np.arange(steps) >= SEGMENT * 3),
        "kl": draws.gamma(2, 1.0, steps),
        "reward": draws.random(steps),
    }
    signals = {name: draws.normal(size=FORKS) for name in ("residual", "return_deficit")}
    return [
        Segment(
            k=k,
            level=k / FORKS,
            steps={name: column[SEGMENT * (k - 1) : SEGMENT * k].copy() for name, column in columns.items()},
            signals={name: float(values[k - 1]) for name, values in signals.items()},
        )
        for k in range(1, FORKS + 1)
    ]
