"""Figures of a row that follow from something else in the study, calculated a second time.

A forger can compute a chain anew over any rows. The schedule of the drift, the steps, and the signals that are
computed from the log are therefore checked against the registration, cell.json and the log.
"""

import dataclasses
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np
from jaxtyping import Integer

from worldfork.counting import plural
from worldfork.errors import WorldforkError
from worldfork.ledger.arrays import Columns
from worldfork.ledger.cell import FILES, CellFolder, departures
from worldfork.ledger.closed_loop import DeploymentFolder, DeploymentRow
from worldfork.ledger.documents import as_file, read_json
from worldfork.ledger.row import ForkRow, Number, finite
from worldfork.ledger.store import Study
from worldfork.registration import Cell
from worldfork.registration.schema import Stream

CLOSE: Final = 1e-9  # sums may be taken in another order: relative to what is summed
CHECKED: Final = (
    "step",
    "env_step",
    "episode",
    "level",
    "rate",
    "reward",
)  # columns of a log, named without the lab, which wrote them
DIGEST: Final = re.compile("[0-9a-f]{64}")
BESIDE: Final = (
    *("registration.json", "registration.toml", "kept.json", "amendments.jsonl", "published.json", "answers.json"),
    *("failures.log", ".lock", "looks.jsonl"),
)
NAMED_AT_MOST: Final = 3


