"""The log of a batch of episodes: control steps are taken down as they happen, and come out as arrays.

Axes: P parameter sets, E episodes each, T control steps, O observations, A actions, S numbers of physical state,
B = P * E worlds.
"""

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int64, UInt32

from worldfork.lab.agents.base import Decision, Surprise
from worldfork.lab.environments.base import State

__all__ = ["Log", "Outcome", "Received", "Rolled", "Trace"]


@dataclasses.dataclass(frozen=True)
class Trace:
    """What happened at every control step; kept only where it is asked for."""

    observation: Float64[np.ndarray, "P E T O"]  # that the action was planned on
    action: Float64[np.ndarray, "P E T A"]  # as planned: the model never sees the noise
    reward: Float64[np.ndarray, "P E T"]
    signals: Mapping[str, Float64[np.ndarray, "P E T"]]  # whatever the agent measures, by name
    final: Float64[np.ndarray, "P E O"]  # the observation after the last action


@dataclasses.dataclass(frozen=True)
class Received:
    """Every random array that reached the agent or the world, as it reached them."""

    start: Float64[np.ndarray, "P E S"]  # the initial states, which the seeds became
    plan_keys: UInt32[np.ndarray, "P E T 2"]
    noise: Float64[np.ndarray, "P E T A"]  # standard normals; zero where sigma_a is

    def digests(self) -> list[str]:
        """One SHA-256 per parameter set."""
        fields = [getattr(self, field.name) for field in dataclasses.fields(self)]
        return [
            hashlib.sha256(b"".join(np.ascontiguousarray(field[p]).tobytes() for field in fields)).hexdigest()
            for p in range(len(self.start))
        ]


@dataclasses.dataclass(frozen=True)
class Rolled:
    """The outcome of P by E episodes."""

    returns: Float64[np.ndarray, "P E"]
    replaced: Int64[np.ndarray, "P E"]  # planned actions that were not finite
    unstable: Bool[np.ndarray, "P E"]
    received: Received
    trace: Trace | None


class Outcome(NamedTuple):
    """A control step that has been taken."""

    plan_keys: UInt32[np.ndarray, "P E 2"]
    noise: Float64[np.ndarray, "P E A"]
    observation: Float64[np.ndarray, "P E O"]  # that the action was planned on
    planned: Float64[np.ndarray, "P E A"]
    finite: Bool[np.ndarray, "P E"]  # whether the agent's action was
    decision: Decision
    state: State  # after it
    reward: Float64[np.ndarray, " B"]
    surprise: Surprise


class Log:
    """What control steps came to, as one follows another."""

    def __init__(
        self,
        start: Float64[np.ndarray, "P E S"],
        *,
        trace: bool,
        record: Callable[[int, np.ndarray, np.ndarray], None] | None,
    ) -> None:
        self.shape = start.shape[:2]
        self.returns, self.replaced = np.zeros(self.shape), np.zeros(self.shape, np.int64)
        self.start, self.trace, self.record = start, trace, record
        self.steps: list[dict[str, Any]] = []
        self.signals: list[Mapping[str, Any]] = []
        if record:
            record(0, start, self.returns)

    def add(self, outcome: Outcome) -> None:
        """Take down one more control step."""
        reward = outcome.reward.reshape(self.shape)
        if self.record:
            self.record(len(self.steps) + 1, outcome.state.physics.reshape(*self.shape, -1), reward)
        with np.errstate(invalid="ignore"):
            self.returns += reward
        self.replaced += np.asarray(outcome.decision.replaced) | ~outcome.finite
        known = {"plan_keys": outcome.plan_keys, "noise": outcome.noise}
        if self.trace:
            known.update(observation=outcome.observation, action=outcome.planned, reward=reward)
            self.signals.append(outcome.surprise.signals)
        self.steps.append(known)

    def rolled(self, state: State, observation: Float64[np.ndarray, "P E O"]) -> Rolled:
        """All of it, once the last step has been taken down: `state` and `observation` are those after it."""
        along = {name: np.stack([known[name] for known in self.steps], axis=2) for name in self.steps[0]}
        received = Received(self.start, along.pop("plan_keys"), along.pop("noise"))
        along = {name: values.astype(np.float64) for name, values in along.items()}
        signals = {
            name: np.stack([values[name] for values in self.signals], axis=2).astype(np.float64)
            for name in (self.signals[0] if self.signals else ())
        }
        traced = Trace(**along, signals=signals, final=observation) if self.trace else None
        return Rolled(self.returns, self.replaced, state.unstable.reshape(self.shape), received, traced)
