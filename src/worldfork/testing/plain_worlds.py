"""Worlds of plain simulators, in which nothing drifts: an agent is tried there with no plug-in around them."""

import copy
import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from worldfork.errors import WorldforkError
from worldfork.lab.environments.base import Environment
from worldfork.lab.environments.restorable import RestorablePlugin
from worldfork.testing.contract import name_of
from worldfork.testing.save_and_restore import Plain


def world_around(make: Callable[[], Any]) -> Environment:
    """Return the world of a simulator that `check_simulator` takes. What it saves is kept here, whatever it is: a
    row of the world's state has the place of it."""
    states: list[Any] = []

    class PlainWorld(RestorablePlugin):
        simulator: ClassVar = "a plain simulator"
        parameter: ClassVar = "nothing"

        def make(self) -> Plain:
            return Plain(make)

        def save(self, env: Plain) -> Any:
            states.append(copy.deepcopy(env.save()))
            return [len(states) - 1]

        def restore(self, env: Plain, saved: np.ndarray) -> None:
            env.restore(copy.deepcopy(states[int(saved[0])]))

        def drift(self, env: Plain, factor: float) -> None:
            """Leave it as it is."""

        def read(self, env: Plain) -> dict[str, float]:
            return {}

        def actions(self, env: Plain) -> tuple[int, float]:
            if hasattr(env.action_space, "low"):
                return super().actions(env)
            drawn = np.asarray(env.actions(1, seed=0)[0])
            if drawn.ndim != 1 or drawn.dtype.kind != "f":
                raise WorldforkError(f"Its actions are {env.action_space}; an agent's are numbers on one axis.")
            return len(drawn), math.inf

    PlainWorld.__name__ = getattr(make, "__name__", name_of(make))
    return PlainWorld().build(scale=1.0, threads=1)
