"""Worlds that drift: batched, exact, and forkable because their state is data.

    env = load("walker-walk", scale=0.05)
    state = env.reset(np.arange(64))
    state, observation, reward = env.step(state, np.zeros((64, env.action_size)), level=0.5)

A task is a module of this package with a function `build(*, scale, threads)`, and one line in `CATALOGUE`.
"""

import importlib
import os
from typing import Final

from worldfork.errors import WorldforkError
from worldfork.lab.environments.base import Environment, State, concatenate

__all__ = ["CATALOGUE", "Environment", "State", "concatenate", "load"]

# Task -> module. Modules are imported when asked for: the linear-quadratic world must load without MuJoCo.
CATALOGUE: Final = {
    "cartpole-swingup": "cartpole",
    "walker-walk": "walker",
    "cheetah-run": "cheetah",
    "hopper-hop": "hopper",
    "linear_quadratic": "linear_quadratic",
}


def load(name: str, *, scale: float = 1.0, threads: int | None = None) -> Environment:
    """The task called `name`.

    `scale` is what drift level 1 does to the drifting parameter: nominal * scale; 1 is a world that never changes.
    `threads` is how many CPU threads step the physics, by default all of them; results do not depend on it.
    """
    if name not in CATALOGUE:
        raise WorldforkError(f"There is no task {name!r}. Known tasks: {', '.join(sorted(CATALOGUE))}.")
    if threads is None:
        threads = os.cpu_count() or 1
    if threads < 1:
        raise WorldforkError(f"`threads` must be at least 1; got {threads}. Leave it out to use all CPUs.")
    module = importlib.import_module(f"{__name__}.{CATALOGUE[name]}")
    environment: Environment = module.build(scale=float(scale), threads=threads)
    return environment
