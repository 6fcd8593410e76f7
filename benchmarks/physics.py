"""Processor time of a step in worldfork, and of the same step in dm_control, Gymnasium and mujoco.rollout.

    python benchmarks/physics.py
    python benchmarks/physics.py walker-walk gymnasium:Ant-v5 dm_control:dog-run --worlds 64 --turns 50

Each world steps on from where it is, with random actions and physics of its own, on one thread. Observations and
rewards are included, but for `rollout`, which has neither: it takes the physics steps of a control step in one go.
Every side takes a turn of one step in each round, and a ratio is the median over rounds, so that other work on the
machine hurts both alike. The others run with MuJoCo's clock, as they do outside worldfork, which stops it.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("MUJOCO_GL", "disabled")  # dm_control would look for a display

import mujoco
import numpy as np
from mujoco import rollout
from rich.console import Console
from rich.progress import track
from rich.table import Table

from worldfork.lab.environments import load
from worldfork.lab.environments.simulators import stop_clock
from worldfork.lab.environments.suite import SuiteEnvironment, compiled, read_model

WORLDS = (
    "cartpole-swingup",
    "walker-walk",
    "cheetah-run",
    "hopper-hop",
    "gymnasium:HalfCheetah-v5",
    "gymnasium:Hopper-v5",
    "gymnasium:Ant-v5",
    "gymnasium:Humanoid-v5",
    "dm_control:ball_in_cup-catch",
    "dm_control:humanoid-walk",
)
Step = Callable[[], None]  # takes one step of every world


def main() -> None:
    options = read_options()
    results = []
    for name in track(options.names, description="measuring", console=Console(stderr=True)):
        sides = contenders(name, worlds=options.worlds)
        spent = measured(sides, turns=options.turns) / options.worlds * 1e6
        ours = spent[list(sides).index("worldfork")]
        for side, theirs in zip(sides, spent, strict=True):
            if side != "worldfork":
                ratio = float(np.median(theirs / ours))
                figures = {"theirs": float(np.median(theirs)), "worldfork": float(np.median(ours)), "ratio": ratio}
                results.append({"world": name, "beside": side, **figures})
    if options.json:
        json.dump({"worlds": options.worlds, "turns": options.turns, "microseconds": results}, sys.stdout, indent=2)
        print()
        return
    table = Table(
        "world", "beside", "theirs", "worldfork", "ratio", title="microseconds of processor time per step"
    )
    for row in results:
        figures = (f"{row['theirs']:,.1f}", f"{row['worldfork']:,.1f}", f"{row['ratio']:.2f}")
        table.add_row(row["world"], row["beside"], *figures)
    Console().print(table)


def contenders(name: str, *, worlds: int) -> dict[str, Step]:
    """Return what steps these worlds: worldfork, and the others that can."""
    settings: dict[str, Any] = {}
    family, colon, rest = name.partition(":")
    if colon:
        settings = {"drift": "opt.gravity[2]"}
    if family == "gymnasium":
        # Worlds that end early would stop here and begin anew there.
        endless = rest.startswith(("HalfCheetah", "HumanoidStandup", "Pusher", "Reacher", "Swimmer"))
        settings["arguments"] = {} if endless else {"terminate_when_unhealthy": False}
        return {
            "SyncVectorEnv": gymnasium(rest, settings["arguments"], worlds),
            "worldfork": ours(name, settings, worlds),
        }
    repeat = 1 if colon else 4
    sides = {
        "dm_control": dm_control(rest or name, worlds, repeat=repeat),
        "worldfork": ours(name, settings, worlds),
    }
    return sides if colon else {"mujoco.rollout": bare_physics(name, worlds), **sides}


def ours(name: str, settings: dict[str, Any], worlds: int) -> Step:
    environment = load(name, scale=0.5, threads=1, settings=settings)
    state = environment.reset(np.arange(worlds))
    reach = min(1.0, environment.action_bound)
    random = np.random.default_rng(0)
    levels = random.uniform(0, 1, worlds)
    taken = 0

    def step() -> None:
        nonlocal state, taken
        if taken == environment.episode_steps:
            state, taken = environment.reset(np.arange(worlds)), 0
        state, _, _ = environment.step(
            state, random.uniform(-reach, reach, (worlds, environment.action_size)), levels
        )
        taken += 1

    return step


def dm_control(name: str, worlds: int, *, repeat: int) -> Step:
    """Return a step of a list of dm_control's environments, one after the other."""
    from dm_control import suite

    environments = [suite.load(*name.split("-"), task_kwargs={"random": seed}) for seed in range(worlds)]
    for environment in environments:
        environment.reset()
    shape, random = environments[0].action_spec().shape, np.random.default_rng(0)

    def step() -> None:
        for environment in environments:
            action = random.uniform(-1, 1, shape)
            for _ in range(repeat):
                if environment.step(action).last():
                    environment.reset()

    return step


def gymnasium(name: str, arguments: dict[str, Any], worlds: int) -> Step:
    import gymnasium

    vector = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make(name, **arguments)] * worlds)
    vector.reset(seed=list(range(worlds)))
    high, random = vector.single_action_space.high, np.random.default_rng(0)

    def step() -> None:
        vector.step(random.uniform(-high, high, (worlds, len(high))))

    return step


def bare_physics(name: str, worlds: int) -> Step:
    """Return a step of mujoco.rollout over the published model: states alone."""
    task = load(name, threads=1)
    assert isinstance(task, SuiteEnvironment)
    text, included = read_model(task.xml)
    model = compiled(mujoco.MjSpec.from_string(text, include=included))
    data, random = mujoco.MjData(model), np.random.default_rng(0)
    full = int(mujoco.mjtState.mjSTATE_FULLPHYSICS)
    states = np.zeros((worlds, mujoco.mj_stateSize(model, full)))
    for row in states:
        mujoco.mj_resetData(model, data)
        data.qvel[:] = random.normal(0, 0.1, model.nv)
        mujoco.mj_getState(model, data, row, full)
    steps = task.action_repeat * task.substeps

    def step() -> None:
        nonlocal states
        action = random.uniform(-1, 1, (worlds, 1, model.nu)).repeat(steps, axis=1)
        states = rollout.rollout([model] * worlds, data, states, action)[0][:, -1]

    return step


def measured(sides: dict[str, Step], *, turns: int) -> np.ndarray:
    """Return the processor time of each side's turns, in seconds [side, turn]."""
    for step in sides.values():
        step()
    spent = np.zeros((len(sides), turns))
    for turn in range(turns):
        for place, (side, step) in enumerate(sides.items()):
            mujoco.set_mjcb_time(None)  # the clock of MuJoCo's bindings, back again
            if side == "worldfork":
                stop_clock()
            begun = time.process_time()
            step()
            spent[place, turn] = time.process_time() - begun
    return spent


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=WORLDS, help=f"which worlds (default: {' '.join(WORLDS)})")
    parser.add_argument("--worlds", type=int, default=64, help="that are stepped together (default: 64)")
    parser.add_argument("--turns", type=int, default=60, help="steps of each side (default: 60)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser.parse_args()


if __name__ == "__main__":
    main()
