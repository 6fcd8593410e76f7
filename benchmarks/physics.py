"""Control steps per second: worldfork's batches beside a loop over dm_control, in one run.

    python benchmarks/physics.py
    python benchmarks/physics.py --worlds 4096 --threads 2 --json

A control step is four environment steps with one action, observation and rewards included. dm_control steps a list
of environments one after the other. The two sides take turns and each is given its best round, so that other work
on the machine hurts neither side more than the other.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable

os.environ.setdefault("MUJOCO_GL", "disabled")  # dm_control would look for a display

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from worldfork.lab.environments import load

TASKS = ("cartpole-swingup", "walker-walk", "cheetah-run", "hopper-hop")


def main() -> None:
    options = read_options()
    results = []
    for name in track(options.tasks, description="measuring", console=Console(stderr=True)):
        theirs, ours = (
            suite_loop(name, worlds=options.suite_worlds),
            batch(name, worlds=options.worlds, threads=options.threads),
        )
        rounds = [(rate(theirs, options.seconds), rate(ours, options.seconds)) for _ in range(options.rounds)]
        dm_control, worldfork = (max(side) for side in zip(*rounds, strict=True))
        results.append(
            {"task": name, "dm_control": dm_control, "worldfork": worldfork, "ratio": worldfork / dm_control}
        )
    if options.json:
        settings = {
            key: getattr(options, key) for key in ("worlds", "suite_worlds", "threads", "rounds", "seconds")
        }
        json.dump({"settings": settings, "control_steps_per_second": results}, sys.stdout, indent=2)
        print()
        return
    table = Table("task", "dm_control", "worldfork", "ratio", title=f"control steps/s, {options.threads} threads")
    for row in results:
        table.add_row(row["task"], f"{row['dm_control']:,.0f}", f"{row['worldfork']:,.0f}", f"{row['ratio']:.1f}")
    Console().print(table)


def suite_loop(name: str, *, worlds: int) -> Callable[[], int]:
    """One control step of each of `worlds` dm_control environments."""
    from dm_control import suite

    environments = [suite.load(*name.split("-"), task_kwargs={"random": seed}) for seed in range(worlds)]
    for environment in environments:
        environment.reset()
    size = environments[0].action_spec().shape
    random = np.random.default_rng(0)

    def step() -> int:
        for environment in environments:
            action = random.uniform(-1, 1, size)
            for _ in range(4):
                if environment.step(action).last():
                    environment.reset()
        return worlds

    return step


def batch(name: str, *, worlds: int, threads: int) -> Callable[[], int]:
    """One control step of `worlds` worlds, each with physics of its own."""
    environment = load(name, scale=0.5, threads=threads)
    state = environment.reset(np.arange(worlds) % 64)
    random = np.random.default_rng(0)
    levels = random.uniform(0, 1, worlds)

    def step() -> int:
        nonlocal state
        state, _, _ = environment.step(state, random.uniform(-1, 1, (worlds, environment.action_size)), levels)
        return worlds

    return step


def rate(step: Callable[[], int], seconds: float) -> float:
    begun, count = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - begun) < seconds:
        count += step()
    return count / elapsed


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=TASKS, help=f"which tasks (default: {' '.join(TASKS)})")
    parser.add_argument("--worlds", type=int, default=1024, help="worlds in a batch (default: 1024)")
    parser.add_argument("--suite-worlds", type=int, default=64, help="environments dm_control steps (default: 64)")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="default: all CPUs")
    parser.add_argument("--rounds", type=int, default=5, help="turns each side takes (default: 5)")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a turn (default: 1)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser.parse_args()


if __name__ == "__main__":
    main()
