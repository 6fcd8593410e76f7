"""The stream up to a fork, which a trigger may see, and nothing of what followed.

One record holds every fork of one task and one arm as columns, sorted by cell and then by k. It knows neither
returns nor dR, and the import contract "a trigger never sees an outcome" keeps it so (paper, "Scoring").
"""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from worldfork.triggers import Answer, Asked, CellKey

# Columns of a table of forks.
ForkValues = Float[np.ndarray, "forks"]
ForkFlags = Bool[np.ndarray, "forks"]
ForkCodes = Int[np.ndarray, "forks"]


@dataclasses.dataclass(frozen=True, eq=False)
class StreamLog:
    """The step log of one cell's frozen deployment; entry t of a column belongs to control step t + 1."""

    columns: Mapping[str, Float[np.ndarray, "steps"]]  # error, kl, reward and whatever else the agent offers

    def __post_init__(self) -> None:
        for column in self.columns.values():
            column.setflags(write=False)  # many triggers read one log

    def between(self, start: int, stop: int) -> dict[str, Float[np.ndarray, "some"]]:
        """Return every column from control step `start` + 1 to `stop`: copies, since a view knows what it was cut
        from. Steps past an episode's end, where nothing happened, are left out."""
        real = self.columns["real"][start:stop] != 0.0 if "real" in self.columns else slice(None)
        columns = {name: column[start:stop][real].copy() for name, column in self.columns.items() if name != "real"}
        for column in columns.values():
            column.setflags(write=False)
        return columns


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prefork:
    """The forks of one task and one arm, as a trigger sees them."""

    task: str
    cells: tuple[CellKey, ...]
    cell: ForkCodes  # index into `cells`, ascending
    k: ForkCodes  # decision point, ascending within a cell
    level: ForkValues  # drift level; NaN where it was not recorded
    signals: Mapping[str, ForkValues]  # as recorded before the fork; NaN is a missing signal
    step: ForkCodes  # control steps of the stream before the fork; 0 without a stream
    streams: tuple[StreamLog | None, ...] = ()  # one per cell, or none at all
    # One per cell, or none at all: the answers at k = 1, 2, ... on a stream that is not here, by who was asked.
    answers: tuple[Mapping[Asked, Sequence[Answer]], ...] = ()

    def __len__(self) -> int:
        return len(self.cell)

    def spans(self) -> Iterator[tuple[int, slice]]:
        """Yield each cell that has forks, with the slice they occupy."""
        bounds = np.searchsorted(self.cell, np.arange(len(self.cells) + 1))
        for index, (start, stop) in enumerate(itertools.pairwise(bounds)):
            if stop > start:
                yield index, slice(int(start), int(stop))

    def stream(self, cell: int) -> StreamLog | None:
        """Return the step log of a cell, where there is one."""
        return self.streams[cell] if self.streams else None

    def answered(self, cell: int) -> Mapping[Asked, Sequence[Answer]]:
        """Return what is known of a cell's stream where it is not here."""
        return self.answers[cell] if self.answers else {}

    def take(self, keep: ForkFlags) -> "Prefork":
        """Return the forks where `keep` is true; cells keep their index even when they become empty."""
        return dataclasses.replace(
            self,
            cell=self.cell[keep],
            k=self.k[keep],
            level=self.level[keep],
            signals={name: values[keep] for name, values in self.signals.items()},
            step=self.step[keep],
        )
