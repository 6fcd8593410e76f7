"""Worlds that drift: batched, exact, and forkable because their state is data.

env = load("walker-walk", scale=0.05)
state = env.reset(np.arange(64))
state, observation, reward = env.step(state, np.zeros((64, env.action_size)), level=0.5)
"""

import contextlib
import importlib
import os
from collections.abc import Mapping
from typing import Any

from worldfork import registry
from worldfork.errors import WorldforkError
from worldfork.lab.environments.base import Environment, EnvironmentPlugin, State, concatenate

__all__ = ["Environment", "EnvironmentPlugin", "State", "concatenate", "load"]


def load(
    name: str, *, scale: float = 1.0, threads: int | None = None, settings: Mapping[str, Any] | None = None
) -> Environment:
    """Return a world by its name.

    Args:
        name: a name of ours or of an installed package, `gymnasium:ID`, `dm_control:DOMAIN-TASK` or
            `module:attribute`.
        scale: drift level 1 multiplies the drifting parameter by this; 1 is a world that never changes.
        threads: CPU threads that step the physics, by default all; results do not depend on it.
        settings: those of the world, such as what drifts in `dm_control:...`.

    >>> load("dm_control:reacher-easy", settings={"drift": "dof_damping"}).action_size
    2
    """
    if threads is None:
        threads = os.cpu_count() or 1
    if threads < 1:
        raise WorldforkError(f"`threads` must be at least 1; got {threads}. Leave it out to use all CPUs.")
    plugin = registry.build("environments", name, EnvironmentPlugin, settings=settings)
    return plugin.build(scale=float(scale), threads=threads)


# MuJoCo opens the renderer that MUJOCO_GL names when it is imported, and fails in words of OpenGL's where there is
# none. Physics needs no renderer; whoever wants pictures is told what to install by `rendering.find_backend`. This
# comes before any world of this package, which all begin with `import mujoco`; without a renderer nothing can fail,
# and worlds that do without MuJoCo, and the contract kits, need not wait for it.
_asked = os.environ.get("MUJOCO_GL", "disabled")
if _asked not in ("disabled", "disable", "off", "false", "0"):
    try:
        importlib.import_module("mujoco")
    except Exception:
        os.environ["MUJOCO_GL"] = "disabled"
        with contextlib.suppress(ModuleNotFoundError):  # said where it is missed
            importlib.import_module("mujoco")
        os.environ["MUJOCO_GL"] = _asked
