"""Work in processes of this machine, which share its GPUs: their memory, and their time."""

import contextlib
import itertools
import math
import os
import platform
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing import connection, get_context, resource_tracker, util
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Final

from pydantic import Field, PrivateAttr

from worldfork.errors import WorldforkError
from worldfork.executors.base import ExecutorPlugin
from worldfork.executors.pool import Event, Lost, Returned, Rules, spread

SHARED: Final = 0.9  # of a GPU's memory: the rest is for what CUDA itself keeps in every process
CHOSEN_BY_THE_USER: Final = (
    "XLA_PYTHON_CLIENT_MEM_FRACTION",
    "XLA_CLIENT_MEM_FRACTION",  # the newer name: JAX refuses to start where both are set
    "XLA_PYTHON_CLIENT_PREALLOCATE",
    "XLA_PYTHON_CLIENT_ALLOCATOR",
)


def visible_gpus(drivers: Path = Path("/proc/driver/nvidia/gpus")) -> list[str]:
    """Return the NVIDIA GPUs that this process may use, named as in CUDA_VISIBLE_DEVICES, without starting any."""
    if (named := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return [name.strip() for name in named.split(",") if name.strip() not in ("", "-1")]
    return [str(index) for index in range(len(list(drivers.iterdir())))] if drivers.is_dir() else []


def share_memory(share: float) -> None:
    """Have JAX take this share of its GPU's memory, unless the user has said how much it takes.

    By itself each process takes three quarters when it first computes, so that a second one on the same GPU dies.
    Must be called before JAX is used.
    """
    if share < 1 and not any(name in os.environ for name in CHOSEN_BY_THE_USER):
        os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{SHARED * share:.3f}"


FAILED_STARTS: Final = 3  # processes in a row that end before they have begun: then none will
PATIENCE: Final = 10.0  # seconds for a process that has been killed, or has let go of its pipe, to be gone
WORKERS_RULES: Final = ("attempts", "deadline", "twice")  # settings that need a process which may be lost

Place = tuple[str, float] | None  # a GPU and the share of it that a process may take; None without GPUs


class Local(ExecutorPlugin):
    """Executor of this process, or of processes of its own that compute while it writes.

    One worker is this process itself, which can neither outlive a crash nor end a task that hangs. Where
    `attempts`, `deadline` or `twice` is set, one worker is a process of its own too.
    """

    workers: Annotated[int, Field(ge=1)] | None = None  # None: one for each of several GPUs, else this process
    attempts: Annotated[int, Field(ge=1)] = 3  # workers that one task may take with it
    deadline: Annotated[float, Field(gt=0)] | None = 3600.0  # seconds for one task of a worker
    twice: Annotated[int, Field(ge=0)] = 0  # of every so many tasks, one is computed by two workers and compared
    # Those of the last call of `map`, for the next: they have imported what they need, and know their programs.
    _waiting: "_Processes | None" = PrivateAttr(default=None)

    @property
    def here(self) -> bool:
        asked = any(name in self.model_fields_set and getattr(self, name) for name in WORKERS_RULES)
        return self._processes() == 1 and not asked

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
        # Another process is had at once, and who works on what is seen by other means than a line now and then.
        rules = Rules(
            attempts=self.attempts, deadline=self.deadline, twice=self.twice, pause=0.0, shown_every=math.inf
        )
        try:
            yield from spread(processes, function, tasks, rules=rules)
        except BaseException:  # also where nobody wants the rest
            processes.end_all()
            raise
        self.close()
        self._waiting = processes

    def _processes(self) -> int:
        return self.workers or max(len(visible_gpus()), 1)


class _Process:
    """Worker process and this end of the pipe to it."""

    def __init__(self, process: BaseProcess, pipe: "connection.Connection[Any, Any]", place: Place) -> None:
        self.process, self.pipe, self.place = process, pipe, place
        self.has_begun = False

    @property
    def name(self) -> str:
        """Name of the worker, as a result says who computed it."""
        return f"{platform.node()}:{self.process.pid}"


class _Processes:
    """Cluster of processes of this machine: they are begun when there is something to do, then wait for more."""

    def __init__(self, workers: int, gpus: Sequence[str]) -> None:
        gpu_of_each = list(itertools.islice(itertools.cycle(gpus), workers))
        self._free: list[Place] = [(gpu, 1 / gpu_of_each.count(gpu)) for gpu in gpu_of_each] or [None] * workers
        self._all: dict[str, _Process] = {}
        self._idle: list[str] = []  # the last to have worked is the last
        self._failed_starts = 0
        # Before this process waits for its children at its end, and before it leaves without waiting.
        self._end_all = util.Finalize(None, _kill, (self._all,), exitpriority=10)

    def ready(self) -> list[str]:
        return self._idle[::-1]  # who has worked before has imported what it needs

    def grow(self) -> bool:
        while self._free:
            place = self._free.pop(0)
            with _spawning():
                begun = _begun(place)
                self._all[begun.name] = begun
        return any(not process.has_begun for process in self._all.values())

    def submit(self, worker: str, function: Callable[[Any], Any], task: Any) -> None:
        self._idle.remove(worker)
        with contextlib.suppress(ConnectionError):  # it has died meanwhile, and `events` says so
            self._all[worker].pipe.send((function, task))

    def events(self, seconds: float) -> list[Event]:
        names = {process.pipe: name for name, process in self._all.items()}
        ready = [names[pipe] for pipe in connection.wait(list(names), timeout=seconds)]  # type: ignore[index]
        found = [event for name in ready for event in self._received(name)]
        # A process that a world has forked may hold the pipe of one that has died.
        died = [name for name, process in self._all.items() if not process.process.is_alive()]
        return found + [self._lost(name) for name in died if not self._all[name].pipe.poll()]

    def _received(self, name: str) -> list[Event]:
        process = self._all[name]
        try:
            message = process.pipe.recv()
        except (EOFError, OSError):
            return [self._lost(name)]
        self._idle.append(name)
        if not process.has_begun:
            process.has_begun, self._failed_starts = True, 0
            return []
        returned, result = message
        if not returned:
            raise result
        return [Returned(name, result)]

    def _lost(self, name: str) -> Lost:
        process = self._all[name]
        process.process.join(PATIENCE)
        reason = _ending(process.process.exitcode)
        self.end(name)
        self._failed_starts += not process.has_begun
        if self._failed_starts >= FAILED_STARTS:
            raise WorldforkError(
                f"{self._failed_starts} worker processes in a row ended before they had begun: the last one "
                f"{reason}. What was finished is kept: run the same command again, with fewer --workers if memory "
                "was short."
            )
        return Lost(name, reason)

    def end(self, worker: str, *, shun: bool = False) -> None:
        process = self._all.pop(worker, None)
        if process is None:
            return
        with contextlib.suppress(ValueError):
            self._idle.remove(worker)
        process.process.kill()
        process.process.join(PATIENCE)  # what it held of a GPU's memory is free for the next
        process.pipe.close()
        if not shun:
            self._free.append(process.place)

    def let_go(self) -> None:
        """Close all pipes: the processes end by themselves."""
        self._end_all.cancel()
        for process in self._all.values():
            process.pipe.close()

    def end_all(self) -> None:
        """Kill every process: nobody wants what they are doing."""
        self._end_all()


def _kill(processes: dict[str, _Process]) -> None:
    for process in processes.values():
        process.process.kill()


def _begun(place: Place) -> _Process:
    # A fresh interpreter: a forked one would inherit threads and device handles it can not use.
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, os.getpid(), place), name="worldfork worker")
    process.start()
    theirs.close()
    return _Process(process, ours, place)


