"""Tasks of the benchmark: labelled deployments, as a trigger is shown them and as they are scored."""

import dataclasses
import functools
import math
from typing import Final

import numpy as np
import polars as pl
from jaxtyping import Bool, Float, Int

from worldfork.analysis.read.outcomes import SIGNAL
from worldfork.benchmark.dataset import ALARM, STREAM_COLUMNS, Dataset
from worldfork.errors import WorldforkError
from worldfork.triggers import CellKey, LabelledDeployment, Segment

# Name -> study, arm, world. Those that end in `steps` have the streams, and five models.
TASKS: Final[dict[str, tuple[str, str, str]]] = {
    "cartpole-full": ("power-cartpole", "corrected", "cartpole-swingup"),
    "cartpole-tenth": ("power-cartpole", "gentle", "cartpole-swingup"),
    "cartpole-rehearsal": ("judge-cartpole", "gentle-rehearsal", "cartpole-swingup"),
    "walker-full": ("power-locomotion", "corrected", "walker-walk"),
    "walker-tenth": ("power-locomotion", "gentle", "walker-walk"),
    "walker-ewc": ("judge-walker", "gentle-ewc", "walker-walk"),
    "cheetah-full": ("power-locomotion", "corrected", "cheetah-run"),
    "cheetah-tenth": ("power-locomotion", "gentle", "cheetah-run"),
    "cheetah-ewc": ("judge-cheetah", "gentle-ewc", "cheetah-run"),
    "cartpole-tenth-steps": ("corrected", "gentle", "cartpole-swingup"),
    "walker-tenth-steps": ("corrected", "gentle", "walker-walk"),
    "cheetah-tenth-steps": ("corrected", "gentle", "cheetah-run"),
}


@dataclasses.dataclass(frozen=True, eq=False)
class Deployment:
    """A frozen deployment: its segments as a trigger is fed them, and the rows of its forks in the task."""

    cell: CellKey
    model: int  # index into the models of the task
    segments: tuple[Segment, ...]
    rows: slice


