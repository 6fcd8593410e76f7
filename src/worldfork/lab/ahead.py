"""Rehearsals: threads that have programs compiled while something else runs. Nothing here knows what compiles.

A thread within `only_compiling` that calls a program has it compiled and not run (`worldfork.lab.programs`): the
answer has the right shapes and is all zeros. So whatever leads to a call, a mechanism's update or an agent's plan,
can be rehearsed on arrays of the right shape, and the call in earnest finds its program. The compiler works outside
of Python's lock: about a tenth of a rehearsal, tracing, holds up what it runs beside.
"""

import collections
import contextlib
import os
import threading
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Final

import numpy as np

__all__ = ["Ahead", "blank", "compiling", "only_compiling"]

_here = threading.local()
THREADS: Final = max(1, min(3, (os.cpu_count() or 1) // 2))  # as many programs as are compiled at once


class Ahead:
    """Rehearsals that are done by threads of their own, in the order in which they were added."""

    def __init__(self, threads: int = THREADS) -> None:
        self._threads = threads
        self._lock = threading.Lock()
        self._waiting: collections.deque[tuple[Hashable, Callable[[], object], threading.Event]]
        self._waiting = collections.deque()
        self._begun: list[tuple[Hashable, threading.Event]] = []
        self._running = 0

    def add(self, what: Hashable, rehearsal: Callable[[], object]) -> None:
        """Have `rehearsal` done in a while. What it raises is left to whoever calls the program in earnest."""
        with self._lock:
            self._waiting.append((what, rehearsal, threading.Event()))
            if self._running >= self._threads:
                return
            self._running += 1
        threading.Thread(target=self._work, name="compile", daemon=False).start()

    def ready(self, what: Hashable) -> None:
        """Return once nothing of `what` is being compiled any more. What was not begun is left to the caller."""
        with self._lock:
            kept = [entry for entry in self._waiting if entry[0] != what]
            self._waiting = collections.deque(kept)
            begun = [done for name, done in self._begun if name == what]
        for done in begun:
            done.wait()

    def finish(self) -> None:
        """Return once all that was added is compiled."""
        with self._lock:
            added = [entry[-1] for entry in self._begun] + [entry[-1] for entry in self._waiting]
        for done in added:
            done.wait()

    def _work(self) -> None:
        # The end of the program waits for this thread, and this thread for no more than what it is compiling then.
        while threading.main_thread().is_alive():
            with self._lock:
                if not self._waiting:
                    break
                what, rehearsal, done = self._waiting.popleft()
                self._begun.append((what, done))
            try:
                with only_compiling(), contextlib.suppress(Exception):
                    rehearsal()
            finally:
                done.set()
        with self._lock:
            self._running -= 1


@contextlib.contextmanager
def only_compiling() -> Iterator[None]:
    """Within this context this thread's programs are compiled and not run."""
    _here.compiling = True
    try:
        yield
    finally:
        _here.compiling = False


def compiling() -> bool:
    """Whether this thread is within `only_compiling`."""
    return getattr(_here, "compiling", False)


def blank(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Zeros that take no memory."""
    return np.broadcast_to(np.zeros((), dtype), shape)
