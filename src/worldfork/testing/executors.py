"""Contract of an executor: every job once, a few ahead, whoever dies, and the same ledger as anywhere else."""

import contextlib
import dataclasses
import os
import platform
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from worldfork.errors import Failed
from worldfork.executors.base import Executor, ExecutorPlugin
from worldfork.testing.contract import Report, demand, examine, name_of, resolved, rule

JOBS: Final = 9
MANY: Final = 1000  # of which an executor takes a few ahead
UNCHAINED: Final = ("execution.json", "timings.jsonl", ".lock")  # files that say where and when, not what
STUDY: Final = """
schema = "worldfork.registration/1"
name = "testing"
[grid]
tasks = ["linear_quadratic"]
checkpoints = [0, 1]
directions = ["toward"]
[stream]
decision_points = 3
drift_period = 100
[evaluation]
episodes = 2
[mechanism]
steps = 2
window = 50
[execution]
forks_per_block = 2
streams_per_batch = 1
[tasks.linear_quadratic]
agent = "linear_quadratic"
drift_scale = 2.0
precision = "float64"
"""


def check_executor(
    executor: str | type[ExecutorPlugin] | ExecutorPlugin | Executor,
    *,
    settings: Mapping[str, Any] | None = None,
    study: bool = True,
) -> Report:
    """Examine an executor.

    Args:
        executor: a name of the registry, a plug-in class or record, or an object with its method `map`.
        settings: settings of a name or class.
        study: run a small study of the linear-quadratic world with it too, interrupt it and carry it on.

    Raises:
        ContractError: with everything that is wrong.

    Example:
        >>> check_executor("local", study=False).kept[0]
        'Every task comes back once, under its own index'
    """
    chosen: Executor = resolved("executors", executor, ExecutorPlugin, settings)
    try:
        return examine(f"The executor `{name_of(executor)}`", _Bench(chosen, study=study))
    finally:
        if chosen is not executor and isinstance(chosen, ExecutorPlugin):  # who builds one closes it
            chosen.close()


class _Bench:
    """An executor, and the jobs that it is given."""

    def __init__(self, executor: Executor, *, study: bool) -> None:
        self.executor, self.study = executor, study

    @rule("Every task comes back once, under its own index", foundation=True)
    def returns_everything(self) -> None:
        for count in (0, JOBS):
            results = list(self.executor.map(square, iter(range(count))))
            indices = sorted(index for index, _ in results)
            remedy = (
                "Yield (index, result) for every task, where index counts the tasks as they were given, from 0."
            )
            demand(indices == list(range(count)), f"{count} tasks came back as the indices {indices}.", remedy)
            wrong = [index for index, result in results if result != index * index]
            demand(not wrong, f"the results of tasks {wrong} are those of others.", remedy)

    @rule("A task that failed spares the others", foundation=True)
    def spares_the_others(self) -> None:
        remedy = "`function` never raises: a failure is a result like any other. Yield it and go on."
        try:
            results = dict(self.executor.map(fail_at_three, iter(range(JOBS))))
        except Exception as error:
            demand(False, f"a failure among the results became {type(error).__name__}: {error}.", remedy)
        lost = sorted(set(range(JOBS)) - set(results))
        demand(not lost, f"tasks {lost} were lost beside a task that failed.", remedy)
        demand(isinstance(results[3], Failed), f"the failure of task 3 became {results[3]!r:.60}.", remedy)

    @rule("A worker that dies spares the others", foundation=True)
    def outlives_a_worker(self) -> None:
        """End a worker in the middle of a job; a job that this process computes is simply done."""
        remedy = "Give the task of a worker that is gone to another, a few times, and then yield it as `Failed`."
        jobs = ((number, _this_process()) for number in range(JOBS))
        try:
            results = dict(self.executor.map(end_the_worker_at_three, jobs))
        except Exception as error:
            demand(False, f"a worker that died became {type(error).__name__}: {error}.", remedy)
        lost = sorted(index for index in range(JOBS) if index != 3 and results.get(index) != index * index)
        demand(not lost, f"tasks {lost} were lost beside a worker that died.", remedy)
        third = results.get(3)
        demand(isinstance(third, Failed) or third == 9, f"its own task came back as {third!r:.60}.", remedy)

    @rule("Tasks are taken a few ahead, not all at once", foundation=True)
    def takes_a_few(self) -> None:
        taken: list[int] = []
        results = iter(self.executor.map(square, _counted(taken)))
        next(results)
        if close := getattr(results, "close", None):
            close()
        remedy = "A task carries its arrays: take two for each worker, and the next when one comes back."
        demand(len(taken) < MANY, f"all of {MANY} tasks were taken before the first result came.", remedy)
        count = len(list(self.executor.map(square, range(JOBS))))
        seen = f"after a call that was left in the middle, {JOBS} tasks came back as {count}."
        demand(
            count == JOBS, seen, "Stop what is under way when the iterator is closed; the next call begins anew."
        )

    @rule(
        "A study has the same bytes wherever it runs", applies=lambda bench: bench.study or "no study was asked for"
    )
    def computes_the_same_bytes(self) -> None:
        """Run here, and there with an interruption: every chained byte is the same."""
        from worldfork.lab.run import run
        from worldfork.registration import parse

        registration = parse(STUDY)
        with tempfile.TemporaryDirectory() as root:
            here, there = Path(root) / "here", Path(root) / "there"
            run(registration, here, executor=_Here())
            with contextlib.suppress(_Interruption):
                run(registration, there, executor=_Interrupted(self.executor, after=2))
            run(registration, there, executor=self.executor)
            expected, came = _chained(here), _chained(there)
        changed = sorted(name for name in expected.keys() | came.keys() if expected.get(name) != came.get(name))
        seen = f"{len(changed)} files differ from those made here, such as {changed[:1]}."
        demand(not changed, seen, "Hand over the tasks and the results as they are, and `function` with them.")


def square(number: int) -> int:
    """Compute a job of the examination; a worker imports this."""
    return number * number


def fail_at_three(number: int) -> int | Failed:
    """Fail at the job 3, as every job does: by its result."""
    return Failed("the third one fails", "") if number == 3 else number


def end_the_worker_at_three(job: tuple[int, tuple[str, int]]) -> int:
    """End the worker at the job 3, but never the process that examines."""
    number, examiner = job
    if number == 3 and _this_process() != examiner:
        os._exit(1)
    return square(number)


def _this_process() -> tuple[str, int]:
    return platform.node(), os.getpid()


class _Here:
    """Executor of this process, job after job."""

    def map(self, function: Callable[[Any], Any], jobs: Iterable[Any], /) -> Iterator[tuple[int, Any]]:
        return ((index, function(job)) for index, job in enumerate(jobs))


class _Interruption(Exception):
    pass


@dataclasses.dataclass
class _Interrupted:
    """Executor that is interrupted after some results."""

    executor: Executor
    after: int

    def map(self, function: Callable[[Any], Any], jobs: Iterable[Any], /) -> Iterator[tuple[int, Any]]:
        for index, result in self.executor.map(function, jobs):
            if self.after == 0:
                raise _Interruption
            self.after -= 1
            yield index, result


def _counted(taken: list[int]) -> Iterator[int]:
    for number in range(MANY):
        taken.append(number)
        yield number


def _chained(folder: Path) -> dict[str, bytes]:
    """Return every file of a study that says what was computed."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name not in UNCHAINED)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
