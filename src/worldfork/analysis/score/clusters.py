"""Forks into cells, cells into checkpoints: the one place where clusters are formed.

A cell is (checkpoint, direction, stream seed); the cluster is the checkpoint (paper, "Design and inference").
"""

import dataclasses
import itertools

import numpy as np
from jaxtyping import Float, Int

from worldfork.analysis.read.prefork import ForkCodes, ForkValues, Prefork

ClusterMeans = Float[np.ndarray, "clusters"]


@dataclasses.dataclass(frozen=True)
class Partition:
    """The checkpoint and direction that every cell and every fork belongs to."""

    checkpoints: tuple[str, ...]
    directions: tuple[str, ...]
    cell: ForkCodes
    cell_checkpoint: Int[np.ndarray, "cells"]
    cell_direction: Int[np.ndarray, "cells"]

    @property
    def checkpoint(self) -> ForkCodes:
        """The checkpoint of each fork."""
        return self.cell_checkpoint[self.cell]

    @property
    def direction(self) -> ForkCodes:
        """The direction of each fork."""
        return self.cell_direction[self.cell]

    def by_checkpoint(self) -> list[Int[np.ndarray, "own"]]:
        """Return the forks of each checkpoint."""
        checkpoint = self.checkpoint
        order = np.argsort(checkpoint, kind="stable")
        bounds = np.searchsorted(checkpoint[order], np.arange(len(self.checkpoints) + 1))
        return [order[start:stop] for start, stop in itertools.pairwise(bounds)]

    def means_of_checkpoints(self, values: ForkValues) -> Float[np.ndarray, "present"]:
        """Return means over cells, then checkpoints, as of dR; checkpoints without a fork are left out."""
        means = self.checkpoint_means(self.cell_means(values))
        return means[~np.isnan(means)]

    def cell_means(self, values: ForkValues) -> Float[np.ndarray, "cells"]:
        """Return the mean of each cell; NaN where a cell has no forks."""
        return group_means(values, self.cell, len(self.cell_checkpoint))

    def checkpoint_means(self, cell_values: Float[np.ndarray, "cells"]) -> Float[np.ndarray, "checkpoints"]:
        """Return the mean over each checkpoint's cells that have one; NaN where none has."""
        present = ~np.isnan(cell_values)
        return group_means(cell_values[present], self.cell_checkpoint[present], len(self.checkpoints))


def partition(prefork: Prefork) -> Partition:
    """Return the partition of these forks. Checkpoints and directions that have no fork are kept, with NaN as their
    mean."""
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


def strata(first: ForkCodes, second: ForkCodes) -> ForkCodes:
    """Return a number for each pair, such as (direction, k)."""
    _, which_first = np.unique(first, return_inverse=True)
    seconds, which_second = np.unique(second, return_inverse=True)
    return np.unique(which_first * len(seconds) + which_second, return_inverse=True)[1]


def place_of(prefork: Prefork) -> ForkCodes:
    """Return a number for each (direction, stream seed, k), which a checkpoint has once."""
    stream = np.array([cell.stream_seed for cell in prefork.cells])[prefork.cell]
    return strata(strata(partition(prefork).direction, stream), prefork.k)


def natural(name: str) -> tuple[int, int, str]:
    """Return a sort key that puts checkpoint 2 before checkpoint 10, and names that are no numbers after those that
    are."""
    return (0, int(name), name) if name.isdecimal() else (1, 0, name)
