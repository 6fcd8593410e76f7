"""Four tasks of the Control Suite whose observations and rewards are computed for thousands of worlds at a time.

Each follows the module of dm_control's suite that its class names, draw by draw and bit by bit.
"""

from typing import ClassVar

import numpy as np
from jaxtyping import Float64

from worldfork.lab.environments.base import EnvironmentPlugin
from worldfork.lab.environments.simulators import Fields
from worldfork.lab.environments.suite import (
    Randomness,
    SuiteEnvironment,
    beyond,
    gaussian,
    linear,
    quadratic,
    random_pose,
)

XX, XZ, ZZ = 0, 2, 8  # entries of a rotation matrix
Positions = Float64[np.ndarray, " q"]
Velocities = Float64[np.ndarray, " v"]


class CartpoleSwingup(SuiteEnvironment):
    """A pole on a cart, to be swung up (`suite.cartpole`): gravity drifts."""

    name = "cartpole-swingup"
    xml = "cartpole.xml"
    substeps = 1
    parameter = "gravity"
    derived = ("xmat",)
    pole = 2  # body

    def draw(self, random: Randomness) -> tuple[Positions, Velocities]:
        """Place the cart near the middle and the pole hanging; small velocities break the symmetry."""
        slider = 0.01 * random.randn()
        hinge = np.pi + 0.01 * random.randn()
        return np.array([slider, hinge]), 0.01 * random.randn(2)

    def observe(self, fields: Fields) -> Float64[np.ndarray, "n O"]:
        pole = fields["xmat"][:, self.pole]
        return np.concatenate([fields["qpos"][:, :1], pole[:, [ZZ, XZ]], fields["qvel"]], axis=1)

    def reward(self, fields: Fields) -> Float64[np.ndarray, " n"]:
        """Reward a pole that is upright and still, a cart in the middle, and small controls."""
        upright = (fields["xmat"][:, self.pole, ZZ] + 1) / 2
        small_control = (4 + quadratic(np.abs(fields["ctrl"][:, 0]))) / 5
        small_velocity = (1 + gaussian(np.abs(fields["qvel"][:, 1]) / 5)) / 2
        centred = (1 + gaussian(np.abs(fields["qpos"][:, 0]) / 2)) / 2
        return upright * small_control * small_velocity * centred


class WalkerWalk(SuiteEnvironment):
    """A planar walker (`suite.walker`): sliding friction drifts."""

    name = "walker-walk"
    xml = "walker.xml"
    substeps = 10
    parameter = "friction"
    derived = ("xmat", "xpos", "sensordata")
    torso = 1  # body
    height = 1.2  # of the torso, from which it stands
    speed = 1.0  # of the centre of mass, from which it walks

    def draw(self, random: Randomness) -> tuple[Positions, Velocities]:
        return random_pose(self.model, random), np.zeros(self.model.nv)

    def observe(self, fields: Fields) -> Float64[np.ndarray, "n O"]:
        orientations = fields["xmat"][:, self.torso :, [XX, XZ]].reshape(len(fields["qvel"]), -1)
        return np.concatenate([orientations, fields["xpos"][:, self.torso, 2:], fields["qvel"]], axis=1)

    def reward(self, fields: Fields) -> Float64[np.ndarray, " n"]:
        """Reward standing upright, and up to six times as much if it moves forward."""
        standing = gaussian(beyond(fields["xpos"][:, self.torso, 2], lower=self.height, margin=self.height / 2))
        upright = (1 + fields["xmat"][:, self.torso, ZZ]) / 2
        forward = beyond(fields["sensordata"][:, 0], lower=self.speed, margin=self.speed / 2)
        return (3 * standing + upright) / 4 * (5 * linear(forward, at_one=0.5) + 1) / 6


class CheetahRun(SuiteEnvironment):
    """A planar cheetah (`suite.cheetah`): sliding friction drifts."""

    name = "cheetah-run"
    xml = "cheetah.xml"
    substeps = 1
    parameter = "friction"
    derived = ("sensordata",)
    settling_steps = 200
    speed = 10.0  # of the centre of mass, from which it runs

    def draw(self, random: Randomness) -> tuple[Positions, Velocities]:
        return random_pose(self.model, random, free_hinges=False), np.zeros(self.model.nv)

    def observe(self, fields: Fields) -> Float64[np.ndarray, "n O"]:
        """Show all but the horizontal position: running is the same everywhere."""
        return np.concatenate([fields["qpos"][:, 1:], fields["qvel"]], axis=1)

    def reward(self, fields: Fields) -> Float64[np.ndarray, " n"]:
        return linear(beyond(fields["sensordata"][:, 0], lower=self.speed, margin=self.speed), at_one=0.0)


class HopperHop(SuiteEnvironment):
    """A planar hopper (`suite.hopper`): sliding friction drifts."""

    name = "hopper-hop"
    xml = "hopper.xml"
    substeps = 4
    parameter = "friction"
    derived = ("xipos", "sensordata")
    torso, foot = 1, 5  # bodies
    height = (0.6, 2.0)  # of the torso over the foot, within which it stands
    speed = 2.0  # of the centre of mass, from which it hops

    def draw(self, random: Randomness) -> tuple[Positions, Velocities]:
        return random_pose(self.model, random), np.zeros(self.model.nv)

    def observe(self, fields: Fields) -> Float64[np.ndarray, "n O"]:
        """Show all but the horizontal position, and the forces on toe and heel during the last physics step."""
        touch = np.log1p(np.ascontiguousarray(fields["sensordata"][:, 3:]))
        return np.concatenate([fields["qpos"][:, 1:], fields["qvel"], touch], axis=1)

    def reward(self, fields: Fields) -> Float64[np.ndarray, " n"]:
        height = fields["xipos"][:, self.torso, 2] - fields["xipos"][:, self.foot, 2]
        standing = (height >= self.height[0]) & (height <= self.height[1])
        forward = beyond(fields["sensordata"][:, 0], lower=self.speed, margin=self.speed / 2)
        return standing * linear(forward, at_one=0.5)


class SuitePlugin(EnvironmentPlugin):
    """A task by its name, without settings."""

    task: ClassVar[type[SuiteEnvironment]]

    def build(self, *, scale: float, threads: int) -> SuiteEnvironment:
        return self.task(scale=scale, threads=threads)


class CartpolePlugin(SuitePlugin):
    """The task `cartpole-swingup`."""

    task = CartpoleSwingup
    drift_grid = tuple(1.0 + 0.25 * step for step in range(9))


class WalkerPlugin(SuitePlugin):
    """The task `walker-walk`."""

    task = WalkerWalk
    drift_grid = (1.0, 0.75, 0.5, 0.25, 0.1, 0.05)


class CheetahPlugin(SuitePlugin):
    """The task `cheetah-run`."""

    task = CheetahRun
    drift_grid = tuple(1.0 + 0.25 * step for step in range(9))


class HopperPlugin(SuitePlugin):
    """The task `hopper-hop`."""

    task = HopperHop
    drift_grid = (1.0, 0.75, 0.5, 0.25, 0.1)
