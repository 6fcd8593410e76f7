"""Which deployments run together: all policies of some cells of one task, from the registration alone."""

import dataclasses
import functools
from itertools import groupby

from worldfork.registration import Cell, Registration, deployments

__all__ = ["Batch", "deployment_batches"]


@dataclasses.dataclass(frozen=True)
class Batch:
    """Cells that are deployed together, each under every policy; a parameter set is a policy on a cell."""

    policies: tuple[str, ...]
    cells: tuple[tuple[Cell, ...], ...]  # for each policy its cells: they differ in the arm that names them alone
    size: int  # cells in a full batch

    @property
    def task(self) -> str:
        return self.cells[0][0].task

    @property
    def name(self) -> str:
        """After its first cell."""
        return self.cells[0][0].id

    @functools.cached_property
    def sets(self) -> tuple[tuple[str, Cell], ...]:
        """The parameter sets in order: policy by policy, and within a policy cell by cell."""
        return tuple((policy, cell) for policy, of in zip(self.policies, self.cells, strict=True) for cell in of)

    def padded(self) -> "tuple[Batch, tuple[int, ...]]":
        """The batch filled up with its last cell (one shape, one set of digits), and which of the filled batch's
        sets are this one's."""
        count = len(self.cells[0])
        filled = tuple((*of, *[of[-1]] * (self.size - count)) for of in self.cells)
        real = tuple(number * self.size + index for number in range(len(self.policies)) for index in range(count))
        return dataclasses.replace(self, cells=filled), real


def deployment_batches(registration: Registration) -> list[Batch]:
    """All policies of `cells_per_batch` cells at a time, one task after the other."""
    if registration.deployment is None:
        return []
    by_policy: dict[str, list[Cell]] = {}
    for policy, cell in deployments(registration):
        by_policy.setdefault(policy, []).append(cell)
    first = next(iter(by_policy.values()))
    batches = []
    for _, group in groupby(range(len(first)), key=lambda index: first[index].task):
        places = list(group)
        size = min(registration.deployment.cells_per_batch or len(places), len(places))
        for start in range(0, len(places), size):
            chosen = places[start : start + size]
            cells = tuple(tuple(of[index] for index in chosen) for of in by_policy.values())
            batches.append(Batch(tuple(by_policy), cells, size))
    return batches
