"""Planar hopper, hopping: sliding friction drifts. Follows dm_control's `suite.hopper`."""

import numpy as np
from jaxtyping import Float64

from worldfork.lab.environments.base import EnvironmentPlugin
from worldfork.lab.environments.simulators import Fields
from worldfork.lab.environments.suite import Randomness, SuiteEnvironment, beyond, linear, uniform_pose

__all__ = ["HopperHop", "HopperPlugin"]

TORSO, FOOT = 1, 5  # bodies
HEIGHT = (0.6, 2.0)  # of the torso over the foot, within which it stands
SPEED = 2.0  # of the centre of mass, from which it hops


class HopperHop(SuiteEnvironment):
    name = "hopper-hop"
    xml = "hopper.xml"
    substeps = 4
    parameter = "friction"
    derived = ("xipos", "sensordata")

    def draw(self, random: Randomness) -> tuple[Float64[np.ndarray, " q"], Float64[np.ndarray, " v"]]:
        return uniform_pose(self.model, random), np.zeros(self.model.nv)

    def observe(self, fields: Fields) -> Float64[np.ndarray, "n O"]:
        """All but the horizontal position, and the forces on toe and heel during the last physics step."""
        touch = np.log1p(np.ascontiguousarray(fields["sensordata"][:, 3:]))
        return np.concatenate([fields["qpos"][:, 1:], fields["qvel"], touch], axis=1)

    def reward(self, fields: Fields) -> Float64[np.ndarray, " n"]:
        height = fields["xipos"][:, TORSO, 2] - fields["xipos"][:, FOOT, 2]
        standing = (height >= HEIGHT[0]) & (height <= HEIGHT[1])
        return standing * linear(beyond(fields["sensordata"][:, 0], lower=SPEED, margin=SPEED / 2), at_one=0.5)


class HopperPlugin(EnvironmentPlugin):
    """HopperHop by name."""

    drift_grid = (1.0, 0.75, 0.5, 0.25, 0.1)

    def build(self, *, scale: float, threads: int) -> HopperHop:
        return HopperHop(scale=scale, threads=threads)
