"""The toy staleness model: by how much a pinned evaluation understates an update in a moving world."""

import dataclasses
from collections.abc import Callable
from typing import Final

import numpy as np
from jaxtyping import Float

from worldfork.errors import WorldforkError

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


def forward_to_pinned(loss: Loss, drift: float, *, staleness: float = STALENESS, window: int = WINDOW) -> float:
    """Return the factor by which a pinned evaluation understates an update's value in a moving world."""
    pinned, forward = _worth(loss, drift, staleness, window)
    return forward / pinned


def pinning_table(
    *, drifts: tuple[float, ...] = DRIFTS, staleness: float = STALENESS, window: int = WINDOW
) -> list[Pinning]:
    """Return every loss at every drift."""
    return [
        Pinning(name, drift, *_worth(loss, drift, staleness, window))
        for name, loss in LOSSES.items()
        for drift in drifts
    ]


def _worth(loss: Loss, drift: float, staleness: float, window: int) -> tuple[float, float]:
    if staleness <= 0 or drift < 0 or window < 1:
        raise WorldforkError(
            "The staleness model needs staleness > 0, drift >= 0 and a window of at least one step; "
            f"got {staleness}, {drift} and {window}."
        )
    ahead = drift * np.arange(window)
    pinned = float(loss(np.array([staleness]))[0] - loss(np.array([0.0]))[0])
    return pinned, float((loss(staleness + ahead) - loss(ahead)).mean())
