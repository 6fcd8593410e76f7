"""Tasks of the Control Suite that are restored exactly, and those that are not, as a Markdown table.

    python benchmarks/control_suite.py
    python benchmarks/control_suite.py reacher-easy dog-fetch --drift 'opt.gravity[2]'

A task passes if `worldfork.testing.check_environment` finds nothing and its steps, restored before each, equal
dm_control's to the last bit.
"""

import argparse
import itertools

import numpy as np

from worldfork.errors import WorldforkError
from worldfork.lab.adapters.control_suite import control_suite
from worldfork.lab.environments import load
from worldfork.testing import check_environment

STEPS = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", help="DOMAIN-TASK (default: all)")
    parser.add_argument("--drift", default="body_mass[1:]", help="what drifts (default: %(default)s)")
    options = parser.parse_args()
    names = options.tasks or ["-".join(names) for names in control_suite().ALL_TASKS]
    print("| domain | restored exactly | not |\n|---|---|---|")
    for domain, members in itertools.groupby(names, key=lambda name: name.partition("-")[0]):
        exact, others = [], []
        for name in members:
            task, problem = f"`{name.partition('-')[2]}`", find_problem(name, options.drift)
            (others if problem else exact).append(f"{task}: {problem}" if problem else task)
        print(f"| `{domain}` | {', '.join(exact)} | {'; '.join(others)} |", flush=True)


def find_problem(name: str, drift: str) -> str:
    """Return what is wrong with a task; nothing if it keeps the contract and dm_control's digits."""
    try:
        check_environment(f"dm_control:{name}", settings={"drift": drift})
    except WorldforkError as error:
        return " ".join(str(error).split())
    return "" if equals_dm_control(name, drift) else "its steps are not dm_control's"


def equals_dm_control(name: str, drift: str, seed: int = 3) -> bool:
    """Compare steps of a world, led elsewhere before each, with dm_control's own."""
    original = control_suite().load(*name.split("-"), task_kwargs={"random": seed})
    original.physics._make_rendering_contexts = lambda: None  # quadruped-escape asks for a renderer
    low, high = original.action_spec().minimum, original.action_spec().maximum
    around_zero = (high == high[0]).all() and (low == -high).all()  # else ours lie in [-1, 1]
    world = load(f"dm_control:{name}", settings={"drift": drift}, threads=1)
    state, shown, random = world.reset(np.array([seed])), original.reset(), np.random.default_rng(0)
    for _ in range(STEPS):
        if not np.array_equal(
            np.concatenate([np.ravel(p) for p in shown.observation.values()]), state.observation[0]
        ):
            return False
        action = random.uniform(-1, 1, (1, world.action_size))
        world.step(state, action)  # whatever simulation held the state has moved on: the next step restores it
        state, _, reward = world.step(state, action)
        shown = original.step(action[0] if around_zero else (high + low) / 2 + (high - low) / 2 * action[0])
        if shown.reward != reward[0]:
            return False
    return True


if __name__ == "__main__":
    main()