@dataclasses.dataclass(frozen=True)
class Expected:
    """The values that rows and logs of a cell must have. Each method returns the first problem, or None."""

    stream: Stream
    signals: Collection[str]  # the registered names
    direction: Literal["toward", "away"]
    steps: int  # control steps per episode
    repeat: int
    clean_return: Number

    def of_row(self, row: ForkRow | DeploymentRow) -> str | None:
        """Check a row against the registration."""
        if (row.step, row.env_step) != (row.k * self.steps, row.k * self.steps * self.repeat):
            return f"`step` {row.step} and `env_step` {row.env_step} are not those of the end of episode {row.k}"
        if self.stream.schedule == "ramp" and row.level != self._ramp(row.env_step):
            return f"`level` is {row.level}, and the registered schedule is at {self._ramp(row.env_step)}"
        for name, value in (("drift", row.level), ("clock", float(row.k))):
            if name in self.signals and row.signals.get(name, value) != value:
                return f"the signal `{name}` is {row.signals[name]}, and should be {value}"
        if isinstance(row, ForkRow):
            return _of_fork(row)
        return None if DIGEST.fullmatch(row.state) else f"`state` is {row.state!r:.40}, which is no digest"

    def of_log(self, log: Columns) -> str | None:
        """Check a log against the registration."""
        if missing := [name for name in CHECKED if name not in log]:
            return f"the stream has no column `{missing[0]}`"
        step, env_step, episode, level, rate = (log[name] for name in CHECKED[:5])
        if not len(step) or not np.array_equal(step, step[0] + np.arange(len(step))):
            return "the steps of the stream do not follow one another"
        if not np.array_equal(env_step, step * self.repeat) or not np.array_equal(episode, step // self.steps + 1):
            return "the steps of the stream are not those of its episodes"
        if self.stream.schedule == "ramp":
            followed = self._ramp(np.append(env_step, env_step[-1] + self.repeat))
            agrees = np.array_equal(level, followed[:-1]) and np.array_equal(rate, np.diff(followed))
        else:  # a plug-in sets the level; the stream at least moves by the rate that it states
            agrees = np.array_equal(np.diff(np.asarray(level, np.float64)), rate[:-1])
        return None if agrees else "the levels of the stream are not those of the registered schedule"

    def beside_log(self, row: ForkRow | DeploymentRow, log: Columns) -> str | None:
        """Check a row against the log of its stream or segment."""
        (before,) = np.nonzero(log["episode"] == row.k)
        if len(before) != self.steps:
            return f"the stream has {plural(len(before), 'step')} of episode {row.k}, and {self.steps} are in one"
        level, rate = float(log["level"][before[-1]]), float(log["rate"][before[-1]])
        if row.level - level != rate or (isinstance(row, ForkRow) and row.rate != rate):
            return "`level` or `rate` is not that of the stream"
        if isinstance(row, DeploymentRow):
            with np.errstate(all="ignore"):
                returned = float(np.cumsum(log["reward"][before])[-1])  # summed in the order of the run
            if finite([returned])[0] != row.episode_return:
                return f"`episode_return` is {row.episode_return}, and the rewards of its log sum to {returned}"
        if "real" in log:  # signals leave out the steps after an early end
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


def counted_twice(models: Iterable[tuple[str, int, str]]) -> list[str]:
    """Return one sentence for each model that stands for several checkpoints of a task.

    Args:
        models: task, number and digest of each checkpoint.
    """
    numbers: dict[tuple[str, str], set[int]] = {}
    for task, checkpoint, digest in models:
        numbers.setdefault((task, digest), set()).add(checkpoint)
    return [
        f"checkpoints {', '.join(map(str, sorted(equal)))} of {task} are one model (digest {digest[:12]}), which "
        f"would count as {len(equal)}: give each checkpoint a model of its own, or register it once."
        for (task, digest), equal in numbers.items()
        if len(equal) > 1
    ]


def model_of(configuration: Mapping[str, Any]) -> tuple[str, int, str]:
    """Return task, number and digest of the checkpoint in cell.json."""
    place = configuration["coordinates"]
    return place["task"], place["checkpoint"], configuration["checkpoint"]["digest"]


def check_configuration(
    folder: CellFolder | DeploymentFolder,
    study: Study,
    cell: Cell,
    *,
    registrations: Collection[str],
    more: Sequence[str] = (),
) -> None:
    """Raise unless cell.json is canonical, of this cell, and as registered; `more` are differences found elsewhere.

    `registrations` are the digests of the registrations that a cell may point to.
    """
    configuration = folder.configuration
    if (folder.path / "cell.json").read_bytes() != as_file(configuration):
        raise WorldforkError(f"{folder.title}: cell.json is not in canonical form; it was edited.")
    if configuration["cell"] != folder.id:
        raise WorldforkError(f"{folder.title}: cell.json belongs to another cell, {configuration['cell']}.")
    if problem := of_another_registration(folder, registrations):
        raise WorldforkError(problem)
    block = configuration["block"]
    if block is not None:  # closed-loop deployments add the axes of their batches
        block = {name: size for name, size in block.items() if name not in ("cells_per_batch", "policies", "tried")}
    differing = departures({**configuration, "block": block}, cell, study.registered().registration)
    if differing := [*differing, *more]:
        raise WorldforkError(f"{folder.title}: its rows were not made as registered: {'; '.join(differing)}.")


def of_another_registration(folder: CellFolder | DeploymentFolder, registrations: Collection[str]) -> str | None:
    """Return the problem of a cell that points to a registration which no amendment names, or None."""
    named = read_json(folder.path / "cell.json").get("registration")
    if named in registrations:
        return None
    return (
        f"{folder.title}: cell.json belongs to another registration, {str(named)[:12]}, which no amendment names."
    )


def expected(configuration: Mapping[str, Any], stream: Stream, *, signals: Collection[str]) -> Expected:
    """Return the expectations of a cell from its cell.json, which was checked against the registration before."""
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


def _signals(steps: Mapping[str, np.ndarray], clean_return: Number) -> Iterator[tuple[str, Number, float]]:
    """Yield each signal that follows from an episode's log: name, value, and the magnitude of its terms."""
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
    """Return a note on files that the root does not cover; `segments` are the files that rows point to."""
    listed = {*BESIDE, *study.kept().files, *segments}
    for chain in [*(cell.path for cell in study.cells()), *(folder.path for folder in study.deployments())]:
        listed |= {f"{chain.relative_to(study.path).as_posix()}/{name}" for name in FILES}
    files = (path.relative_to(study.path).as_posix() for path in study.path.rglob("*") if path.is_file())
    found = sorted(place for place in files if place not in listed and not place.startswith("report/"))
    if not found:
        return []
    named = ", ".join(found[:NAMED_AT_MOST]) + (f" and {len(found) - NAMED_AT_MOST:,} more" if found[3:] else "")
    are = "file that nothing here lists is" if len(found) == 1 else "files that nothing here lists are"
    return [f"{len(found):,} {are} not covered by the root: {named}."]
