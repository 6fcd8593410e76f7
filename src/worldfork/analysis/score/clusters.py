"""Forks into cells, cells into checkpoints: the one place where clusters are formed.

A cell is (checkpoint, direction, stream seed); the cluster is the checkpoint (paper, "Design and inference").
"""

import dataclasses
import itertools
from collections.abc import Callable
from typing import Final

import numpy as np
from jaxtyping import Float, Int

from worldfork.analysis.read.prefork import Prefork
from worldfork.errors import WorldforkError


@dataclasses.dataclass(frozen=True)
class Partition:
    """The checkpoint and direction that every cell and every fork belongs to."""

    checkpoints: tuple[str, ...]
    directions: tuple[str, ...]
    cell: Int[np.ndarray, "forks"]
    cell_checkpoint: Int[np.ndarray, "cells"]
    cell_direction: Int[np.ndarray, "cells"]

    @property
    def checkpoint(self) -> Int[np.ndarray, "forks"]:
        """The checkpoint of each fork."""
        return self.cell_checkpoint[self.cell]

    @property
    def direction(self) -> Int[np.ndarray, "forks"]:
        """The direction of each fork."""
        return self.cell_direction[self.cell]

    def by_checkpoint(self) -> list[Int[np.ndarray, "own"]]:
        """Return the forks of each checkpoint."""
        checkpoint = self.checkpoint
        order = np.argsort(checkpoint, kind="stable")
        bounds = np.searchsorted(checkpoint[order], np.arange(len(self.checkpoints) + 1))
        return [order[start:stop] for start, stop in itertools.pairwise(bounds)]

    def cell_means(self, values: Float[np.ndarray, "forks"]) -> Float[np.ndarray, "cells"]:
        """Return the mean of each cell; NaN where a cell has no forks."""
        return group_means(values, self.cell, len(self.cell_checkpoint))

    def checkpoint_means(self, cell_values: Float[np.ndarray, "cells"]) -> Float[np.ndarray, "checkpoints"]:
        """Return the mean over each checkpoint's cells that have one; NaN where none has."""
        present = ~np.isnan(cell_values)
        return group_means(cell_values[present], self.cell_checkpoint[present], len(self.checkpoints))


def partition(prefork: Prefork) -> Partition:
    """Return the partition of these forks. Checkpoints and directions without a fork are left out of nothing: they
    keep their place and have undefined means."""
    checkpoints = {
        name: code for code, name in enumerate(sorted({c.checkpoint for c in prefork.cells}, key=natural))
    }
    directions = {name: code for code, name in enumerate(sorted({cell.direction for cell in prefork.cells}))}
    return Partition(
        checkpoints=tuple(checkpoints),
        directions=tuple(directions),
        cell=prefork.cell,
        cell_checkpoint=np.array([checkpoints[cell.checkpoint] for cell in prefork.cells], np.int64),
        cell_direction=np.array([directions[cell.direction] for cell in prefork.cells], np.int64),
    )


def group_means(
    values: Float[np.ndarray, "values"], group: Int[np.ndarray, "values"], count: int
) -> Float[np.ndarray, "{count}"]:
    """Return the mean of each group; NaN for an empty one."""
    sizes = np.bincount(group, minlength=count)
    sums = np.bincount(group, weights=values, minlength=count)
    return np.divide(sums, sizes, out=np.full(count, np.nan), where=sizes > 0)


def natural(name: str) -> tuple[int, int, str]:
    """Return a sort key that puts checkpoint 2 before checkpoint 10, and names that are no numbers after those that
    are."""
    return (0, int(name), name) if name.isdecimal() else (1, 0, name)


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