@dataclasses.dataclass(frozen=True, eq=False)
class Task:
    """Labelled forks of one model update in one world, sorted by deployment and then by decision point."""

    name: str
    world: str
    deployments: tuple[Deployment, ...]
    models: tuple[str, ...]  # digests
    fold: Int[np.ndarray, "models"]
    model: Int[np.ndarray, "forks"]  # index into `models`
    direction: Int[np.ndarray, "forks"]
    k: Int[np.ndarray, "forks"]
    level: Float[np.ndarray, "forks"]  # of the drift, which references alone may read
    delta: Float[np.ndarray, "forks"]
    episodes: Float[np.ndarray, "forks episodes"] | None  # dR of each paired episode
    signals: dict[str, Float[np.ndarray, "forks"]]
    alarms: dict[str, Bool[np.ndarray, "forks"]]  # of detectors, as they were stored

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of what is logged at every step; none where the data set has no streams of this task."""
        return tuple(self.deployments[0].segments[0].steps)

    @functools.cached_property
    def labelled(self) -> tuple[LabelledDeployment, ...]:
        """The deployments with their labels, for triggers that learn."""
        return tuple(LabelledDeployment(each.segments, self.delta[each.rows]) for each in self.deployments)

    @property
    def all_models(self) -> Bool[np.ndarray, "models"]:
        """A mask with every model."""
        return np.ones(len(self.models), bool)

    def permuted(self, seed: int) -> "Task":
        """Return the task with its outcomes dealt out anew over all forks, so that nothing can be learnt."""
        order = np.random.default_rng(seed).permutation(len(self.delta))
        episodes = None if self.episodes is None else self.episodes[order]
        return dataclasses.replace(self, delta=self.delta[order], episodes=episodes)


def read_task(data: Dataset, name: str) -> Task:
    """Return a task of the benchmark, or "STUDY/ARM/WORLD" of any data set.

    >>> import worldfork as wf
    >>> task = wf.benchmark.read_task(wf.benchmark.load(), "cartpole-tenth")
    >>> len(task.models), len(task.deployments), len(task.delta)
    (32, 64, 1536)
    """
    parts = TASKS.get(name) or tuple(name.split("/"))
    if len(parts) != 3:
        raise WorldforkError(f"There is no task `{name}`: expected {', '.join(TASKS)}, or STUDY/ARM/WORLD.")
    where = dict(zip(("study", "arm", "task"), parts, strict=True))
    cells = data.cells.filter(**where)
    if cells.is_empty():
        raise WorldforkError(
            f"The data set has no forks of `{name}`: study {parts[0]}, arm {parts[1]}, {parts[2]}."
        )
    if cells["update_seed"].n_unique() > 1:
        raise WorldforkError(f"`{name}` has several draws of every update: no task of the benchmark.")
    owner = cells.with_columns(pl.coalesce("model", "checkpoint").alias("model")).join(
        data.folds, on=["task", "model"], how="left"
    )
    key = ["checkpoint", "direction", "stream_seed"]
    forks = data.forks.filter(**where).join(owner.select(*key, "model", "fold", "stream"), on=key)
    forks = forks.with_columns(pl.col("checkpoint").str.zfill(9).alias("order"))
    forks = forks.sort("order", "direction", "stream_seed", "k")
    models = forks.select("model", "fold").unique(maintain_order=True)
    number = {model: index for index, model in enumerate(models["model"])}
    signals = {
        column.removeprefix(SIGNAL): forks[column].to_numpy().astype(np.float64)
        for column in forks.columns
        if column.startswith(SIGNAL) and forks[column].count()
    }
    alarms = {
        column.removeprefix(ALARM): forks[column].fill_null(False).to_numpy()
        for column in forks.columns
        if column.startswith(ALARM) and forks[column].count()
    }
    hold, update = (_lists(forks[name]) for name in ("hold", "update"))
    model = np.array([number[each] for each in forks["model"]])
    return Task(
        name=name,
        world=parts[2],
        deployments=tuple(_deployments(forks, signals, model, data.streams)),
        models=tuple(models["model"]),
        fold=models["fold"].to_numpy().astype(np.int64),
        model=model,
        direction=np.unique(forks["direction"].to_numpy(), return_inverse=True)[1],
        k=forks["k"].to_numpy().astype(np.int64),
        level=forks["level"].to_numpy().astype(np.float64),
        delta=forks["dR"].to_numpy().astype(np.float64),
        episodes=None if hold is None or update is None else update - hold,
        signals=signals,
        alarms=alarms,
    )


def _lists(column: pl.Series) -> Float[np.ndarray, "forks episodes"] | None:
    """Return lists of equal length as an array; None where there are none."""
    return None if column.null_count() else np.array(column.to_list(), dtype=np.float64)


def _deployments(
    forks: pl.DataFrame,
    signals: dict[str, Float[np.ndarray, "forks"]],
    model: Int[np.ndarray, "forks"],
    streams: pl.DataFrame,
) -> list[Deployment]:
    """Return each deployment with its segments. Their drift level is not shown: no deployment has it."""
    names = forks.select("checkpoint", "direction", "stream_seed", "stream").rows()
    starts = [row for row in range(len(names)) if row == 0 or names[row] != names[row - 1]]
    step, k = forks["step"].to_list(), forks["k"].to_list()
    of_stream = {name: part for (name,), part in streams.partition_by("stream", as_dict=True).items()}
    deployments = []
    for start, stop in zip(starts, [*starts[1:], len(names)], strict=True):
        *cell, stream = names[start]
        logged = of_stream.get(stream)
        steps = (
            {name: logged[name].to_numpy().astype(np.float64) for name in STREAM_COLUMNS}
            if logged is not None
            else {}
        )
        segments, before = [], 0
        for row in range(start, stop):
            segments.append(
                Segment(
                    k=k[row],
                    level=math.nan,
                    steps={name: _read_only(column[before : step[row]]) for name, column in steps.items()},
                    signals={name: float(values[row]) for name, values in signals.items()},
                )
            )
            before = step[row]
        deployments.append(Deployment(CellKey(*cell), int(model[start]), tuple(segments), slice(start, stop)))
    return deployments


def _read_only(column: Float[np.ndarray, "steps"]) -> Float[np.ndarray, "steps"]:
    """Return a copy that nobody can write into: a view would know what it was cut from."""
    copied = column.copy()
    copied.setflags(write=False)
    return copied
