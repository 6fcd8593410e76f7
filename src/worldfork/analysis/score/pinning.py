"""The toy staleness model: by how much a pinned evaluation understates an update in a moving world."""

import dataclasses
from collections.abc import Callable
from typing import Final

import numpy as np
from jaxtyping import Float

Loss = Callable[[Float[np.ndarray, "*steps"]], Float[np.ndarray, "*steps"]]
WINDOW: Final = 50  # steps of the forward window
STALENESS: Final = 1.0
DRIFTS: Final = (0.02, 0.05, 0.1, 0.2)  # per step
LOSSES: Final[dict[str, Loss]] = {
    "linear": lambda staleness: staleness,
    "convex": lambda staleness: staleness**2,
    "saturating": lambda staleness: 1 - np.exp(-staleness / 2),
}


@dataclasses.dataclass(frozen=True)
class Pinning:
    """An entry of the table: one loss at one drift."""

    loss: str
    drift: float
    pinned: float
    forward: float

    @property
    def ratio(self) -> float:
        return self.forward / self.pinned


def pinning_table(
    *, drifts: tuple[float, ...] = DRIFTS, staleness: float = STALENESS, window: int = WINDOW
) -> list[Pinning]:
    """Return every loss at every drift: the worth of an update in a pinned world, and in one that moves on."""
    table = []
    for name, loss in LOSSES.items():
        for drift in drifts:
            ahead = drift * np.arange(window)
            pinned = float(loss(np.array([staleness]))[0] - loss(np.array([0.0]))[0])
            table.append(Pinning(name, drift, pinned, float((loss(staleness + ahead) - loss(ahead)).mean())))
    return table