def _ending(code: int | None) -> str:
    """Return the end of a process in words."""
    if code is None:
        return "let go of its pipe and did not end"
    if code >= 0:
        return f"ended by itself, with the exit code {code}"
    with contextlib.suppress(ValueError):
        name = signal.Signals(-code).name
        why = " (out of memory, perhaps: then fewer --workers help)" if name == "SIGKILL" else ""
        return f"was killed by {name}{why}"
    return f"was killed by signal {-code}"


@contextlib.contextmanager
def _spawning() -> Iterator[None]:
    """Keep from a spawned process what it must not inherit. It would run the caller's script again, unless that is
    guarded: a task needs nothing of it. And it would hear Ctrl-C: its parent does, and ends it."""
    main = sys.modules["__main__"]
    with _ended_later():  # another thread may hear it, and then this one raises
        resource_tracker.ensure_running()  # begun by the first process otherwise, it would let that one hear Ctrl-C
        spec, file = main.__spec__, main.__dict__.pop("__file__", None)
        main.__spec__ = None
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            main.__spec__ = spec
            if file is not None:
                main.__dict__["__file__"] = file


@contextlib.contextmanager
def _ended_later() -> Iterator[None]:
    """Delay Ctrl-C and SIGTERM until a process that is being begun is whole: half of one can not be ended."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signals: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        signals.append(number)

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, note) for number in numbers if signal.getsignal(number) is not None}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for again in signals[:1]:
            signal.raise_signal(again)


def _work(pipe: "connection.Connection[Any, Any]", parent: int, place: Place) -> None:
    """Serve `parent` until it closes the pipe: say that this process has begun, then do task after task."""
    if place is not None:
        os.environ["CUDA_VISIBLE_DEVICES"], share = place
        share_memory(share)
    _die_with(parent)
    with contextlib.suppress(EOFError, ConnectionError):  # nobody wants anything more
        pipe.send(None)
        while True:
            pipe.send(_answer(pipe))


def _answer(pipe: "connection.Connection[Any, Any]") -> tuple[bool, Any]:
    """Return (True, result) of the next task; (False, error) if the function raises, which a task's never does."""
    try:
        function, task = pipe.recv()
    except (EOFError, ConnectionError):
        raise
    except Exception as error:  # a module that is not found here
        return False, error
    try:
        return True, function(task)
    except (Exception, KeyboardInterrupt) as error:
        error.add_note(f"In a worker process:\n{traceback.format_exc()}")
        return False, error


def _die_with(parent: int) -> None:
    """End this worker when its parent has gone, even if it was killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
