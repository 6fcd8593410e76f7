"""A tank with an inflow and a leak. The leak drifts."""

from typing import Any

import numpy as np

from worldfork.lab.environments.base import EnvironmentPlugin, State

TIME_STEP = 0.1
LEAK = 0.5  # nominal


class Tank:
    """A row of physics is the height of the water. Every call is a function of its arguments."""

    name = "sample-tank"
    simulator = "worldfork_sample tank 1"
    parameter = "leak"
    observation_size = 1
    action_size = 1
    action_bound = 1.0
    episode_steps = 20
    action_repeat = 2

    def __init__(self, *, scale: float, spread: float) -> None:
        self.scale, self.spread = scale, spread

    def reset(self, seeds: np.ndarray, level: Any = 0.0) -> State:
        height = np.array([[np.random.default_rng(seed).normal(0.0, self.spread)] for seed in seeds])
        height = height.reshape(len(seeds), 1)
        return State(height, height.copy(), np.zeros(len(seeds), np.bool_))

    def step(self, state: State, action: np.ndarray, level: Any = 0.0) -> tuple[State, np.ndarray, np.ndarray]:
        leak = LEAK * (1.0 + np.asarray(level) * (self.scale - 1.0))
        height, inflow = state.physics[:, 0], action[:, 0]
        after = (height + TIME_STEP * (2.0 * inflow - leak * height))[:, None]
        reward = -np.square(height - 1.0)
        unstable = state.unstable | ~np.isfinite(after[:, 0])
        return State(after, after.copy(), unstable), after.copy(), reward

    def read_back(self) -> dict[str, float]:
        """The leak, from how a tank of height 1 empties."""
        full = State(np.ones((1, 1)), np.ones((1, 1)), np.zeros(1, np.bool_))
        _, after, _ = self.step(full, np.zeros((1, 1)))
        return {"leak": round(float(1.0 - after[0, 0]) / TIME_STEP, 12)}

    def nominal(self) -> dict[str, float]:
        return {"leak": LEAK}


class TankPlugin(EnvironmentPlugin):
    spread: float = 0.3  # standard deviation of the height that an episode begins with

    def build(self, *, scale: float, threads: int) -> Tank:
        return Tank(scale=scale, spread=self.spread)
