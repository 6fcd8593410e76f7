"""Contract of an executor, and a check of the results that it yields."""

import abc
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

from worldfork.errors import WorldforkError
from worldfork.registry import Plugin, build


@runtime_checkable
class Executor(Protocol):
    """Anything that maps a function over jobs."""

    def map(self, function: Callable[[Any], Any], jobs: Iterable[Any], /) -> Iterator[tuple[int, Any]]: ...


class ExecutorPlugin(Plugin):
    """Base class of executors; the fields of a subclass are its settings.

    The calling process alone writes the ledger. Jobs and results are plain data. A job that fails returns a
    `Failed`: `function` does not raise. If a worker dies, its job goes to another, or comes back as `Failed` after
    a few. Jobs carry no files: a worker that does not share the driver's disk fetches those that `job.blobs`
    names (`worldfork.blobs.fetching`).
    """

    @property
    def here(self) -> bool:
        """Return True if jobs are computed in the calling process."""
        return False

    @abc.abstractmethod
    def map(self, function: Callable[[Any], Any], jobs: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        """Apply `function` to every job and yield (index, result) as they finish, in any order.

        Args:
            function: a function of a module, which a worker imports; it returns failures and raises none.
            jobs: perhaps a generator whose items are large: take a few ahead, not all.

        Example:
            >>> from worldfork.executors.local import Local
            >>> sorted(Local(workers=1).map(abs, [-3, 2]))
            [(0, 3), (1, 2)]
        """

    def close(self) -> None:
        """Release what was kept between two calls of `map`."""


@contextlib.contextmanager
def opened(executor: Executor | str, settings: Mapping[str, Any]) -> Iterator[Executor]:
    """Give the executor itself, or build the one of that name with these settings and close it afterwards."""
    if not isinstance(executor, str):
        yield executor
        return
    built = build("executors", executor, ExecutorPlugin, settings=settings, where="the executor's settings")
    try:
        yield built
    finally:
        built.close()


class Answers:
    """Results of an executor, compared with the jobs that it was given: an executor may be anyone's."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.names: list[str] = []  # of the jobs that were given, in their order
        self._back: set[int] = set()

    def of(self, jobs: Iterable[Any], *, function: Callable[[Any], Any]) -> Iterator[tuple[int, Any]]:
        """Yield (index, result) of every job that comes back."""
        given = self._counted(jobs)
        for answer in self._executor.map(function, given):
            match answer:
                case (int(index), result) if 0 <= index < len(self.names) and index not in self._back:
                    self._back.add(index)
                    yield index, result
                case (int(index), _):
                    often = "twice" if index in self._back else f"of {len(self.names)} tasks"
                    raise self.wrong(f"yielded the index {index} {often}")
                case _:
                    raise self.wrong(f"yielded a {type(answer).__name__}")
        for _ in given:  # count the jobs that it never took
            pass

    def missing(self) -> list[int]:
        """Return the indices of jobs that were given and never came back."""
        return [index for index in range(len(self.names)) if index not in self._back]

    def wrong(self, what: str) -> WorldforkError:
        """Return the error for an executor that breaks its contract in this way."""
        return WorldforkError(
            f"The executor {type(self._executor).__name__} {what}. `map` yields one pair (index, result) for every "
            "task, with the index of that task from 0: worldfork.testing.check_executor examines it."
        )

    def _counted(self, jobs: Iterable[Any]) -> Iterator[Any]:
        for job in jobs:
            self.names.append(str(job))
            yield job
