"""A study's programs, compiled before its checkpoints are there by the workers that will call them."""

import dataclasses
from collections.abc import Collection

from worldfork.errors import Failed
from worldfork.executors.base import Executor
from worldfork.lab.forks.ahead import compile_without_checkpoints
from worldfork.lab.forks.tasks import attempted
from worldfork.progress import Progress, silent
from worldfork.registration import Registration, canonical, restore

__all__ = ["Compile", "compile_programs", "perform"]


@dataclasses.dataclass(frozen=True)
class Compile:
    """Compile what the streams and blocks of a task will call."""

    registration: str  # in canonical JSON
    task: str

    def __str__(self) -> str:
        return f"programs of {self.task}"


def compile_programs(
    registration: Registration,
    executor: Executor,
    *,
    tasks: Collection[str],
    workers: int = 1,
    progress: Progress = silent,
) -> None:
    """Have the executor's `workers` compile what the streams and blocks of `tasks` will call.

    A worker that misses a task here finds its programs where compiled ones are kept (`worldfork.lab.compilation`).
    What goes wrong is left to the run, which meets it again and says so.
    """
    spelled = canonical(registration.model_dump(mode="json", by_alias=True))
    wanted = [Compile(spelled, task) for _ in range(workers) for task in tasks]
    progress("programs", 0, len(wanted))
    for done, _ in enumerate(executor.map(perform, wanted), start=1):
        progress("programs", done, len(wanted))


def perform(wanted: Compile) -> Failed | None:
    """Do one of them, in whichever process this is."""
    return attempted(lambda: compile_without_checkpoints(restore(wanted.registration), wanted.task))
