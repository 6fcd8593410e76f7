"""The Executor contract: where the tasks of a study are computed."""

import abc
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, runtime_checkable

from worldfork.registry import Plugin

__all__ = ["Executor", "ExecutorPlugin"]


@runtime_checkable
class Executor(Protocol):
    """Whatever maps a function over tasks."""

    def map(self, function: Callable[[Any], Any], tasks: Iterable[Any], /) -> Iterator[tuple[int, Any]]: ...


class ExecutorPlugin(Plugin):
    """What an executor's name stands for; the fields of a subclass are its settings.

    The calling process alone writes the ledger. Tasks and results are plain data, and a task that fails comes back
    as a result that says so: `function` does not raise. Tasks carry no files: a worker that does not share the
    driver's disk is given those that `task.blobs` names while it works (`worldfork.blobs.fetching`).
    """

    @property
    def here(self) -> bool:
        """Whether tasks are computed in the calling process."""
        return False

    @abc.abstractmethod
    def map(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        """Apply `function` to every task and yield (index, result) as they finish, in any order.

        `tasks` may be a generator whose items are large: take a few ahead, not all.
        """

    def close(self) -> None:
        """Let go of whatever was kept between two calls of `map`."""
