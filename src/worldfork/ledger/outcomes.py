"""What followed a fork: the returns of both branches, dR, and divergence (paper, "Paired labels")."""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float

from worldfork.errors import WorldforkError
from worldfork.ledger.prefork import Prefork

__all__ = ["Divergence", "Forks", "Outcomes", "diverged", "join"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcomes:
    """Returns as columns, in the order of the `Prefork` they belong to."""

    r_hold: Float[np.ndarray, "forks"]
    r_update: Float[np.ndarray, "forks"]
    hold: Float[np.ndarray, "forks episodes"] | None = None  # padded with NaN where forks have fewer episodes
    update: Float[np.ndarray, "forks episodes"] | None = None

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


@dataclasses.dataclass(frozen=True)
class Divergence:
    """Which forks the rule drops, and in which cells it does not apply."""

    dropped: Bool[np.ndarray, "forks"]
    off: tuple[str, ...]  # one reason per cell without the rule


def diverged(forks: Forks, fraction: float | None) -> Divergence:
    """A fork diverged when r_update < fraction * mean r_hold of its cell's attempted forks.

    Below a mean of zero a fraction of it would be a reward for collapse: the rule is off in such cells. A
    `fraction` of None switches it off everywhere.
    """
    dropped = np.zeros(len(forks), bool)
    off = []
    if fraction is not None:
        for index, span in forks.prefork.spans():
            reference = float(forks.outcomes.r_hold[span].mean())
            if reference > 0:
                dropped[span] = forks.outcomes.r_update[span] < fraction * reference
            else:
                key = forks.prefork.cells[index]
                off.append(
                    f"cell {key.checkpoint}/{key.direction}/{key.stream_seed}: mean r_hold is {reference:.4g}, "
                    "and the divergence rule needs a positive one"
                )
    return Divergence(dropped, tuple(off))
