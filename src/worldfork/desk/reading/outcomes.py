"""What followed a fork: the returns of both branches, and dR (paper, "Paired labels")."""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float

from worldfork.desk.reading.prefork import Prefork
from worldfork.errors import WorldforkError

__all__ = ["Forks", "Outcomes", "join"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcomes:
    """Returns as columns, in the order of the `Prefork` they belong to."""

    r_hold: Float[np.ndarray, "forks"]
    r_update: Float[np.ndarray, "forks"]
    hold: Float[np.ndarray, "forks episodes"] | None = None  # padded with NaN where forks have fewer episodes
    update: Float[np.ndarray, "forks episodes"] | None = None  # the mean over draws, where there are several
    drawn: Float[np.ndarray, "forks draws episodes"] | None = None  # every draw of the update by itself

    @property
    def delta(self) -> Float[np.ndarray, "forks"]:
        """dR: what updating was worth."""
        return self.r_update - self.r_hold

    def take(self, keep: Bool[np.ndarray, "forks"]) -> "Outcomes":
        """The forks where `keep` is true."""
        return Outcomes(
            r_hold=self.r_hold[keep],
            r_update=self.r_update[keep],
            hold=None if self.hold is None else self.hold[keep],
            update=None if self.update is None else self.update[keep],
            drawn=None if self.drawn is None else self.drawn[keep],
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Forks:
    """The forks of one task and one arm: what was known before, and what followed."""

    prefork: Prefork
    outcomes: Outcomes
    gradient_steps: int | None = None  # N of one update, where it is known

    def __len__(self) -> int:
        return len(self.prefork)

    @property
    def task(self) -> str:
        return self.prefork.task

    @property
    def delta(self) -> Float[np.ndarray, "forks"]:
        return self.outcomes.delta

    def take(self, keep: Bool[np.ndarray, "forks"]) -> "Forks":
        """The forks where `keep` is true; cells keep their index."""
        return dataclasses.replace(self, prefork=self.prefork.take(keep), outcomes=self.outcomes.take(keep))


def join(parts: Sequence[Forks]) -> Forks:
    """The forks of several arms that differ in their stream seeds alone, as one; signals and logs stay behind."""
    cells = sorted(cell for part in parts for cell in part.prefork.cells)
    for one, other in itertools.pairwise(cells):
        if one == other:
            raise WorldforkError(
                f"Two ledgers both have checkpoint {one.checkpoint}, {one.direction}, stream seed "
                f"{one.stream_seed}. A replication has stream seeds of its own."
            )
    code = {cell: index for index, cell in enumerate(cells)}
    cell = np.concatenate([[code[part.prefork.cells[index]] for index in part.prefork.cell] for part in parts])
    k = np.concatenate([part.prefork.k for part in parts])
    order = np.lexsort((k, cell))
    return Forks(
        prefork=Prefork(
            task=parts[0].task,
            cells=tuple(cells),
            cell=cell[order].astype(np.int64),
            k=k[order],
            level=np.concatenate([part.prefork.level for part in parts])[order],
            signals={},
            step=np.concatenate([part.prefork.step for part in parts])[order],
        ),
        outcomes=Outcomes(
            r_hold=np.concatenate([part.outcomes.r_hold for part in parts])[order],
            r_update=np.concatenate([part.outcomes.r_update for part in parts])[order],
        ),
    )
