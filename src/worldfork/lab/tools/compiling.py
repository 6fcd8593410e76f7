"""A study's programs, compiled before its checkpoints are there by the workers that will call them."""

from collections.abc import Collection

from worldfork.executors.base import Executor
from worldfork.lab.forks.tasks import Compile, Setting, perform
from worldfork.progress import Progress, silent
from worldfork.registration import Registration, canonical

__all__ = ["compile_programs"]


def compile_programs(
    registration: Registration,
    executor: Executor,
    *,
    tasks: Collection[str],
    workers: int = 1,
    progress: Progress = silent,
) -> None:
    """Have the executor's `workers` compile what the streams and blocks of `tasks` will call.

    A worker that misses a task here finds its programs where compiled ones are kept (`worldfork.lab.compiled`).
    What goes wrong is left to the run, which meets it again and says so.
    """
    setting = Setting(canonical(registration.model_dump(mode="json", by_alias=True)), ())
    wanted = [Compile(setting, task) for _ in range(workers) for task in tasks]
    progress("programs", 0, len(wanted))
    for done, _ in enumerate(executor.map(perform, wanted), start=1):
        progress("programs", done, len(wanted))
