"""Work as SLURM jobs, by way of submitit: each job of a study is one of SLURM's, and they share the driver's disk.

Each begins a fresh interpreter, so a job should take minutes. Jobs and results are pickled on the shared disk.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from worldfork.errors import WorldforkError, printable
from worldfork.executors.base import ExecutorPlugin
from worldfork.executors.pool import Event, Lost, Returned, Rules, spread


class Slurm(ExecutorPlugin):
    """Executor of jobs in a SLURM queue; `workers` is how many may wait or run at once."""

    workers: Annotated[int, Field(ge=1)] = 8
    cpus: Annotated[int, Field(ge=1)] = 1  # of each job
    gpus: Annotated[int, Field(ge=0)] = 0
    minutes: Annotated[int, Field(ge=1)] = 60  # after which SLURM ends a job
    options: dict[str, str | int | bool] = {}  # of sbatch, such as {"partition": "gpu", "account": "lab"}
    attempts: Annotated[int, Field(ge=1)] = 3  # jobs of SLURM's that one job of a study may take with it
    twice: Annotated[int, Field(ge=0)] = 0  # of every so many jobs, one is computed twice and compared
    folder: str = "~/.cache/worldfork/slurm"  # which every machine sees under this name
    cluster: Literal["slurm", "local"] = "slurm"  # `local`: processes of this machine, to try it out

    def map(self, function: Callable[[Any], Any], jobs: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        queue = _Queue(self)
        rules = Rules(attempts=self.attempts, twice=self.twice)  # no deadline: a job may wait for hours
        try:
            yield from spread(queue, function, jobs, rules=rules)
        finally:
            for worker in list(queue.submitted):
                queue.end(worker)
            shutil.rmtree(queue.folder, ignore_errors=True)


class _Queue:
    """Cluster whose workers are places in the queue. A place is good for one job, and the next one is another."""

    def __init__(self, settings: Slurm) -> None:
        self.room, self.begun, self.cpus = settings.workers, 0, settings.cpus
        self.idle: list[str] = []
        self.submitted: dict[str, Any] = {}
        try:
            import submitit
        except ModuleNotFoundError as error:
            raise WorldforkError("The executor `slurm` needs submitit: pip install '.[slurm]'.") from error
        if settings.cluster == "slurm" and shutil.which("sbatch") is None:
            raise WorldforkError("There is no `sbatch` here: run this where jobs can be submitted to SLURM.")
        parent = Path(settings.folder).expanduser()
        parent.mkdir(parents=True, exist_ok=True)
        self.folder = tempfile.mkdtemp(prefix="run-", dir=parent)
        self.submitit = submitit.AutoExecutor(folder=self.folder, cluster=settings.cluster)
        self.submitit.update_parameters(cpus_per_task=settings.cpus, gpus_per_node=settings.gpus, name="worldfork")
        self.submitit.update_parameters(timeout_min=settings.minutes, slurm_additional_parameters=settings.options)

    def ready(self) -> list[str]:
        return list(self.idle)

    def grow(self) -> bool:
        while len(self.idle) + len(self.submitted) < self.room:
            self.idle.append(f"job {self.begun}")
            self.begun += 1
        return self.room > 0

    def submit(self, worker: str, function: Callable[[Any], Any], job: Any) -> None:
        self.idle.remove(worker)
        self.submitted[worker] = self.submitit.submit(_do, self.cpus, function, job)

    def events(self, seconds: float) -> list[Event]:
        finished = [worker for worker, future in self.submitted.items() if future.done()]
        time.sleep(0.0 if finished else seconds)
        return [self._event(worker, self.submitted.pop(worker)) for worker in finished]

    def _event(self, worker: str, future: Any) -> Event:
        try:
            return Returned(worker, future.result())
        except RuntimeError as error:  # submitit's, of a job that left no result
            return Lost(worker, printable(" ".join(str(error).split()))[-600:])

    def end(self, worker: str, *, shun: bool = False) -> None:
        self.room -= shun  # where SLURM would send the next one is not known
        if future := self.submitted.pop(worker, None):
            future.cancel(check=False)


def _do(cpus: int, function: Callable[[Any], Any], job: Any) -> Any:
    os.environ["WORLDFORK_THREADS"] = str(cpus)
    return function(job)
