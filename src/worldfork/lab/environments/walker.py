"""Planar walker, walking: sliding friction drifts. Follows dm_control's `suite.walker`."""

import numpy as np
from jaxtyping import Float64

from worldfork.lab.environments.base import EnvironmentPlugin
from worldfork.lab.environments.simulators import Fields
from worldfork.lab.environments.suite import Randomness, SuiteEnvironment, beyond, gaussian, linear, uniform_pose

__all__ = ["WalkerPlugin", "WalkerWalk"]

TORSO = 1  # body
XX, XZ, ZZ = 0, 2, 8  # entries of a rotation matrix
HEIGHT = 1.2  # of the torso, from which it stands
SPEED = 1.0  # of the centre of mass, from which it walks


class WalkerWalk(SuiteEnvironment):
    name = "walker-walk"
    xml = "walker.xml"
    substeps = 10
    parameter = "friction"
    derived = ("xmat", "xpos", "sensordata")

    def draw(self, random: Randomness) -> tuple[Float64[np.ndarray, " q"], Float64[np.ndarray, " v"]]:
        return uniform_pose(self.model, random), np.zeros(self.model.nv)

    def observe(self, fields: Fields) -> Float64[np.ndarray, "n O"]:
        orientations = fields["xmat"][:, TORSO:, [XX, XZ]].reshape(len(fields["qvel"]), -1)
        return np.concatenate([orientations, fields["xpos"][:, TORSO, 2:], fields["qvel"]], axis=1)

    def reward(self, fields: Fields) -> Float64[np.ndarray, " n"]:
        """Standing upright, and up to six times that for moving forward."""
        standing = gaussian(beyond(fields["xpos"][:, TORSO, 2], lower=HEIGHT, margin=HEIGHT / 2))
        upright = (1 + fields["xmat"][:, TORSO, ZZ]) / 2
        moving = linear(beyond(fields["sensordata"][:, 0], lower=SPEED, margin=SPEED / 2), at_one=0.5)
        return (3 * standing + upright) / 4 * (5 * moving + 1) / 6


class WalkerPlugin(EnvironmentPlugin):
    """WalkerWalk by name."""

    drift_grid = (1.0, 0.75, 0.5, 0.25, 0.1, 0.05)

    def build(self, *, scale: float, threads: int) -> WalkerWalk:
        return WalkerWalk(scale=scale, threads=threads)
