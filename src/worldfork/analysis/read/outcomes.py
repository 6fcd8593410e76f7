"""Outcomes of forks: the returns of both branches, and dR (paper, "Paired labels")."""

import dataclasses
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from worldfork.analysis.read.prefork import ForkFlags, ForkValues, Prefork
from worldfork.errors import WorldforkError

LARGEST: Final = 1e150  # return whose square is finite: variances are sums of squares

Returns = Sequence[float | None] | Float[np.ndarray, "_"]  # of episodes; None is one that was not finite


def require_scorable(returns: Iterable[float | None], *, where: str) -> None:
    """Refuse returns so large that what is computed from them would overflow."""
    for value in returns:
        if value is not None and abs(value) > LARGEST:
            raise WorldforkError(
                f"{where}: a return of {value:g}; figures are computed of returns up to {LARGEST:g}. Give the "
                "world's rewards another unit."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcomes:
    """Returns as columns, in the order of the `Prefork` they belong to."""

    r_hold: ForkValues
    r_update: ForkValues
    failed_hold: ForkFlags  # where the branch had no finite return, so that its mean is what a failure counts as
    failed_update: ForkFlags
    hold: Float[np.ndarray, "forks episodes"] | None = None  # padded with NaN where forks have fewer episodes
    update: Float[np.ndarray, "forks episodes"] | None = None  # the mean over draws, where there are several
    drawn: Float[np.ndarray, "forks draws episodes"] | None = None  # every draw of the update by itself
    cost: float = 0.0  # of an update, in return

    @property
    def failed(self) -> ForkFlags:
        """Forks in which either branch failed."""
        return self.failed_hold | self.failed_update

    @property
    def delta(self) -> ForkValues:
        """dR: r_update less r_hold, less what an update costs."""
        return self.r_update - self.r_hold - self.cost if self.cost else self.r_update - self.r_hold

    def take(self, keep: ForkFlags) -> "Outcomes":
        """Return the forks where `keep` is true."""
        columns = {name: value[keep] for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        return dataclasses.replace(self, **columns)


@dataclasses.dataclass(frozen=True)
class Draw:
    """The outcome of one draw of an update's minibatches at one fork."""

    r_hold: float
    r_update: float
    hold: Returns = ()
    update: Returns = ()
    failed_hold: bool = False  # the return is what a failure counts as
    failed_update: bool = False


def over_draws(forks: Sequence[Sequence[Draw]]) -> Outcomes:
    """Return every fork with the mean over the draws of its update's minibatches. HOLD draws none: the first one's
    stands for all."""
    first = [draws[0] for draws in forks]
    updates = [pad([draw.update for draw in draws]) for draws in forks]
    averaged: list[Returns] = [
        () if update is None else update.mean(axis=0) if len(update) > 1 else update[0] for update in updates
    ]
    there = [update for update in updates if update is not None]
    alike = len(there) == len(forks) and len({update.shape for update in there}) == 1
    return Outcomes(
        r_hold=np.array([draw.r_hold for draw in first], dtype=np.float64),
        hold=pad([draw.hold for draw in first]),
        r_update=np.array([math.fsum(draw.r_update for draw in draws) / len(draws) for draws in forks]),
        update=pad(averaged),
        drawn=np.stack(there) if alike and len(there[0]) > 1 else None,
        failed_hold=np.array([any(draw.failed_hold for draw in draws) for draws in forks], dtype=bool),
        failed_update=np.array([any(draw.failed_update for draw in draws) for draws in forks], dtype=bool),
    )


def pad(rows: Sequence[Returns]) -> Float[np.ndarray, "rows episodes"] | None:
    """Return returns of episodes side by side, NaN where a row has fewer of them; None where no row has any."""
    width = max((len(values) for values in rows), default=0)
    if not width:
        return None
    if all(len(values) == width for values in rows):
        return np.array(rows, dtype=np.float64)
    padded = np.full((len(rows), width), np.nan)
    for index, values in enumerate(rows):
        padded[index, : len(values)] = np.array(values, dtype=np.float64)
    return padded


@dataclasses.dataclass(frozen=True, kw_only=True)
class Forks:
    """The forks of one task and one arm: what was known before, and what followed."""

    prefork: Prefork
    outcomes: Outcomes
    gradient_steps: int | None = None  # N of one update, where it is known
    clean: Mapping[str, float] = dataclasses.field(default_factory=dict)  # the clean return of each checkpoint
    failure_return: float | None = None  # what a branch without a finite return counts as

    def __len__(self) -> int:
        return len(self.prefork)

    @property
    def task(self) -> str:
        return self.prefork.task

    @property
    def delta(self) -> ForkValues:
        return self.outcomes.delta

    @property
    def failing_is_best(self) -> bool:
        """Return whether some branch failed, and counts as more than every return that there is."""
        outcomes = self.outcomes
        if self.failure_return is None or not outcomes.failed.any():
            return False
        returned = np.r_[outcomes.r_hold[~outcomes.failed_hold], outcomes.r_update[~outcomes.failed_update]]
        return bool(len(returned)) and self.failure_return > float(returned.max())

    def take(self, keep: ForkFlags) -> "Forks":
        """Return the forks where `keep` is true; cells keep their index."""
        return dataclasses.replace(self, prefork=self.prefork.take(keep), outcomes=self.outcomes.take(keep))


def join(parts: Sequence[Forks]) -> Forks:
    """Return the forks of several arms that differ in their stream seeds alone, as one; signals and logs stay
    behind."""
    cells = sorted(cell for part in parts for cell in part.prefork.cells)
    for cell, following in itertools.pairwise(cells):
        if cell == following:
            raise WorldforkError(
                f"Two ledgers both have checkpoint {cell.checkpoint}, {cell.direction}, stream seed "
                f"{cell.stream_seed}. A replication has stream seeds of its own."
            )
    code = {cell: index for index, cell in enumerate(cells)}
    codes = np.concatenate([[code[part.prefork.cells[index]] for index in part.prefork.cell] for part in parts])
    k = np.concatenate([part.prefork.k for part in parts])
    order = np.lexsort((k, codes))
    return Forks(
        prefork=Prefork(
            task=parts[0].task,
            cells=tuple(cells),
            cell=codes[order].astype(np.int64),
            k=k[order],
            level=np.concatenate([part.prefork.level for part in parts])[order],
            signals={},
            step=np.concatenate([part.prefork.step for part in parts])[order],
        ),
        outcomes=Outcomes(
            r_hold=np.concatenate([part.outcomes.r_hold for part in parts])[order],
            r_update=np.concatenate([part.outcomes.r_update for part in parts])[order],
            failed_hold=np.concatenate([part.outcomes.failed_hold for part in parts])[order],
            failed_update=np.concatenate([part.outcomes.failed_update for part in parts])[order],
        ),
    )


EPISODES: Final = ("hold", "update")  # the columns that hold a list: the return of every episode
SIGNAL: Final = "signal_"


@runtime_checkable
class Frame(Protocol):
    """A data frame of any library that speaks Arrow: polars, pyarrow, pandas, ..."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


Arms = Mapping[str, Mapping[str, Forks]]  # by arm, then by task


@dataclasses.dataclass(frozen=True)
class ForkTable:
    """Forks by arm and task, the columns that were not read, and the forks that failed."""

    arms: Arms
    ignored: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()  # one sentence for each fork with a branch whose return is not finite
    # Of a flat table: False where it has costs, whose signs were turned when it was read. None of a study.
    higher_is_better: bool | None = None

    def __len__(self) -> int:
        return sum(len(forks) for tasks in self.arms.values() for forks in tasks.values())
