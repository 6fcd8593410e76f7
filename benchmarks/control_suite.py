"""Every task of the Control Suite under the contract of worlds, as a Markdown table: which are restored exactly.

    python benchmarks/control_suite.py
    python benchmarks/control_suite.py reacher-easy dog-fetch --drift 'opt.gravity[2]'

A task passes if `worldfork.testing.check_environment` finds nothing and its steps, restored before each, equal
dm_control's to the last bit.
"""

import argparse

import numpy as np

from worldfork.errors import WorldforkError
from worldfork.lab.adapters.control_suite import control_suite
from worldfork.lab.adapters.mujoco_worlds import ActionRange
from worldfork.lab.environments import load
from worldfork.testing import check_environment

STEPS = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", help="DOMAIN-TASK (default: all)")
    parser.add_argument("--drift", default="body_mass[1:]", help="what drifts (default: %(default)s)")
    options = parser.parse_args()
    print("| task | observations | actions | numbers of a state | restored exactly |\n|---|---|---|---|---|")
    for name in options.tasks or ["-".join(names) for names in control_suite().ALL_TASKS]:
        world = load(f"dm_control:{name}", settings={"drift": options.drift}, threads=1)
        sizes = (world.observation_size, world.action_size, world.reset(np.arange(1)).physics.shape[1])
        print(f"| `{name}` | " + " | ".join(str(size) for size in sizes) + f" | {verdict(name, options.drift)} |")


def verdict(name: str, drift: str) -> str:
    """Return "yes", or what is wrong."""
    try:
        check_environment(f"dm_control:{name}", settings={"drift": drift})
    except WorldforkError as error:
        return " ".join(str(error).split())
    return "yes" if equals_dm_control(name, drift) else "its steps are not dm_control's"


def equals_dm_control(name: str, drift: str, seed: int = 3) -> bool:
    """Compare steps of a world, led elsewhere before each, with dm_control's own."""
    original = control_suite().load(*name.split("-"), task_kwargs={"random": seed})
    original.physics._make_rendering_contexts = lambda: None  # quadruped-escape asks for a renderer
    actions = ActionRange(original.action_spec().minimum, original.action_spec().maximum)
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
        shown = original.step(actions.theirs(action[0]))
        if shown.reward != reward[0]:
            return False
    return True


if __name__ == "__main__":
    main()
