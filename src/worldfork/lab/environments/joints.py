"""Random poses, drawn in dm_control's order, so that a seed means the same pose there and here."""

from typing import Any

import mujoco
import numpy as np
from jaxtyping import Float64

__all__ = ["limited_pose", "uniform_pose"]

HINGE = int(mujoco.mjtJoint.mjJNT_HINGE)


def limited_pose(model: Any, random: np.random.RandomState) -> Float64[np.ndarray, " q"]:
    """Joints with limits anywhere within them; the others as the model has them."""
    pose = model.qpos0.copy()
    limited = model.jnt_limited == 1
    low, high = model.jnt_range[limited].T
    pose[limited] = random.uniform(low, high)
    return pose


def uniform_pose(model: Any, random: np.random.RandomState) -> Float64[np.ndarray, " q"]:
    """Joints with limits anywhere within them, free hinges at any angle; free slides as the model has them."""
    pose = model.qpos0.copy()
    limited = model.jnt_limited == 1
    low = np.where(limited, model.jnt_range[:, 0], -np.pi)
    high = np.where(limited, model.jnt_range[:, 1], np.pi)
    drawn = limited | (model.jnt_type == HINGE)
    pose[drawn] = random.uniform(low[drawn], high[drawn])
    return pose
