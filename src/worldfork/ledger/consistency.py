"""Rows held against what a study says elsewhere: the schedule of the drift, and the stream that lies beside them.

A chain that is computed anew covers whatever it is computed of. What follows from something else in the study is
computed a second time here, from the registration, cell.json and the log alone.
"""

import dataclasses
import math
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, Literal

import numpy as np
from jaxtyping import Integer

from worldfork.counting import plural
from worldfork.ledger.arrays import Columns
from worldfork.ledger.deployments import DeploymentRow
from worldfork.ledger.row import ForkRow, Number, finite
from worldfork.ledger.store import Study
from worldfork.registration.records import Stream

__all__ = ["Expected", "expected", "unlisted"]

CLOSE: Final = 1e-9  # sums may be taken in another order: relative to what is summed
LOGGED: Final = ("step", "env_step", "episode", "level", "rate", "reward")
DIGEST: Final = re.compile("[0-9a-f]{64}")
BESIDE: Final = (
    *("registration.json", "registration.toml", "kept.json", "amendments.jsonl", "published.json", "answers.json"),
    *("failures.log", ".lock"),
)
OF_A_CHAIN: Final = (
    *("cell.json", "execution.json", "stream.parquet", "window.npz", "timings.jsonl"),
    *("forks.jsonl", "forks.jsonl.gz", "episodes.jsonl", "episodes.jsonl.gz"),
)
NAMED_AT_MOST: Final = 3


