"""Stage 1, the reference stream (paper, "Reference stream"): the frozen model deployed while the world drifts.

P cells and all their episodes at once; belief resets where an episode begins, drift moves at every step.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy.typing import NDArray

from worldfork.lab.agents.base import Agent, Arrays
from worldfork.lab.environments.base import Environment
from worldfork.lab.environments.drift import Schedule
from worldfork.lab.episodes import Draws, Trace, roll_out
from worldfork.randomness import Event

__all__ = ["Recording", "StreamLog", "deploy"]


@dataclasses.dataclass(frozen=True)
class StreamLog:
    """What was logged at each control step of one stream: stream.parquet, column by column."""

    step: Int64[np.ndarray, " T"]  # control steps before this one
    env_step: Int64[np.ndarray, " T"]
    episode: Int64[np.ndarray, " T"]  # from 1: episode k ends at decision point k
    error: Float64[np.ndarray, " T"]
    kl: Float64[np.ndarray, " T"]
    level: Float64[np.ndarray, " T"]
    rate: Float64[np.ndarray, " T"]  # the level's change over the step
    sigma_a: Float64[np.ndarray, " T"]
    reward: Float64[np.ndarray, " T"]


@dataclasses.dataclass(frozen=True)
class Recording:
    """What UPDATE needs of one stream: window.npz, array by array."""

    observation: Float64[np.ndarray, "T O"]  # that the action was planned on
    action: Float64[np.ndarray, "T A"]  # as planned
    reward: Float64[np.ndarray, " T"]
    first: Bool[np.ndarray, " T"]  # whether an episode begins here
    final: Float64[np.ndarray, "K O"]  # the last observation of each episode


def columns(record: StreamLog | Recording) -> dict[str, NDArray[np.generic]]:
    """The record's arrays by name, as the ledger stores them."""
    return {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}


def deploy(
    agent: Agent,
    environment: Environment,
    parameters: Arrays,
    *,
    events: Sequence[Event],
    schedules: Sequence[Schedule],
    decision_points: int,
    action_noise: float,
) -> list[tuple[StreamLog, Recording]]:
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
        levels=np.stack([schedule.level(env_steps) for schedule in schedules]),
        action_noise=action_noise,
        trace=True,
    )
    assert rolled.trace is not None
    return [
        _cut(rolled.trace, p, schedule=schedule, repeat=repeat, action_noise=action_noise)
        for p, schedule in enumerate(schedules)
    ]


def _cut(
    trace: Trace, p: int, *, schedule: Schedule, repeat: int, action_noise: float
) -> tuple[StreamLog, Recording]:
    """The stream of parameter set p, its episodes end to end."""

    def along(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return values[p].reshape(-1, *values.shape[3:])

    episodes, steps = trace.reward.shape[1:]
    step = np.arange(episodes * steps)
    level = schedule.level(step * repeat)
    log = StreamLog(
        step=step,
        env_step=step * repeat,
        episode=step // steps + 1,
        error=along(trace.error),
        kl=along(trace.kl),
        level=level,
        rate=schedule.level((step + 1) * repeat) - level,
        sigma_a=np.full(len(step), action_noise),
        reward=along(trace.reward),
    )
    recording = Recording(
        observation=along(trace.observation),
        action=along(trace.action),
        reward=along(trace.reward),
        first=step % steps == 0,
        final=trace.final[p],
    )
    return log, recording
