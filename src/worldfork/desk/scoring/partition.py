"""Forks into cells, cells into checkpoints: the one place where clusters are formed.

A cell is (checkpoint, direction, stream seed); the cluster is the checkpoint (paper, "Design and inference").
"""

import dataclasses
import itertools

import numpy as np
from jaxtyping import Float, Int

from worldfork.desk.reading.prefork import Prefork

__all__ = ["Partition", "partition"]


@dataclasses.dataclass(frozen=True)
class Partition:
    """Which checkpoint and direction every cell and every fork belongs to."""

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
        """The forks of each checkpoint."""
        checkpoint = self.checkpoint
        order = np.argsort(checkpoint, kind="stable")
        bounds = np.searchsorted(checkpoint[order], np.arange(len(self.checkpoints) + 1))
        return [order[start:stop] for start, stop in itertools.pairwise(bounds)]

    def cell_means(self, values: Float[np.ndarray, "forks"]) -> Float[np.ndarray, "cells"]:
        """The mean of each cell; NaN where a cell has no forks."""
        return group_means(values, self.cell, len(self.cell_checkpoint))

    def checkpoint_means(self, cell_values: Float[np.ndarray, "cells"]) -> Float[np.ndarray, "checkpoints"]:
        """The mean over each checkpoint's cells that have one; NaN where none has."""
        known = ~np.isnan(cell_values)
        return group_means(cell_values[known], self.cell_checkpoint[known], len(self.checkpoints))


def partition(prefork: Prefork) -> Partition:
    """The partition of these forks. Checkpoints and directions without a fork are left out of nothing: they keep
    their place and have undefined means."""
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
    """The mean of each group; NaN for an empty one."""
    sizes = np.bincount(group, minlength=count)
    sums = np.bincount(group, weights=values, minlength=count)
    return np.divide(sums, sizes, out=np.full(count, np.nan), where=sizes > 0)


def natural(name: str) -> tuple[int, int, str]:
    """Checkpoint 2 before checkpoint 10; names that are no numbers after those that are."""
    return (0, int(name), name) if name.isdecimal() else (1, 0, name)