@dataclasses.dataclass(frozen=True)
class Expected:
    """What the registration and cell.json say of the rows of a cell. Problems are texts; None is none."""

    stream: Stream
    signals: Collection[str]  # the registered names
    direction: Literal["toward", "away"]
    steps: int  # control steps per episode
    repeat: int
    clean_return: Number

    def of_row(self, row: ForkRow | DeploymentRow) -> str | None:
        """What can not be so in a row, whatever its stream says."""
        if (row.step, row.env_step) != (row.k * self.steps, row.k * self.steps * self.repeat):
            return f"`step` {row.step} and `env_step` {row.env_step} are not those of the end of episode {row.k}"
        if self.stream.schedule == "ramp" and row.level != self._ramp(row.env_step):
            return f"`level` is {row.level}, and the registered schedule is at {self._ramp(row.env_step)}"
        for name, value in (("drift", row.level), ("clock", float(row.k))):
            if name in self.signals and row.signals.get(name, value) != value:
                return f"the signal `{name}` is {row.signals[name]}, and should be {value}"
        return _of_fork(row) if isinstance(row, ForkRow) else _of_episode(row)

    def of_log(self, log: Columns) -> str | None:
        """What can not be so in a log, whatever its rows say."""
        if missing := [name for name in LOGGED if name not in log]:
            return f"the stream has no column `{missing[0]}`"
        step, env_step, episode, level, rate = (log[name] for name in LOGGED[:5])
        if not len(step) or not np.array_equal(step, step[0] + np.arange(len(step))):
            return "the steps of the stream do not follow one another"
        if not np.array_equal(env_step, step * self.repeat) or not np.array_equal(episode, step // self.steps + 1):
            return "the steps of the stream are not those of its episodes"
        if self.stream.schedule == "ramp":
            followed = self._ramp(np.append(env_step, env_step[-1] + self.repeat))
            agrees = np.array_equal(level, followed[:-1]) and np.array_equal(rate, np.diff(followed))
        else:  # where the level is, a class says; that it moves by its rate, the stream
            agrees = np.array_equal(np.diff(np.asarray(level, np.float64)), rate[:-1])
        return None if agrees else "the levels of the stream are not those of the registered schedule"

    def beside_log(self, row: ForkRow | DeploymentRow, log: Columns) -> str | None:
        """What a row and the log of its stream, or of its segment, do not say alike."""
        (before,) = np.nonzero(log["episode"] == row.k)
        if len(before) != self.steps:
            return f"the stream has {plural(len(before), 'step')} of episode {row.k}, and {self.steps} are in one"
        level, rate = float(log["level"][before[-1]]), float(log["rate"][before[-1]])
        if row.level - level != rate or (isinstance(row, ForkRow) and row.drift_rate != rate):
            return "`level` or `rate` is not that of the stream"
        if isinstance(row, DeploymentRow):
            with np.errstate(all="ignore"):
                returned = float(np.cumsum(log["reward"][before])[-1])  # one after the other, as it was earned
            if finite([returned])[0] != row.episode_return:
                return f"`episode_return` is {row.episode_return}, and the rewards of its log sum to {returned}"
        if "real" in log:  # episodes can end early there, and signals leave out what came after
            before = before[np.asarray(log["real"][before], bool)]
        steps = {name: np.asarray(values[before], np.float64) for name, values in log.items()}
        for name, value, size in _signals(steps, self.clean_return):
            if name in self.signals and not _close(row.signals.get(name, value), value, size):
                return f"the signal `{name}` is {row.signals[name]}, and {value} by the stream"
        return None

    def _ramp(self, env_step: Any) -> Any:
        travelled: int | Integer[np.ndarray, " n"] = np.minimum(env_step, self.stream.drift_period)
        from_nominal = travelled if self.direction == "away" else self.stream.drift_period - travelled
        return from_nominal / self.stream.drift_period


def expected(configuration: Mapping[str, Any], stream: Stream, *, signals: Collection[str]) -> Expected:
    """Read from cell.json, after it was held against the registration, what its rows are held against."""
    units = configuration["units"]
    return Expected(
        stream,
        signals,
        direction=configuration["coordinates"]["direction"],
        steps=units["episode_steps"],
        repeat=units["action_repeat"],
        clean_return=configuration["checkpoint"]["clean_return"],
    )


def _of_fork(row: ForkRow) -> str | None:
    for branch in ("hold", "update"):
        returns: tuple[Number, ...] = getattr(row, branch)
        counted: int = getattr(row.nonfinite_returns, branch)
        if counted != returns.count(None):
            return (
                f"`nonfinite_returns` of {branch} is {counted}, and {returns.count(None)} of its returns are null"
            )
        if getattr(row.unstable_episodes, branch) > len(returns):
            return f"`unstable_episodes` of {branch} are more than its {plural(len(returns), 'episode')}"
    return None


def _of_episode(row: DeploymentRow) -> str | None:
    if not DIGEST.fullmatch(row.state):
        return f"`state` is {row.state!r:.40}, which is no digest"
    return None


def _signals(steps: Mapping[str, np.ndarray], clean_return: Number) -> Iterator[tuple[str, Number, float]]:
    """The signals that follow from an episode's log, each with the size of what it is computed of."""
    error, reward = steps.get("error"), steps["reward"]
    with np.errstate(all="ignore"):
        if error is not None:
            largest = float(np.abs(error).max())
            yield "residual", finite([np.mean(error)])[0], largest
            yield "running_variance", finite([np.var(error, ddof=1)])[0] if len(error) > 1 else None, largest**2
            yield "percentile", finite([np.percentile(error, 95)])[0], largest
        if "kl" in steps:
            yield "kl", finite([np.mean(steps["kl"])])[0], float(np.abs(steps["kl"]).max())
        else:
            yield "kl", None, 0.0
        if clean_return is not None:
            deficit = clean_return - float(np.sum(reward))
            yield "return_deficit", finite([deficit])[0], abs(clean_return) + float(np.abs(reward).sum())


def _close(stated: Number, found: Number, size: float) -> bool:
    if stated is None or found is None:
        return stated is found
    return stated == found or not math.isfinite(size) or abs(stated - found) <= CLOSE * size


def unlisted(study: Study, segments: Collection[str]) -> list[str]:
    """A note on files that no record names, so that the root does not cover them; `segments` are those that rows
    point to."""
    listed = {*BESIDE, *study.kept().files, *segments}
    for chain in [*(cell.path for cell in study.cells()), *(folder.path for folder in study.deployments())]:
        listed |= {f"{chain.relative_to(study.path).as_posix()}/{name}" for name in OF_A_CHAIN}
    files = (path.relative_to(study.path).as_posix() for path in study.path.rglob("*") if path.is_file())
    found = sorted(place for place in files if place not in listed and not place.startswith("report/"))
    if not found:
        return []
    named = ", ".join(found[:NAMED_AT_MOST]) + (f" and {len(found) - NAMED_AT_MOST:,} more" if found[3:] else "")
    are = "file that nothing here lists is" if len(found) == 1 else "files that nothing here lists are"
    return [f"{len(found):,} {are} not covered by the root: {named}."]
