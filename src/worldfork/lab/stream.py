"""Stage 1, the reference stream (paper, "Reference stream"): the frozen model deployed while the world drifts.

P cells and all their episodes at once; belief resets where an episode begins, drift moves at every step.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy.typing import NDArray

from worldfork.errors import WorldforkError
from worldfork.lab.agents.base import Agent, Arrays, Window
from worldfork.lab.environments.base import AfterEnd, Environment
from worldfork.lab.environments.drift import Schedule
from worldfork.lab.episode_log import Trace
from worldfork.lab.episodes import Draws, roll_out
from worldfork.ledger.arrays import Columns, content_digest
from worldfork.randomness import Event


@dataclasses.dataclass(frozen=True)
class StreamLog:
    """The log of one stream at each control step: the columns of stream.parquet."""

    step: Int64[np.ndarray, " T"]  # control steps before this one
    env_step: Int64[np.ndarray, " T"]
    episode: Int64[np.ndarray, " T"]  # from 1: episode k ends at decision point k
    level: Float64[np.ndarray, " T"]
    rate: Float64[np.ndarray, " T"]  # the level's change over the step
    sigma_a: Float64[np.ndarray, " T"]
    reward: Float64[np.ndarray, " T"]
    signals: Mapping[str, Float64[np.ndarray, " T"]]  # what the agent measured, a column each
    # Where episodes can end early: which steps ended one by the task's own end, and which were not past an end.
    terminated: Bool[np.ndarray, " T"] | None = None
    real: Bool[np.ndarray, " T"] | None = None

    def columns(self) -> Columns:
        """As the ledger stores it."""
        fixed = {name: values for name in LOGGED if (values := getattr(self, name)) is not None}
        if taken := sorted(set(fixed) & set(self.signals)):
            raise WorldforkError(f"The agent logs {taken[0]!r}, which is the name of another column: rename it.")
        return {**fixed, **self.signals}

    @classmethod
    def of(cls, columns: Columns) -> "StreamLog":
        """Back from the ledger."""
        signals = {name: values for name, values in columns.items() if name not in LOGGED}
        return cls(**{name: columns[name] for name in LOGGED if name in columns}, signals=signals)

    def of_episode(self, k: int) -> Columns:
        """Return what was logged in episode k, without steps past its end."""
        chosen = self.episode == k if self.real is None else (self.episode == k) & self.real
        return {name: values[chosen] for name, values in self.columns().items() if name != "real"}


LOGGED: Final = tuple(field.name for field in dataclasses.fields(StreamLog) if field.name != "signals")


@dataclasses.dataclass(frozen=True)
class Recording:
    """All transitions of one stream, which updates learn from.

    Where episodes can end early it also says what each action led to, since what follows an end is another attempt,
    and which rows are past an end and no transitions at all.
    """

    observation: Float64[np.ndarray, "T O"]  # that the action was planned on
    action: Float64[np.ndarray, "T A"]  # as planned
    reward: Float64[np.ndarray, " T"]
    first: Bool[np.ndarray, " T"]  # whether an episode begins here, or begins anew
    final: Float64[np.ndarray, "K O"]  # the last observation of each episode
    next_observation: Float64[np.ndarray, "T O"] | None = None
    terminated: Bool[np.ndarray, " T"] | None = None
    real: Bool[np.ndarray, " T"] | None = None

    def columns(self) -> Columns:
        """As the ledger stores it."""
        held = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: values for name, values in held.items() if values is not None}


@dataclasses.dataclass(frozen=True)
class Stream:
    """A finished deployment, with the content digests that its forks' rows name."""

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
    after_end: AfterEnd = "reset",
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
        after_end=after_end,
    )
    assert rolled.trace is not None
    return [
        cut(rolled.trace, p, schedule=schedule, repeat=repeat, action_noise=action_noise)
        for p, schedule in enumerate(schedules)
    ]


def cut(trace: Trace, p: int, *, schedule: Schedule, repeat: int, action_noise: float, before: int = 0) -> Stream:
    """Return the stream of parameter set p, its episodes end to end; there were so many episodes `before` them."""

    def along(values: NDArray[Any]) -> NDArray[Any]:
        return values[p].reshape(-1, *values.shape[3:])

    episodes, steps = trace.reward.shape[1:]
    step = np.arange(before * steps, (before + episodes) * steps)
    level = schedule.level(step * repeat)
    ends = trace.ends
    ended = {} if ends is None else {name: along(getattr(ends, name)) for name in ("terminated", "real")}
    log = StreamLog(
        step=step,
        env_step=step * repeat,
        episode=step // steps + 1,
        level=level,
        rate=schedule.level((step + 1) * repeat) - level,
        sigma_a=np.full(len(step), action_noise),
        reward=along(trace.reward),
        signals={name: along(values) for name, values in trace.signals.items()},
        **ended,
    )
    recording = Recording(
        observation=along(trace.observation),
        action=along(trace.action),
        reward=along(trace.reward),
        first=step % steps == 0 if ends is None else along(ends.first),
        final=trace.final[p],
        next_observation=None if ends is None else along(ends.next_observation),
        **ended,
    )
    return Stream(log, recording)


def window(recordings: Sequence[Recording], decision_points: Sequence[int]) -> Window:
    """Everything since deployment began, for fork k of each recording, padded to the length of the stream."""
    spans = [(0, k) for k in decision_points]
    return _stacked(recordings, spans, length=max(len(recording.reward) for recording in recordings))


def segment(recordings: Sequence[Recording], decision_points: Sequence[int]) -> Window:
    """Only the episode that ends at fork k: nothing of it was ever trained on."""
    length = max(len(recording.reward) // len(recording.final) for recording in recordings)
    return _stacked(recordings, [(k - 1, k) for k in decision_points], length=length)


def _stacked(recordings: Sequence[Recording], spans: Sequence[tuple[int, int]], *, length: int) -> Window:
    """Episodes [begin, end) of each recording, as rows of one length."""
    rows = [_rows(recording, *span) for recording, span in zip(recordings, spans, strict=True)]
    sizes = np.array([len(row["reward"]) for row in rows])
    padded = {
        name: np.stack(
            [np.pad(row[name], [(0, length - len(row[name])), *[(0, 0)] * (row[name].ndim - 1)]) for row in rows]
        )
        for name in rows[0]
    }
    return Window(**padded, size=sizes)


def _rows(recording: Recording, begin: int, end: int) -> dict[str, NDArray[np.generic]]:
    steps = len(recording.reward) // len(recording.final)
    span = slice(begin * steps, end * steps)
    columns = {name: values[span] for name, values in recording.columns().items() if name != "final"}
    if (real := columns.pop("real", None)) is not None:
        return {name: values[real] for name, values in columns.items()}
    # What an action led to is the next observation, and at an episode's end the last one of that episode.
    after = recording.observation[span].reshape(end - begin, steps, -1)
    led_to = np.concatenate([after[:, 1:], recording.final[begin:end, None]], axis=1)
    return {**columns, "next_observation": led_to.reshape(len(columns["observation"]), -1)}
