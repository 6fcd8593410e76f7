"""Stage 1, the reference stream (paper, "Reference stream"): the frozen model deployed while the world drifts.

P cells and all their episodes at once; belief resets where an episode begins, drift moves at every step.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy.typing import NDArray

from worldfork.errors import WorldforkError
from worldfork.lab.agents.base import Agent, Arrays
from worldfork.lab.environments.base import Environment
from worldfork.lab.environments.drift import Schedule
from worldfork.lab.episodes import Draws, Trace, roll_out
from worldfork.ledger.arrays import Columns, content_digest
from worldfork.randomness import Event

__all__ = ["Recording", "Stream", "StreamLog", "cut", "deploy"]


@dataclasses.dataclass(frozen=True)
class StreamLog:
    """What was logged at each control step of one stream: the columns of stream.parquet."""

    step: Int64[np.ndarray, " T"]  # control steps before this one
    env_step: Int64[np.ndarray, " T"]
    episode: Int64[np.ndarray, " T"]  # from 1: episode k ends at decision point k
    level: Float64[np.ndarray, " T"]
    rate: Float64[np.ndarray, " T"]  # the level's change over the step
    sigma_a: Float64[np.ndarray, " T"]
    reward: Float64[np.ndarray, " T"]
    signals: Mapping[str, Float64[np.ndarray, " T"]]  # what the agent measured, a column each

    def columns(self) -> Columns:
        """As the ledger stores it."""
        fixed = {name: getattr(self, name) for name in LOGGED}
        if taken := sorted(set(fixed) & set(self.signals)):
            raise WorldforkError(f"The agent logs {taken[0]!r}, which is the name of another column: rename it.")
        return {**fixed, **self.signals}

    @classmethod
    def of(cls, columns: Columns) -> "StreamLog":
        """Back from the ledger."""
        signals = {name: values for name, values in columns.items() if name not in LOGGED}
        return cls(**{name: columns[name] for name in LOGGED}, signals=signals)


LOGGED: Final = tuple(field.name for field in dataclasses.fields(StreamLog) if field.name != "signals")


@dataclasses.dataclass(frozen=True)
class Recording:
    """All transitions of one stream, which updates learn from."""

    observation: Float64[np.ndarray, "T O"]  # that the action was planned on
    action: Float64[np.ndarray, "T A"]  # as planned
    reward: Float64[np.ndarray, " T"]
    first: Bool[np.ndarray, " T"]  # whether an episode begins here
    final: Float64[np.ndarray, "K O"]  # the last observation of each episode

    def columns(self) -> Columns:
        """As the ledger stores it."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


@dataclasses.dataclass(frozen=True)
class Stream:
    """One finished deployment, with the content digests that its forks' rows name."""

    log: StreamLog
    recording: Recording

    @functools.cached_property
    def digests(self) -> tuple[str, str]:
        return content_digest(self.log.columns()), content_digest(self.recording.columns())


def deploy(
    agent: Agent,
    environment: Environment,
    parameters: Arrays,
    *,
    events: Sequence[Event],
    schedules: Sequence[Schedule],
    decision_points: int,
    action_noise: float,
) -> list[Stream]:
    """Run P streams of `decision_points` episodes.

    The model is frozen, belief and physics begin anew with every episode, and drift is a function of time: nothing
    passes from one episode to the next, so all of them are rolled out side by side.
    """
    steps, repeat = environment.episode_steps, environment.action_repeat
    env_steps = np.arange(decision_points * steps).reshape(decision_points, steps) * repeat
    rolled = roll_out(
        agent,
        environment,
        parameters,
        Draws.of(events, np.arange(decision_points)),
        levels=np.stack([schedule.felt(schedule.level(env_steps)) for schedule in schedules]),
        action_noise=action_noise,
        trace=True,
    )
    assert rolled.trace is not None
    return [
        cut(rolled.trace, p, schedule=schedule, repeat=repeat, action_noise=action_noise)
        for p, schedule in enumerate(schedules)
    ]


def cut(trace: Trace, p: int, *, schedule: Schedule, repeat: int, action_noise: float, before: int = 0) -> Stream:
    """The stream of parameter set p, its episodes end to end; there were so many episodes `before` them."""

    def along(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return values[p].reshape(-1, *values.shape[3:])

    episodes, steps = trace.reward.shape[1:]
    step = np.arange(before * steps, (before + episodes) * steps)
    level = schedule.level(step * repeat)
    log = StreamLog(
        step=step,
        env_step=step * repeat,
        episode=step // steps + 1,
        level=level,
        rate=schedule.level((step + 1) * repeat) - level,
        sigma_a=np.full(len(step), action_noise),
        reward=along(trace.reward),
        signals={name: along(values) for name, values in trace.signals.items()},
    )
    recording = Recording(
        observation=along(trace.observation),
        action=along(trace.action),
        reward=along(trace.reward),
        first=step % steps == 0,
        final=trace.final[p],
    )
    return Stream(log, recording)
