"""Work on this machine: here, or in a few processes that die with this one, each on an accelerator of its own."""

import contextlib
import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import active_children, get_context, util
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Annotated, Any, Final

from pydantic import Field, PrivateAttr

from worldfork.errors import WorldforkError
from worldfork.executors.base import ExecutorPlugin
from worldfork.executors.gpus import share_memory, visible_gpus

__all__ = ["Local"]

PATIENCE: Final = 10.0  # seconds for a thread whose workers have been killed


class Local(ExecutorPlugin):
    """This process, or some of its own that compute while it writes."""

    workers: Annotated[int, Field(ge=1)] | None = None  # None: one for each of several GPUs, else this process
    # Those of the last call of `map`, for the next: they have imported what they need, and know their programs.
    _waiting: "_Processes | None" = PrivateAttr(default=None)

    @property
    def here(self) -> bool:
        return self._processes() == 1

    def map(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        if self.here:
            return ((index, function(task)) for index, task in enumerate(tasks))
        return self._in_processes(function, tasks)

    def close(self) -> None:
        processes, self._waiting = self._waiting, None
        if processes is not None:
            processes.let_go()

    def _in_processes(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        processes, self._waiting = self._waiting, None  # a call beside this one has processes of its own
        processes = processes or _Processes(self._processes(), visible_gpus())
        try:
            yield from processes.map(function, tasks)
        except BaseException:  # also where nobody wants the rest
            processes.end()
            raise
        self.close()
        self._waiting = processes

    def _processes(self) -> int:
        return self.workers or max(len(visible_gpus()), 1)


class _Processes:
    """Processes that are begun when there is something to do for them, and then wait for more."""

    def __init__(self, workers: int, gpus: Sequence[str]) -> None:
        # A fresh interpreter each: a forked one would inherit threads and device handles it can not use.
        context = get_context("spawn")
        places = context.SimpleQueue()  # each process takes one: a GPU, and how much of it
        gpu_of_each = list(itertools.islice(itertools.cycle(gpus), workers))
        for gpu in gpu_of_each:
            places.put((gpu, 1 / gpu_of_each.count(gpu)))
        begin = (os.getpid(), places if gpus else None)
        self._workers = workers
        self._pool = ProcessPoolExecutor(workers, context, initializer=_begin, initargs=begin)
        self._begun: list[BaseProcess] = []
        # Before the semaphores go, which one that is still being started would look for, and complain.
        self._end_all = util.Finalize(None, _end, (self._begun,), exitpriority=10)

    def map(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        waiting = enumerate(tasks)
        flying: dict[Future[Any], int] = {}
        try:
            while True:
                # A few ahead, not all: a task carries its arrays.
                while len(flying) < 2 * self._workers and (following := next(waiting, None)) is not None:
                    with _spawning(self._begun):
                        flying[self._pool.submit(function, following[1])] = following[0]
                if not flying:
                    return
                for future in wait(flying, return_when=FIRST_COMPLETED).done:
                    yield flying.pop(future), future.result()
        except BrokenProcessPool as error:
            raise WorldforkError(
                "A worker process died (killed, or out of memory). What was finished is kept: run the same command "
                "again, with fewer --workers if memory was short."
            ) from error

    def let_go(self) -> None:
        """Nothing more is to be done: they end by themselves."""
        self._end_all.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def end(self) -> None:
        """What they are doing is wanted no longer."""
        manager = getattr(self._pool, "_executor_manager_thread", None)
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._end_all()
        if manager is not None:
            # It lets go of the pool's semaphores, and whoever leaves at once must not leave it half-way.
            manager.join(PATIENCE)


def _end(processes: Iterable[BaseProcess]) -> None:
    for process in processes:
        process.kill()


@contextlib.contextmanager
def _spawning(begun: list[BaseProcess]) -> Iterator[None]:
    """What a spawned process must not inherit; `begun` is given those that are. It would run the caller's script
    again, unless that is guarded: a task needs nothing of it. And it would hear Ctrl-C: its parent does, and ends
    it."""
    main = sys.modules["__main__"]
    spec, file = main.__spec__, main.__dict__.pop("__file__", None)
    main.__spec__ = None
    known = set(active_children())
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with _interrupted_later():  # another thread may hear it, and then this one raises
            yield
    finally:
        begun.extend(set(active_children()) - known)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        main.__spec__ = spec
        if file is not None:
            main.__dict__["__file__"] = file


@contextlib.contextmanager
def _interrupted_later() -> Iterator[None]:
    """Half of a process can not be ended: Ctrl-C is obeyed once it is whole."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[tuple[int, FrameType | None]] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if heard and callable(before):
            before(*heard[0])


def _begin(parent: int, places: Any | None) -> None:
    """What a worker does first; `places` is a queue with a place on a GPU for each worker, where there are GPUs."""
    if places is not None:
        os.environ["CUDA_VISIBLE_DEVICES"], share = places.get()
        share_memory(share)
    _die_with(parent)


def _die_with(parent: int) -> None:
    """End this worker when its parent has gone, even if it was killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
