"""What the driver costs when its workers cost nothing: rows a second written, verified and scored.

    python benchmarks/scaling.py --forks 10000 100000

One cell of the linear-quadratic study is computed. Every other cell is answered with its stream and its rows under
another name, so that what is timed is the driver alone: making tasks, reading results, chaining and writing rows,
with every block on disk before the next. Prints CPU seconds beside wall clock: on a machine that is shared only the
first say something. Also says how many bytes a task and its result are, as they go over a network.
"""

import argparse
import pickle
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import worldfork as wf
from worldfork.lab.forks.tasks import Label, Labelled, RunStreams, Streamed
from worldfork.lab.run import run

STUDY = """
schema = "worldfork.registration/1"
name = "scaling"
[grid]
tasks = ["linear_quadratic"]
checkpoints = {checkpoints}
directions = ["toward", "away"]
[stream]
decision_points = {points}
drift_period = 1000
[evaluation]
episodes = 30
[mechanism]
steps = 1
window = 100
[execution]
forks_per_block = {block}
streams_per_batch = 10
[tasks.linear_quadratic]
agent = "linear_quadratic"
drift_scale = 2.0
precision = "float64"
"""


class Answering:
    """An executor whose workers know the answers: those of the first cell, under the names of the others."""

    def __init__(self) -> None:
        self.streams: list[Any] = []
        self.rows: dict[int, Any] = {}
        self.size = (0, 0)  # bytes of the last task and its result

    def map(self, function: Callable[[Any], Any], tasks: Iterable[Any], /) -> Iterator[tuple[int, Any]]:
        for index, task in enumerate(tasks):
            yield index, self.answer(function, task)

    def answer(self, function: Callable[[Any], Any], task: Any) -> Any:
        if isinstance(task, RunStreams):
            if not self.streams:
                result = function(task)
                assert isinstance(result, Streamed), result
                self.streams = result.streams[:1]
            return Streamed(self.streams * len(task.cells), 0.0, "nobody")
        if not isinstance(task, Label):
            return function(task)
        missing = [fork for fork in task.forks if fork.k not in self.rows]
        if missing:
            result = function(task)
            assert isinstance(result, Labelled), result
            self.rows.update({row.k: row for row in result.rows})
        rows = [self.rows[fork.k].model_copy(update={"cell": fork.cell.id}) for fork in task.forks]
        result = Labelled(rows, 0.0, {}, "nobody")
        if not self.size[0]:
            self.size = len(pickle.dumps(task)), len(pickle.dumps(result))
        return result


class Clock:
    """CPU seconds and wall clock of a piece of work."""

    def __enter__(self) -> "Clock":
        self.wall, self.cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *error: object) -> None:
        self.wall, self.cpu = time.perf_counter() - self.wall, time.process_time() - self.cpu


def measure(forks: int, *, block: int, root: Path) -> None:
    points = 100
    checkpoints = max(2, forks // (2 * points))
    path, folder = root / "scaling.toml", root / f"study-{forks}"
    path.write_text(STUDY.format(checkpoints=list(range(checkpoints)), points=points, block=block))
    executor = Answering()
    with Clock() as written:
        run(path, folder, executor=executor)
    with Clock() as resumed:
        run(path, folder, executor=executor)
    with Clock() as verified:
        verdict = wf.verify(folder)
    with Clock() as scored:
        wf.score(folder)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{verdict.rows} rows in {verdict.cells} cells, blocks of {block}, {size / 1e6:.0f} MB")
    for what, clock in (("written", written), ("resumed", resumed), ("verified", verified), ("scored", scored)):
        rate = verdict.rows / clock.cpu
        print(f"  {what:9}{clock.cpu:8.1f} s of CPU, {clock.wall:8.1f} s, {rate:8.0f} rows a second of CPU")
    print(f"  a task is {executor.size[0]} bytes, its result {executor.size[1]}", flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--forks", type=int, nargs="+", default=[10_000])
    options.add_argument("--block", type=int, default=20, help="forks of a block")
    given = options.parse_args()
    for forks in given.forks:
        with tempfile.TemporaryDirectory() as root:
            measure(forks, block=given.block, root=Path(root))


if __name__ == "__main__":
    main()
