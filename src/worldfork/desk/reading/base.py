"""What can be read beside a study, and what comes out: somebody's data frame, and forks by arm and task."""

import dataclasses
from collections.abc import Mapping
from typing import Final, Protocol, runtime_checkable

from worldfork.desk.reading.outcomes import Forks

__all__ = ["EPISODES", "SIGNAL", "Frame", "Table"]

EPISODES: Final = ("hold", "update")  # the columns that hold a list: the return of every episode
SIGNAL: Final = "signal_"


@runtime_checkable
class Frame(Protocol):
    """A data frame of any library that speaks Arrow: polars, pyarrow, pandas, ..."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


@dataclasses.dataclass(frozen=True)
class Table:
    """Forks by arm and task, the columns that were not read, and the forks that failed."""

    arms: Mapping[str, Mapping[str, Forks]]
    ignored: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()  # one sentence for each fork with a branch whose return is not finite
    # Of a flat table: False where it has costs, whose signs were turned when it was read. None of a study.
    higher_is_better: bool | None = None

    def __len__(self) -> int:
        return sum(len(forks) for tasks in self.arms.values() for forks in tasks.values())
