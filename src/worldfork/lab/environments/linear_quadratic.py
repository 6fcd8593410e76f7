"""A world with a known answer: x' = A(g) x + B u + w, reward -(x'Qx + u'Ru).

An inverted pendulum, linearised: a tilt and its velocity, one motor of unlimited force. Drift changes how hard
gravity pulls it over. The expected return of any fixed gain has a closed form (`closed_form.py` shares nothing with
this file but the matrices), so the true value of every update is known. Pure NumPy, and the example to copy when
bringing a simulator of one's own.

Products are written as explicit sums: a batched matrix product rounds differently at another batch size.
"""

import dataclasses
from typing import Final

import numpy as np
from jaxtyping import Float64, Integer

from worldfork.errors import WorldforkError
from worldfork.lab.environments.base import EnvironmentPlugin, Level, State
from worldfork.randomness import Event, Purpose, fold_in, normals, words

TIME_STEP: Final = 0.1
PULL: Final = 1.0  # nominal; what drifts


@dataclasses.dataclass(frozen=True)
class Matrices:
    """Everything that defines the world; the closed form is computed from it."""

    transition: Float64[np.ndarray, "2 2"]  # A at drift level 0
    slope: Float64[np.ndarray, "2 2"]  # A's change from level 0 to level 1
    control: Float64[np.ndarray, "2 1"]  # B
    state_cost: Float64[np.ndarray, "2 2"]  # Q
    action_cost: Float64[np.ndarray, "1 1"]  # R
    noise: Float64[np.ndarray, " 2"]  # standard deviations of w
    start: Float64[np.ndarray, " 2"]  # standard deviations of the initial state

    @classmethod
    def pendulum(cls, scale: float) -> "Matrices":
        """Return the pendulum whose pull is multiplied by `scale` at drift level 1."""
        return cls(
            transition=np.array([[1.0, TIME_STEP], [PULL * TIME_STEP, 1.0]]),
            slope=np.array([[0.0, 0.0], [PULL * TIME_STEP * (scale - 1.0), 0.0]]),
            control=np.array([[0.0], [TIME_STEP]]),
            state_cost=np.diag([1.0, 0.1]),
            action_cost=np.array([[0.05]]),
            noise=np.array([0.05, 0.1]),
            start=np.array([0.2, 0.2]),
        )


class World:
    """The linear-quadratic world. A row of physics is (tilt, velocity, key, key, step): noise is a function of the
    episode's key, which its seed became, and the step, so a restored world goes on exactly as it would have."""

    name = "linear_quadratic"
    simulator = "linear_quadratic 1"
    parameter = "pull"
    observation_size = 2
    action_size = 1
    action_bound = float("inf")
    episode_steps = 50
    action_repeat = 1

    def __init__(self, *, scale: float) -> None:
        self.matrices = Matrices.pendulum(scale)
        self._start_key = words(Event(purpose=Purpose.INITIAL_STATE, task=self.name))
        self._noise_key = words(Event(purpose=Purpose.PROCESS_NOISE, task=self.name))

    def reset(self, seeds: Integer[np.ndarray, " B"], level: Level = 0.0) -> State:
        """Return initial states, which are the same at every level."""
        drawn = normals(fold_in(self._start_key, seeds), 2, Purpose.INITIAL_STATE)
        position = self.matrices.start * drawn
        physics = np.column_stack([position, fold_in(self._noise_key, seeds), np.zeros(len(seeds))])
        return State(physics, position, np.zeros(len(seeds), np.bool_))

    def step(
        self, state: State, action: Float64[np.ndarray, "B 1"], level: Level = 0.0
    ) -> tuple[State, Float64[np.ndarray, "B 2"], Float64[np.ndarray, " B"]]:
        """Take a step. A world that overflows is marked unstable, and its return is not finite."""
        if not np.isfinite(action).all():
            raise WorldforkError(
                "Actions must be finite; got some that are not. Replace them by zero and count them."
            )
        matrices = self.matrices
        tilt, velocity, _, _, step = state.physics.T
        force = action[:, 0]
        keys = fold_in(state.physics[:, 2:4].astype(np.uint32), step.astype(np.int64))
        noise = matrices.noise * normals(keys, 2, Purpose.PROCESS_NOISE)
        with np.errstate(over="ignore", invalid="ignore"):
            moved = [
                (fixed[0] + level * drift[0]) * tilt + (fixed[1] + level * drift[1]) * velocity + push[0] * force
                for fixed, drift, push in zip(matrices.transition, matrices.slope, matrices.control, strict=True)
            ]
            position = np.stack(moved, axis=1) + noise
            (q00, q01), (q10, q11) = matrices.state_cost
            cost = tilt * (q00 * tilt + q01 * velocity) + velocity * (q10 * tilt + q11 * velocity)
            reward = -(cost + matrices.action_cost[0, 0] * force * force)
        unstable = state.unstable | ~np.isfinite(position).all(axis=1)
        physics = np.column_stack([position, state.physics[:, 2:4], step + 1])
        return State(physics, position, unstable), position.copy(), reward

    def read_back(self) -> dict[str, float]:
        """Return the pull, recovered from how the constructed world moves at level 0."""
        at_rest, tilted = (
            State(np.array([[x, 0.0, 0.0, 0.0, 0.0]]), np.zeros((1, 2)), np.zeros(1, np.bool_)) for x in (0, 1)
        )
        fall = self.step(tilted, np.zeros((1, 1)))[1] - self.step(at_rest, np.zeros((1, 1)))[1]
        return {"pull": round(float(fall[0, 1]) / TIME_STEP, 12)}

    def nominal(self) -> dict[str, float]:
        """Return the pull by definition."""
        return {"pull": PULL}


class LinearQuadraticPlugin(EnvironmentPlugin):
    """The world by name: its pull is `scale` times nominal at drift level 1. `threads` changes nothing."""

    def build(self, *, scale: float, threads: int) -> World:
        return World(scale=scale)
