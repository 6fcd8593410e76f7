"""Kill a run of the linear-quadratic study at many moments, resume each time, and compare every chained byte.

    python tests/kill_and_resume.py --injected 10 --random 20
    python tests/kill_and_resume.py --injected 10 --random 20 --recorder    # a loop that records its own forks

Injected kills strike between write, flush, fsync and rename: half of a write may be on disk. Random ones strike
whenever. Prints how many of each were survived; exits 1 at the first difference.
"""

import argparse
import contextlib
import functools
import itertools
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from worldfork.lab.run import run
from worldfork.ledger.verify import verify
from worldfork.recorder import Recorder

REGISTRATION = """
schema = "worldfork.registration/1"
name = "killed"
[grid]
tasks = ["linear_quadratic"]
checkpoints = [0]
directions = ["toward", "away"]
[stream]
decision_points = 4
drift_period = 100
[evaluation]
episodes = 5
[mechanism]
steps = 5
window = 100
[[arms]]
name = "few"
[[arms]]
name = "many"
mechanism = {steps = 10}
[execution]
forks_per_block = 3
[tasks.linear_quadratic]
agent = "linear_quadratic"
drift_scale = 2.0
precision = "float64"
"""
DEPLOYMENT = """
[deployment]
evaluate_at = [3]
episodes = 3
[deployment.policies.periodic]
trigger = "periodic"
settings = {period = 2}
[deployment.policies.conformal]
trigger = "conformal"
settings = {capital = 2.0}
"""
STOPPING = (
    REGISTRATION.replace("checkpoints = [0]", "checkpoints = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]").replace(
        '"toward", ', ""
    )
    + """
[stopping]
questions = [{task = "linear_quadratic", arm = "many"}, {task = "linear_quadratic", arm = "many", against = "few"}]
"""
)
UNCHAINED = {"execution.json", "timings.jsonl", "failures.log", ".lock"}
CALLS = ("write", "fsync", "replace", "link", "unlink", "mkdir")


def chained(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file() and path.name not in UNCHAINED)
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def in_a_child(work: Callable[[], object], *, kill_after: float | None = None) -> int:
    """Run `work` in a forked process; returns its wait status."""
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def record(folder: Path) -> None:
    """Record the forks that are not there yet, as a training script that is run again does."""
    recorder = Recorder(folder, task="killed", question="Does it survive?")
    for checkpoint, k in itertools.product(range(3), range(1, 5)):
        if not recorder.has(checkpoint=checkpoint, k=k):
            recorder.fork(checkpoint=checkpoint, k=k, hold=[0.1 * k, 1.0], update=[0.2 * k, checkpoint + 1.0])


def struck(work: Callable[[], object], moment: int) -> None:
    """Do the work and die at the `moment`-th call that touches the disk: before it, half-way, or after it."""
    calls = iter(range(10**9))

    def dying(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            if next(calls) == moment // 2:
                if moment % 2 and real is real_write:
                    real_write(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
                elif moment % 2:
                    with contextlib.suppress(OSError):
                        real(*arguments, **named)
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **named)

        return call

    real_write = os.write
    for name in CALLS:
        setattr(os, name, dying(getattr(os, name)))
    work()


def disk_calls(work: Callable[[], object]) -> int:
    """Do the work; return how often it touches the disk."""
    count = 0
    kept = {name: getattr(os, name) for name in CALLS}

    def counting(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            nonlocal count
            count += 1
            return real(*arguments, **named)

        return call

    for name, real in kept.items():
        setattr(os, name, counting(real))
    work()
    for name, real in kept.items():
        setattr(os, name, real)
    return count


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--injected", type=int, default=10)
    options.add_argument("--random", type=int, default=20)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--deployment", action="store_true", help="of a study with [deployment]")
    options.add_argument("--stopping", action="store_true", help="of a study with [stopping]")
    options.add_argument("--recorder", action="store_true", help="of a loop that records its own forks")
    given = options.parse_args()
    chance = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as root:
        path = Path(root) / "killed.toml"
        registration = REGISTRATION + DEPLOYMENT if given.deployment else REGISTRATION
        path.write_text(STOPPING if given.stopping else registration)
        work: Callable[[Path], object] = record if given.recorder else functools.partial(run, path)
        calls = disk_calls(lambda: work(Path(root) / "reference"))
        began = time.perf_counter()
        work(Path(root) / "timed")
        whole = time.perf_counter() - began
        expected = chained(Path(root) / "reference")
        assert expected == chained(Path(root) / "timed")
        moments = [round(chance.uniform(0, 2 * calls - 1)) for _ in range(given.injected)]
        kills = [("injected", moment) for moment in moments]
        kills += [("random", chance.uniform(0, whole)) for _ in range(given.random)]
        survived = {"injected": 0, "random": 0}
        for number, (kind, moment) in enumerate(kills):
            folder = Path(root) / f"killed-{number}"
            if kind == "injected":
                status = in_a_child(lambda f=folder, m=moment: struck(lambda: work(f), int(m)))
                assert os.WIFSIGNALED(status), f"the kill at call {moment} did not strike"
            else:
                in_a_child(lambda f=folder: work(f), kill_after=moment)
            assert in_a_child(lambda f=folder: work(f)) == 0, f"no resume after {kind} kill at {moment}"
            found = chained(folder)
            differing = sorted(name for name in {*found, *expected} if found.get(name) != expected.get(name))
            verdict = verify(folder)
            if differing or verdict.problems or not (verdict.complete or verdict.recorded):
                sys.exit(f"after a {kind} kill at {moment}: {differing} differ")
            survived[kind] += 1
    print(
        f"{survived['injected']} injected and {survived['random']} random kills survived, {calls} disk calls a run"
    )


if __name__ == "__main__":
    main()
