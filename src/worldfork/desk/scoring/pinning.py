"""Which way pinning the evaluation's physics biases dR: the paper's toy staleness model
("Pinned-physics bias and the forward-window arm").

A held model is `staleness` behind the world; an updated one is level with it. Pinned, the world then stands still
and updating is worth L(s) - L(0). In a forward window it drifts on by `drift` a step, both models fall further
behind, and updating is worth the mean of L(s + drift t) - L(drift t). The ratio of the two is 1 for a loss that is
linear in staleness, above 1 for a convex and below 1 for a saturating one: curvature decides, not drift alone.

The paper states the ratios (1.000; 1.98 to 10.8; 0.791 to 0.209) and not the settings. Those below give all five.
"""

import dataclasses
from collections.abc import Callable
from typing import Final

import numpy as np
from jaxtyping import Float

from worldfork.errors import WorldforkError

__all__ = ["LOSSES", "Pinning", "forward_to_pinned", "pinning_table"]

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
    """One entry of the table."""

    loss: str
    drift: float
    pinned: float
    forward: float

    @property
    def ratio(self) -> float:
        return self.forward / self.pinned


def forward_to_pinned(loss: Loss, drift: float, *, staleness: float = STALENESS, window: int = WINDOW) -> float:
    """How much of an update's value in a moving world a pinned evaluation would have to be multiplied by."""
    pinned, forward = _worth(loss, drift, staleness, window)
    return forward / pinned


def pinning_table(
    *, drifts: tuple[float, ...] = DRIFTS, staleness: float = STALENESS, window: int = WINDOW
) -> list[Pinning]:
    """Every loss at every drift."""
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
