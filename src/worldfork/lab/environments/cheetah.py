"""Planar cheetah, running: sliding friction drifts. Follows dm_control's `suite.cheetah`."""

import numpy as np
from jaxtyping import Float64

from worldfork.lab.environments.base import EnvironmentPlugin
from worldfork.lab.environments.simulators import Fields
from worldfork.lab.environments.suite import Randomness, SuiteEnvironment, beyond, limited_pose, linear

__all__ = ["CheetahPlugin", "CheetahRun"]

SPEED = 10.0  # of the centre of mass, from which it runs


class CheetahRun(SuiteEnvironment):
    name = "cheetah-run"
    xml = "cheetah.xml"
    substeps = 1
    parameter = "friction"
    derived = ("sensordata",)
    settling_steps = 200

    def draw(self, random: Randomness) -> tuple[Float64[np.ndarray, " q"], Float64[np.ndarray, " v"]]:
        return limited_pose(self.model, random), np.zeros(self.model.nv)

    def observe(self, fields: Fields) -> Float64[np.ndarray, "n O"]:
        """All but the horizontal position: running is the same everywhere."""
        return np.concatenate([fields["qpos"][:, 1:], fields["qvel"]], axis=1)

    def reward(self, fields: Fields) -> Float64[np.ndarray, " n"]:
        return linear(beyond(fields["sensordata"][:, 0], lower=SPEED, margin=SPEED), at_one=0.0)


class CheetahPlugin(EnvironmentPlugin):
    """CheetahRun by name."""

    drift_grid = tuple(1.0 + 0.25 * step for step in range(9))

    def build(self, *, scale: float, threads: int) -> CheetahRun:
        return CheetahRun(scale=scale, threads=threads)
