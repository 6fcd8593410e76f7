"""What it saves to leave out of the physics what nobody reads: microseconds of processor time per control step.

    python benchmarks/unread_physics.py
    python benchmarks/unread_physics.py walker-walk --turns 300

The published model with MuJoCo's clock, the same without it, and worldfork's take turns in one process, on one
thread, with 256 worlds each. Ratios are medians over the turns: other work on the machine hurts all three alike.
"""

import argparse
import time
from typing import Any

import mujoco
import numpy as np

from worldfork.lab.environments import load, suite
from worldfork.lab.environments.simulators import stop_clock
from worldfork.lab.environments.suite import compile_model, compiled, read_model

TASKS = ("cartpole-swingup", "walker-walk", "cheetah-run", "hopper-hop")
WORLDS = 256


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=TASKS, help=f"which tasks (default: {' '.join(TASKS)})")
    parser.add_argument("--turns", type=int, default=150, help="control steps of each (default: 150)")
    options = parser.parse_args()
    print(f"{'task':18}{'published':>11}{'no clock':>11}{'worldfork':>11}{'ratio':>8}")
    for name in options.tasks:
        published, no_clock, worldfork = measure(name, turns=options.turns)
        medians = "".join(f"{np.median(each):11.1f}" for each in (published, no_clock, worldfork))
        print(f"{name:18}{medians}{np.median(published / worldfork):8.2f}")


def measure(name: str, *, turns: int) -> np.ndarray:
    """Microseconds per world and turn of the three."""
    models = (as_published, as_published, compile_model)
    worlds = [build(name, model) for model in models]
    states = [environment.reset(np.arange(WORLDS) % 64) for environment in worlds]
    random = np.random.default_rng(0)
    levels = random.uniform(0, 1, WORLDS)
    spent = np.zeros((len(worlds), turns))
    for turn in range(turns):
        action = random.uniform(-1, 1, (WORLDS, worlds[0].action_size))
        for place, environment in enumerate(worlds):
            mujoco.set_mjcb_time(None)  # the clock of the bindings, back again
            if place > 0:
                stop_clock()
            begun = time.process_time()
            states[place], _, _ = environment.step(states[place], action, levels)
            spent[place, turn] = time.process_time() - begun
    return spent / WORLDS * 1e6


def build(name: str, model: Any) -> Any:
    suite.compile_model = model
    return load(name, scale=0.5, threads=1)


def as_published(xml: str) -> Any:
    text, included = read_model(xml)
    spec = mujoco.MjSpec.from_string(text, include=included)
    for texture in spec.textures:
        texture.width = texture.height = 2
    spec.memory = 1 << 20
    return compiled(spec)


if __name__ == "__main__":
    main()
