"""Work in this process, or in processes of this machine that share its GPUs."""

import contextlib
import dataclasses
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
from multiprocessing import connection, util
from pathlib import Path
from subprocess import DEVNULL, Popen, TimeoutExpired
from typing import Annotated, Any, Final, TypeAlias

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
    """Let JAX take this share of its GPU's memory, unless the user has chosen. Call it before JAX is used.

    By default each process takes three quarters, so that a second one on the same GPU dies.
    """
    if share < 1 and not any(name in os.environ for name in CHOSEN_BY_THE_USER):
        os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{SHARED * share:.3f}"


FAILED_STARTS: Final = 3  # processes in a row that end before they have begun: then none will
PATIENCE: Final = 10.0  # seconds for a process that has been killed, or has let go of its pipe, to be gone
WORKERS_RULES: Final = ("attempts", "deadline", "twice")  # settings that need a process which may be lost

Pipe: TypeAlias = "connection.Connection[Any, Any]"  # of pickled jobs and results
GpuShare = tuple[str, float] | None  # a GPU and the share of it that a process may take; None without GPUs


class Local(ExecutorPlugin):
    """Executor that computes in this process, or in worker processes while this one writes.

    A single worker is this process, which can neither survive a crash nor end a job that hangs. If `attempts`,
    `deadline` or `twice` is set, a single worker is a process of its own.
    """

    workers: Annotated[int, Field(ge=1)] | None = None  # None: one for each of several GPUs, else this process
    attempts: Annotated[int, Field(ge=1)] = 3  # workers that one job may take with it
    deadline: Annotated[float, Field(gt=0)] | None = 3600.0  # seconds for one job of a worker
    twice: Annotated[int, Field(ge=0)] = 0  # of every so many jobs, one is computed by two workers and compared
    # Processes of the last call of `map`, for the next: they have imported and compiled what they need.
    _waiting: "_Processes | None" = PrivateAttr(default=None)

    @property
    def here(self) -> bool:
        asked = any(name in self.model_fields_set and getattr(self, name) for name in WORKERS_RULES)
        return self._processes() == 1 and not asked

    def map(self, function: Callable[[Any], Any], jobs: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        if self.here:
            return ((index, function(job)) for index, job in enumerate(jobs))
        return self._in_processes(function, jobs)

    def close(self) -> None:
        processes, self._waiting = self._waiting, None
        if processes is not None:
            processes.let_go()

    def _in_processes(self, function: Callable[[Any], Any], jobs: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        processes, self._waiting = self._waiting, None  # a call beside this one has processes of its own
        processes = processes or _Processes(self._processes(), visible_gpus())
        # Processes begin at once and can be watched: no pause after a loss, and no log lines.
        rules = Rules(
            attempts=self.attempts, deadline=self.deadline, twice=self.twice, pause=0.0, shown_every=math.inf
        )
        try:
            yield from spread(processes, function, jobs, rules=rules)
        except BaseException:  # also if the caller takes no more results
            processes.end_all()
            raise
        self.close()
        self._waiting = processes

    def _processes(self) -> int:
        return self.workers or max(len(visible_gpus()), 1)


@dataclasses.dataclass
class _Process:
    """Worker process and this end of the pipe to it."""

    process: "Popen[bytes]"
    pipe: Pipe
    gpu_share: GpuShare
    has_begun: bool = False

    @property
    def name(self) -> str:
        """Name of the worker, as a result says who computed it."""
        return f"{platform.node()}:{self.process.pid}"

    def wait(self) -> None:
        """Give a process that was killed, or whose pipe is closed, some time to be gone."""
        with contextlib.suppress(TimeoutExpired):
            self.process.wait(PATIENCE)


class _Processes:
    """Cluster of processes of this machine, which wait for more jobs when they are done."""

    def __init__(self, workers: int, gpus: Sequence[str]) -> None:
        gpu_of_each = list(itertools.islice(itertools.cycle(gpus), workers))
        self._free: list[GpuShare] = [(gpu, 1 / gpu_of_each.count(gpu)) for gpu in gpu_of_each] or [None] * workers
        self._all: dict[str, _Process] = {}
        self._idle: list[str] = []  # the last to have worked is the last
        self._failed_starts = 0
        # Before this process waits for its children at its end, and before it leaves without waiting.
        self._end_all = util.Finalize(None, _kill, (self._all,), exitpriority=10)

    def ready(self) -> list[str]:
        return self._idle[::-1]  # first those that have imported what they need

    def grow(self) -> bool:
        while self._free:
            gpu_share = self._free.pop(0)
            begun = _begin(gpu_share)
            self._all[begun.name] = begun
        return any(not process.has_begun for process in self._all.values())

    def submit(self, worker: str, function: Callable[[Any], Any], job: Any) -> None:
        self._idle.remove(worker)
        with contextlib.suppress(ConnectionError):  # it has died meanwhile, as `events` will report
            self._all[worker].pipe.send((function, job))

    def events(self, seconds: float) -> list[Event]:
        names = {process.pipe: name for name, process in self._all.items()}
        ready = [names[pipe] for pipe in connection.wait(list(names), timeout=seconds)]  # type: ignore[index]
        found = [event for name in ready for event in self._received(name)]
        # A process that a world forked may keep the pipe of a dead one open.
        died = [name for name, process in self._all.items() if process.process.poll() is not None]
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
        process.wait()
        reason = _ending(process.process.returncode)
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
        process.wait()  # what it held of a GPU's memory is free for the next
        process.pipe.close()
        if not shun:
            self._free.append(process.gpu_share)

    def let_go(self) -> None:
        """Close all pipes, so that the processes end."""
        self._end_all.cancel()
        for process in self._all.values():
            process.pipe.close()
        for process in self._all.values():
            process.wait()

    def end_all(self) -> None:
        """Kill every process."""
        self._end_all()


def _kill(processes: dict[str, _Process]) -> None:
    for process in processes.values():
        process.process.kill()
    for process in processes.values():
        process.wait()


# Program of a worker, which finds modules where this process does, and in no other place.
WORKER: Final = """
import sys
arguments, sys.path[:] = sys.argv[1:4], sys.argv[4:]
del sys.argv[1:]
from worldfork.executors.local import work
work(*arguments)
"""


def _begin(gpu_share: GpuShare) -> _Process:
    """Begin a process: a fresh interpreter, since a forked one would inherit threads and device handles."""
    ours, theirs = connection.Pipe()
    gpu, share = gpu_share or (None, 1.0)
    process = Popen(  # noqa: S603 - this interpreter, our own module
        [sys.executable, "-P", "-c", WORKER, str(theirs.fileno()), str(os.getpid()), str(share), *sys.path],
        env=os.environ if gpu is None else {**os.environ, "CUDA_VISIBLE_DEVICES": gpu},
        stdin=DEVNULL,
        pass_fds=[theirs.fileno()],
        process_group=0,  # Ctrl-C is for its parent, which ends it
    )
    theirs.close()
    return _Process(process, ours, gpu_share)


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


def work(descriptor: str, parent: str, share: str) -> None:
    """Serve the process `parent` until it closes the pipe: say that this one has begun, then do job after job."""
    share_memory(float(share))
    _die_with(int(parent))
    pipe: Pipe = connection.Connection(int(descriptor))
    with contextlib.suppress(EOFError, ConnectionError):  # the parent has closed the pipe
        pipe.send(None)
        while True:
            pipe.send(_answer(pipe))


def _answer(pipe: Pipe) -> tuple[bool, Any]:
    """Return (True, result) of the next job; (False, error) if the function raises, which a job's never does."""
    try:
        function, job = pipe.recv()
    except (EOFError, ConnectionError):
        raise
    except Exception as error:  # a module that is not found here
        return False, error
    try:
        return True, function(job)
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
