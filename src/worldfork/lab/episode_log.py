"""The log of a batch of episodes: control steps are taken down as they happen, and come out as arrays.

Axes: P parameter sets, E episodes each, T control steps, O observations, A actions, S numbers of physical state,
B = P * E worlds.
"""

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int8, Int64, UInt32

from worldfork.lab.agents.base import Decision, Surprise
from worldfork.lab.environments.base import TERMINATED, State


@dataclasses.dataclass(frozen=True)
class Trace:
    """Observations, actions, rewards and signals at every control step; kept only on demand."""

    observation: Float64[np.ndarray, "P E T O"]  # that the action was planned on
    action: Float64[np.ndarray, "P E T A"]  # as planned: the model never sees the noise
    reward: Float64[np.ndarray, "P E T"]
    signals: Mapping[str, Float64[np.ndarray, "P E T"]]  # whatever the agent measures, by name
    final: Float64[np.ndarray, "P E O"]  # the observation after the last action
    ends: "Ends | None" = None  # None in a world whose episodes do not end early


@dataclasses.dataclass(frozen=True)
class Ends:
    """Ends within an episode's control steps."""

    next_observation: Float64[np.ndarray, "P E T O"]  # that the action led to, which at an end no action follows
    first: Bool[np.ndarray, "P E T"]  # an attempt begins here
    terminated: Bool[np.ndarray, "P E T"]  # the task's own end: nothing comes after it
    real: Bool[np.ndarray, "P E T"]  # not past an end


@dataclasses.dataclass(frozen=True)
class Received:
    """Every random array that reached the agent or the world, as it reached them, whatever was done there.

    Attempts after the first begin where an earlier one ended: their seeds are a matter of the episode and of their
    number, and when they are drawn is a matter of the actions.
    """

    start: Float64[np.ndarray, "P E S"]  # the initial states, which the seeds became
    plan_keys: UInt32[np.ndarray, "P E T 2"]
    noise: Float64[np.ndarray, "P E T A"]  # standard normals; zero where sigma_a is

    def digests(self) -> list[str]:
        """Return a SHA-256 for each parameter set."""
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
    state: State  # after it, before an attempt begins anew
    reward: Float64[np.ndarray, " B"]
    surprise: Surprise
    past: Bool[np.ndarray, "P E"]  # whether the episode had ended before it, and waits
    first: Bool[np.ndarray, "P E"]  # whether an attempt begins with it


class Log:
    """The log of control steps, as one follows another."""

    def __init__(
        self,
        start: Float64[np.ndarray, "P E S"],
        *,
        trace: bool,
        record: Callable[[int, np.ndarray, np.ndarray], None] | None,
    ) -> None:
        self.shape = start.shape[:2]
        self.returns, self.replaced = np.zeros(self.shape), np.zeros(self.shape, np.int64)
        self.unstable = np.zeros(self.shape, np.bool_)
        self.start, self.trace, self.record = start, trace, record
        self.steps: list[dict[str, Any]] = []
        self.signals: list[Mapping[str, Any]] = []
        self.ends: list[dict[str, np.ndarray]] = []
        if record:
            record(0, start, self.returns)

    def add(self, outcome: Outcome) -> None:
        """Add a control step."""
        reward = outcome.reward.reshape(self.shape)
        if self.record:
            self.record(len(self.steps) + 1, outcome.state.physics.reshape(*self.shape, -1), reward)
        with np.errstate(invalid="ignore"):
            self.returns += reward
        self.replaced += (np.asarray(outcome.decision.replaced) | ~outcome.finite) & ~outcome.past
        self.unstable |= outcome.state.unstable.reshape(self.shape)
        arrays = {"plan_keys": outcome.plan_keys, "noise": outcome.noise}
        if self.trace:
            arrays.update(observation=outcome.observation, action=outcome.planned, reward=reward)
            self.signals.append(_without(outcome.surprise.signals, outcome.past))
            if outcome.state.ended is not None:
                self.ends.append(_ends(outcome, outcome.state.ended.reshape(self.shape)))
        self.steps.append(arrays)

    def rolled(self, observation: Float64[np.ndarray, "P E O"]) -> Rolled:
        """Return all of it, once the last step has been taken down: `observation` is the one after it."""
        along = {name: np.stack([arrays[name] for arrays in self.steps], axis=2) for name in self.steps[0]}
        received = Received(self.start, along.pop("plan_keys"), along.pop("noise"))
        along = {name: values.astype(np.float64) for name, values in along.items()}
        signals = {
            name: np.stack([values[name] for values in self.signals], axis=2).astype(np.float64)
            for name in (self.signals[0] if self.signals else ())
        }
        ends = {name: np.stack([step[name] for step in self.ends], axis=2) for name in (self.ends or [{}])[0]}
        traced = None
        if self.trace:
            traced = Trace(**along, signals=signals, final=observation, ends=Ends(**ends) if ends else None)
        return Rolled(self.returns, self.replaced, self.unstable, received, traced)


def _ends(outcome: Outcome, ended: Int8[np.ndarray, "P E"]) -> dict[str, np.ndarray]:
    """Return the fields of `Ends` at one control step."""
    now = ~outcome.past
    return {
        "next_observation": outcome.state.observation.reshape(*now.shape, -1),
        "first": outcome.first,
        "terminated": (ended == TERMINATED) & now,
        "real": now,
    }


def _without(signals: Mapping[str, Any], past: Bool[np.ndarray, "P E"]) -> Mapping[str, Any]:
    """Return what was measured, but for episodes that were over: nothing happened there."""
    if not past.any():
        return signals
    return {name: np.where(past, np.nan, np.asarray(values, np.float64)) for name, values in signals.items()}


class Film:
    """Records one episode of some parameter sets while a batch is rolled out: `roll_out(..., record=film)`."""

    def __init__(
        self, sets: Sequence[int], *, episode: int, progress: Callable[[int], None] = lambda moment: None
    ) -> None:
        """`episode` counts within the batch, from 0; `progress` is told every moment as it passes."""
        self._sets, self._episode, self._progress = list(sets), episode, progress
        self._physics: list[np.ndarray] = []
        self._earned: list[np.ndarray] = []

    def __call__(self, episodes: slice, moment: int, physics: np.ndarray, reward: np.ndarray) -> None:
        if episodes.start <= self._episode < episodes.stop:
            mine = (self._sets, self._episode - episodes.start)
            self._physics.append(physics[mine])
            self._earned.append(reward[mine])
            self._progress(moment)

    @property
    def physics(self) -> Float64[np.ndarray, "B moments S"]:
        """The state before the first control step and after each: T + 1 moments."""
        return np.stack(self._physics, axis=1)

    @property
    def returns(self) -> Float64[np.ndarray, "B moments"]:
        """The return up to each moment, added up as a roll-out adds: the last is the episode's, exactly."""
        return np.cumsum(np.stack(self._earned, axis=1), axis=1)
