"""How far more workers help, and what the driver costs when its workers cost nothing.

    python benchmarks/scaling.py --workers 1 2
    python benchmarks/scaling.py --forks 10000 100000

The first runs one study with so many workers, in processes of this machine and on Ray. It prints wall clock from
the first block to the last beside the load of the machine, since a curve needs a machine with nothing else to do,
and the CPU seconds of the workers and of the driver, which say the same on a machine that is shared.

The second prints rows a second written, verified and scored. One cell of the linear-quadratic study is computed.
Every other cell is answered with its stream and its rows under another name, so that what is timed is the driver
alone: making jobs, reading results, chaining and writing rows, with every block on disk before the next. Also says
how many bytes a job and its result are, as they go over a network.
"""

import argparse
import functools
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from cluster_stage import metered

import worldfork as wf
from worldfork.executors.base import Executor, opened
from worldfork.lab.forks.jobs import Label, Labelled, RunStreams, Streamed
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
episodes = {episodes}
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
        self.size = (0, 0)  # bytes of the last job and its result

    def map(self, function: Callable[[Any], Any], jobs: Iterable[Any], /) -> Iterator[tuple[int, Any]]:
        for index, job in enumerate(jobs):
            yield index, self.answer(function, job)

    def answer(self, function: Callable[[Any], Any], job: Any) -> Any:
        if isinstance(job, RunStreams):
            if not self.streams:
                result = function(job)
                assert isinstance(result, Streamed), result
                self.streams = result.streams[:1]
            return Streamed(self.streams * len(job.cells), 0.0, "nobody")
        if not isinstance(job, Label):
            return function(job)
        missing = [fork for fork in job.forks if fork.k not in self.rows]
        if missing:
            result = function(job)
            assert isinstance(result, Labelled), result
            self.rows.update({row.k: row for row in result.rows})
        rows = [self.rows[fork.k].model_copy(update={"cell": fork.cell.id}) for fork in job.forks]
        result = Labelled(rows, 0.0, {}, "nobody")
        if not self.size[0]:
            self.size = len(pickle.dumps(job)), len(pickle.dumps(result))
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
    path.write_text(STUDY.format(checkpoints=list(range(checkpoints)), points=points, block=block, episodes=30))
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


class Metered:
    """An executor whose workers say how much CPU time a job took."""

    def __init__(self, executor: Executor) -> None:
        self.executor, self.cpu = executor, 0.0

    def map(self, function: Callable[[Any], Any], jobs: Iterable[Any], /) -> Iterator[tuple[int, Any]]:
        for index, (result, seconds) in self.executor.map(functools.partial(metered, function), jobs):
            self.cpu += seconds
            yield index, result


def curve(counts: Sequence[int], *, episodes: int, root: Path) -> None:
    """One study of 96 forks in 24 blocks, with every number of workers, by every executor."""
    path = root / "curve.toml"
    path.write_text(STUDY.format(checkpoints=[0, 1, 2, 3], points=12, block=4, episodes=episodes))
    ledgers = set()
    for name, count in [(name, count) for name in ("local", "ray") for count in counts]:
        folder = root / f"{name}-{count}"
        moments: list[float] = []

        def watch(what: str, done: int, total: int, moments: list[float] = moments) -> None:
            if what == "forks":
                moments.append(time.perf_counter())

        with opened(name, {"workers": count}) as executor, Clock() as clock:
            workers = Metered(executor)
            wf.run(path, folder, executor=workers, progress=watch)
        driver = clock.cpu - (workers.cpu if getattr(executor, "here", False) else 0.0)
        ledgers.add(b"".join(file.read_bytes() for file in sorted(folder.rglob("forks.jsonl"))))
        print(
            f"{name} with {count}: {moments[-1] - moments[0]:.1f} s of blocks, {clock.wall:.1f} s in all; of CPU "
            f"{workers.cpu:.1f} s of workers and {driver:.1f} s of the driver; load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
    if len(ledgers) > 1:
        sys.exit("the ledgers differ")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--forks", type=int, nargs="+", default=[])
    options.add_argument("--workers", type=int, nargs="+", default=[], help="numbers of workers to compare")
    options.add_argument(
        "--episodes", type=int, default=10_000, help="of an evaluation, where workers are compared"
    )
    options.add_argument("--block", type=int, default=20, help="forks of a block")
    given = options.parse_args()
    if given.workers:
        with tempfile.TemporaryDirectory() as root:
            curve(given.workers, episodes=given.episodes, root=Path(root))
    for forks in given.forks:
        with tempfile.TemporaryDirectory() as root:
            measure(forks, block=given.block, root=Path(root))


if __name__ == "__main__":
    main()
