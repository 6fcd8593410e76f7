"""A linear model of any world, in NumPy alone: studies of the simulator that begin and end in a second.

It looks one step ahead and pushes where the observation's second number (cartpole's height) is predicted largest.
"""

import dataclasses
from typing import Any

import numpy as np

from worldfork.lab.agents import arrays
from worldfork.lab.agents.base import AgentPlugin, Checkpoint, Decision, Fit, Surprise, Window
from worldfork.randomness import Event, Purpose, fold_in, generator, normals

CANDIDATES = 4
LEARNING_RATE = 0.05


@dataclasses.dataclass(frozen=True)
class Belief:
    """The last observation [P, E, O], and the action that was chosen on it [P, E, A]."""

    observation: np.ndarray
    action: np.ndarray


@dataclasses.dataclass(frozen=True)
class LightAgent:
    """Parameters are {"change": [P, O, O + A]}: what an observation and an action add to the observation."""

    actions: int

    scopes = ("model",)
    shape_sensitive = True
    device = "cpu"

    def begin(self, parameters: Any, observation: np.ndarray) -> Belief:
        return Belief(observation, np.zeros((*observation.shape[:2], self.actions)))

    def act(self, parameters: Any, belief: Belief, plan_keys: np.ndarray) -> Decision:
        drawn = normals(fold_in(plan_keys, 0), CANDIDATES * self.actions, Purpose.PLANNING)
        pushes = np.clip(drawn, -1.0, 1.0).reshape(*drawn.shape[:2], CANDIDATES, self.actions)
        looked_at = np.repeat(belief.observation[:, :, None], CANDIDATES, axis=2)
        height = _predicted(parameters["change"][:, None, None], looked_at, pushes)[..., 1]
        best = np.argmax(np.nan_to_num(height), axis=-1)
        action = np.take_along_axis(pushes, best[..., None, None], axis=2)[:, :, 0]
        return Decision(action, np.zeros(action.shape[:2], np.bool_), Belief(belief.observation, action))

    def observe(self, parameters: Any, belief: Belief, observation: np.ndarray) -> Surprise:
        expected = _predicted(parameters["change"][:, None], belief.observation, belief.action)
        error = np.square(observation - expected).sum(axis=-1)
        return Surprise({"error": error}, Belief(observation, belief.action))

    def loss(self, parameters: Any, window: Window) -> np.ndarray:
        real = np.arange(window.reward.shape[1]) < window.size[:, None]
        missed = _missed(parameters["change"][:, None], window, slice(None), slice(None))
        return np.where(real, np.square(missed).sum(axis=-1), 0.0).sum(axis=1) / window.size

    def fit(
        self,
        parameters: Any,
        optimiser: Any,
        window: Window,
        *,
        steps: int,
        scope: str,
        batch_keys: np.ndarray,
        rate: float = 1.0,
    ) -> Fit:
        """One transition a step, drawn from the keys."""
        change, sets = parameters["change"], np.arange(len(batch_keys))
        for step in range(steps):
            rows = fold_in(batch_keys, step)[:, 0] % window.size
            missed = _missed(change, window, sets, rows)
            seen = np.concatenate([window.observation[sets, rows], window.action[sets, rows]], axis=-1)
            change = change + rate * LEARNING_RATE * np.clip(missed, -1, 1)[:, :, None] * seen[:, None, :]
        fitted = {"change": change}
        moved = np.abs(change - parameters["change"]).sum(axis=(1, 2))
        return Fit(fitted, optimiser, self.loss(parameters, window), self.loss(fitted, window), moved)


class LightPlugin(AgentPlugin):
    """It, as an agent from outside the package."""

    def build(self, environment: Any, *, precision: str) -> LightAgent:
        return LightAgent(environment.action_size)

    def generate(self, agent: Any, environment: Any, event: Event) -> Checkpoint:
        size = environment.observation_size
        change = {"change": 0.01 * generator(event).normal(size=(1, size, size + environment.action_size))}
        return Checkpoint(change, {}, 100.0, arrays.digest(change))


def _predicted(change: np.ndarray, observation: np.ndarray, action: np.ndarray) -> np.ndarray:
    seen = np.concatenate([observation, action], axis=-1)
    return observation + (change @ seen[..., None])[..., 0]


def _missed(change: np.ndarray, window: Window, sets: Any, rows: Any) -> np.ndarray:
    expected = _predicted(change, window.observation[sets, rows], window.action[sets, rows])
    return window.next_observation[sets, rows] - expected
