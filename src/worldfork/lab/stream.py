"""Stage 1, the reference stream (paper, "Reference stream"): the frozen model deployed while the world drifts.

P cells and all their episodes at once; belief resets where an episode begins, drift moves at every step.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from worldfork.errors import WorldforkError
from worldfork.lab.agents.base import Agent, Arrays, Window
from worldfork.lab.environments.base import AfterEnd, Environment
from worldfork.lab.environments.drift import Schedule
from worldfork.lab.episode_log import Trace
from worldfork.lab.episodes import Draws, roll_out
from worldfork.ledger.arrays import Columns, content_digest
from worldfork.randomness import Event

LOGGED: Final = ("step", "env_step", "episode", "level", "rate", "sigma_a", "reward", "terminated", "real")


@dataclasses.dataclass(frozen=True, eq=False)
class Stream:
    """A finished deployment: the columns of its two files in the ledger.

    The log has a row for each control step: `step` and `env_step` before it, its `episode` (from 1: episode k ends
    at decision point k), the drift's `level` and by how much it changes (`rate`), `sigma_a`, the `reward`, and what
    the agent measured, a column each.

    The recording has the transitions that updates learn from: the `observation` that an `action` was planned on,
    the action as planned, its `reward`, `first` where an episode begins or begins anew, and in `final` the last
    observation of each episode. Where episodes can end early it also has the `next_observation`, since what follows
    an end is another attempt. Both then say which steps ended one by the task's own end (`terminated`), and which
    are `real`: rows past an end are no transitions at all.
    """

    log: Columns
    recording: Columns

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.digests == other.digests

    __hash__ = None  # type: ignore[assignment]

    @functools.cached_property
    def digests(self) -> tuple[str, str]:
        """The content digests of log and recording, which rows of forks name."""
        return content_digest(self.log), content_digest(self.recording)


def logged(log: Columns, k: int) -> Columns:
    """Return what was logged in episode k, without steps past its end."""
    chosen = (log["episode"] == k) & log.get("real", np.True_)
    return {name: values[chosen] for name, values in log.items() if name != "real"}


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
    return cut(rolled.trace, schedules, repeat=repeat, action_noise=action_noise)


def cut(
    trace: Trace, schedules: Sequence[Schedule], *, repeat: int, action_noise: float, before: int = 0
) -> list[Stream]:
    """Return each parameter set's stream, its episodes end to end; there were so many episodes `before` them."""
    return [
        _stream(trace, p, schedule=schedule, repeat=repeat, action_noise=action_noise, before=before)
        for p, schedule in enumerate(schedules)
    ]


def _stream(trace: Trace, p: int, *, schedule: Schedule, repeat: int, action_noise: float, before: int) -> Stream:
    def along(values: NDArray[Any]) -> NDArray[Any]:
        return values[p].reshape(-1, *values.shape[3:])

    episodes, steps = trace.reward.shape[1:]
    step = np.arange(before * steps, (before + episodes) * steps)
    level = schedule.level(step * repeat)
    ends = trace.ends
    ended = {} if ends is None else {name: along(getattr(ends, name)) for name in ("terminated", "real")}
    log = {
        "step": step,
        "env_step": step * repeat,
        "episode": step // steps + 1,
        "level": level,
        "rate": schedule.level((step + 1) * repeat) - level,
        "sigma_a": np.full(len(step), action_noise),
        "reward": along(trace.reward),
        **ended,
    }
    if taken := sorted(set(LOGGED) & set(trace.signals)):
        raise WorldforkError(f"The agent logs {taken[0]!r}, which is the name of another column: rename it.")
    recording = {
        "observation": along(trace.observation),
        "action": along(trace.action),
        "reward": along(trace.reward),
        "first": step % steps == 0 if ends is None else along(ends.first),
        "final": trace.final[p],
        **({} if ends is None else {"next_observation": along(ends.next_observation)}),
        **ended,
    }
    return Stream({**log, **{name: along(values) for name, values in trace.signals.items()}}, recording)


def episode_steps(recording: Columns) -> int:
    """Return the control steps of an episode."""
    return len(recording["reward"]) // len(recording["final"])


def window(recordings: Sequence[Columns], decision_points: Sequence[int]) -> Window:
    """Everything since deployment began, for fork k of each recording, padded to the length of the stream."""
    spans = [(0, k) for k in decision_points]
    return _stacked(recordings, spans, length=max(len(recording["reward"]) for recording in recordings))


def segment(recordings: Sequence[Columns], decision_points: Sequence[int]) -> Window:
    """Only the episode that ends at fork k: nothing of it was ever trained on."""
    length = max(map(episode_steps, recordings))
    return _stacked(recordings, [(k - 1, k) for k in decision_points], length=length)


def _stacked(recordings: Sequence[Columns], spans: Sequence[tuple[int, int]], *, length: int) -> Window:
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


def _rows(recording: Columns, begin: int, end: int) -> dict[str, NDArray[np.generic]]:
    steps = episode_steps(recording)
    span = slice(begin * steps, end * steps)
    columns = {name: values[span] for name, values in recording.items() if name != "final"}
    if (real := columns.pop("real", None)) is not None:
        return {name: values[real] for name, values in columns.items()}
    # What an action led to is the next observation, and at an episode's end the last one of that episode.
    after = recording["observation"][span].reshape(end - begin, steps, -1)
    led_to = np.concatenate([after[:, 1:], recording["final"][begin:end, None]], axis=1)
    return {**columns, "next_observation": led_to.reshape(len(columns["observation"]), -1)}
