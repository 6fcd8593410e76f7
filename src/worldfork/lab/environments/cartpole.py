"""Cartpole, swing-up: gravity drifts. Follows dm_control's `suite.cartpole`."""

import numpy as np
from jaxtyping import Float64

from worldfork.lab.environments.base import EnvironmentPlugin
from worldfork.lab.environments.simulators import Fields
from worldfork.lab.environments.suite import Randomness, SuiteEnvironment, gaussian, quadratic

__all__ = ["CartpolePlugin", "CartpoleSwingup"]

POLE = 2  # body
XZ, ZZ = 2, 8  # entries of a rotation matrix


class CartpoleSwingup(SuiteEnvironment):
    name = "cartpole-swingup"
    xml = "cartpole.xml"
    substeps = 1
    parameter = "gravity"
    derived = ("xmat",)

    def draw(self, random: Randomness) -> tuple[Float64[np.ndarray, " q"], Float64[np.ndarray, " v"]]:
        """The cart near the middle, the pole hanging; small velocities break the symmetry."""
        slider = 0.01 * random.randn()
        hinge = np.pi + 0.01 * random.randn()
        return np.array([slider, hinge]), 0.01 * random.randn(2)

    def observe(self, fields: Fields) -> Float64[np.ndarray, "n O"]:
        pole = fields["xmat"][:, POLE]
        return np.concatenate([fields["qpos"][:, :1], pole[:, [ZZ, XZ]], fields["qvel"]], axis=1)

    def reward(self, fields: Fields) -> Float64[np.ndarray, " n"]:
        """The pole upright and still, the cart centred, the control small."""
        upright = (fields["xmat"][:, POLE, ZZ] + 1) / 2
        small_control = (4 + quadratic(np.abs(fields["ctrl"][:, 0]))) / 5
        small_velocity = (1 + gaussian(np.abs(fields["qvel"][:, 1]) / 5)) / 2
        centred = (1 + gaussian(np.abs(fields["qpos"][:, 0]) / 2)) / 2
        return upright * small_control * small_velocity * centred


class CartpolePlugin(EnvironmentPlugin):
    """CartpoleSwingup by name."""

    drift_grid = tuple(1.0 + 0.25 * step for step in range(9))

    def build(self, *, scale: float, threads: int) -> CartpoleSwingup:
        return CartpoleSwingup(scale=scale, threads=threads)
