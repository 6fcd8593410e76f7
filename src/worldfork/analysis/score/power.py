"""The power of a registered study, from an earlier ledger or a guess; and the cheapest design of its precision.

Costs come from an earlier study: pretraining from the record that its checkpoints came with, updates, evaluations
and streams from its clocks. Each arm is planned as if it were alone.
"""

import collections
import dataclasses
import functools
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from scipy import stats

from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.score import intervals
from worldfork.analysis.score.clusters import partition
from worldfork.analysis.score.undefined import Undefined
from worldfork.analysis.score.variance import (
    AXES,
    Split,
    Variances,
    components_of,
    design_components,
    detectable_effect,
    standard_error,
    variances_of,
)
from worldfork.analysis.score.verdicts import FARTHEST, more_checkpoints
from worldfork.errors import WorldforkError
from worldfork.ledger.documents import read_json
from worldfork.ledger.store import Study
from worldfork.registration import Arm, Cell, Registration, cells, hold_owner

FEWEST: Final = 8  # checkpoints of a recommended design, where as many are registered: fewer resolve nothing
MOST: Final = 2_000
FORKS: Final = range(1, 97)  # of a checkpoint
DRAWS: Final = (1, 2, 3, 4, 5, 6, 8, 10)
EPISODES: Final = (2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 60)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cost:
    """The price of each thing, in any one unit (seconds of a device, say)."""

    checkpoint: float = 0.0  # to train one and run its streams
    stream: float = 0.0  # to run the deployment up to one fork
    draw: float = 0.0  # to train one update
    episode: float = 1.0  # to evaluate one episode of one branch

    @classmethod
    def of(cls, given: Mapping[str, float]) -> "Cost":
        """Return the costs in a mapping, such as {"checkpoint": 600, "draw": 0.1, "episode": 0.05}."""
        names = [field.name for field in dataclasses.fields(cls)]
        if unknown := sorted(set(given) - set(names)):
            raise WorldforkError(f"There is no cost of `{unknown[0]}`; there are {', '.join(names)}.")
        cost = cls(**{name: float(value) for name, value in given.items()})
        if min(cost.checkpoint, cost.stream, cost.draw) < 0 or cost.episode <= 0:
            raise WorldforkError(f"Costs are positive; got {dict(given)}.")
        return cost

    def study(self, split: Split) -> float:
        """Return the price of a study. HOLD is evaluated once per fork, and so is every draw of the update."""
        fork = self.stream + split.draws * self.draw + (1 + split.draws) * split.episodes * self.episode
        return split.checkpoints * (self.checkpoint + split.forks * fork)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recommendation:
    """The registered design of an arm on a task, and the cheapest one whose interval is as narrow."""

    cost: Cost
    registered: Split
    width: float  # of the 95% interval of the mean, were variances as they were
    price: float  # of the registered design
    best_forks: float  # of a checkpoint, at the registered draws and episodes
    forks_alone: Split  # the registered draws and episodes, and the best number of forks
    price_forks_alone: float
    cheapest: Split
    price_cheapest: float

    @property
    def wasted(self) -> float:
        """The share of the registered price that the cheapest design saves."""
        return max(0.0, 1 - self.price_cheapest / self.price)


def interval_width(split: Split, noise: Variances) -> float:
    """Return the width of the 95% interval of a mean over two checkpoints or more."""
    return 2 * float(stats.t.ppf(0.975, split.checkpoints - 1)) * standard_error(split, noise)


def recommend(split: Split, noise: Variances, cost: Cost) -> Recommendation:
    """Return the cheapest design whose interval is as narrow as that of `split`, of two checkpoints or more."""
    width = interval_width(split, noise)
    drawn = DRAWS if "draw" in noise else (split.draws,)
    few = [_narrow(width, noise, dataclasses.replace(split, forks=forks)) for forks in FORKS]
    every = [
        _narrow(width, noise, dataclasses.replace(split, forks=forks, draws=draws, episodes=episodes))
        for draws in drawn
        for episodes in sorted({*EPISODES, split.episodes})
        for forks in FORKS
    ]
    alone = min((found for found in few if found is not None), key=cost.study, default=split)
    cheapest = min((found for found in every if found is not None), key=cost.study, default=split)
    return Recommendation(
        cost=cost,
        registered=split,
        width=width,
        price=cost.study(split),
        best_forks=_best_forks(split, noise, cost),
        forks_alone=alone,
        price_forks_alone=cost.study(alone),
        cheapest=cheapest,
        price_cheapest=cost.study(cheapest),
    )


def _narrow(width: float, noise: Variances, split: Split) -> Split | None:
    """Return the design with the fewest checkpoints whose interval is no wider; None where there is none."""
    single = standard_error(dataclasses.replace(split, checkpoints=1), noise)
    counts, factors = _factors(min(FEWEST, int(split.checkpoints)))
    enough = np.flatnonzero(factors * single <= width * (1 + 1e-12))
    return dataclasses.replace(split, checkpoints=int(counts[enough[0]])) if len(enough) else None


@functools.cache
def _factors(fewest: int) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers of checkpoints, and the width of an interval over the standard error of one."""
    counts = np.arange(fewest, MOST)
    return counts, 2 * np.asarray(stats.t.ppf(0.975, counts - 1)) / np.sqrt(counts)


def _best_forks(split: Split, noise: Variances, cost: Cost) -> float:
    """Return the forks of a checkpoint that know a mean best for their price: sqrt(within / between x C / c)."""
    single, empty = (dataclasses.replace(split, checkpoints=1, forks=forks) for forks in (1, 0))
    between = max(noise["checkpoint"], 0.0)
    within = standard_error(single, noise) ** 2 - between
    each = cost.study(single) - cost.study(empty)
    return math.sqrt(max(within, 0.0) / max(between, 1e-300) * cost.checkpoint / each)


def costs_of(study: Study) -> dict[tuple[str, str], Cost]:
    """Return what things cost in a study, in seconds of its workers, by arm and task; nothing without clocks."""
    registration = study.registration
    training = training_seconds(study)
    owners = hold_owner(registration)
    spent: dict[tuple[str, str], collections.Counter[str]] = collections.defaultdict(collections.Counter)
    streamed: dict[str, dict[str, float]] = collections.defaultdict(dict)  # a batch notes its time in all its cells
    forks: collections.Counter[tuple[str, str]] = collections.Counter()
    points: collections.Counter[str] = collections.Counter()
    for cell in cells(registration):
        folder = study.cell(cell.id)
        rows = len(folder.rows()) if (folder.path / "cell.json").exists() else 0
        forks[cell.arm, cell.task] += rows
        for entry in _timings(folder.path / "timings.jsonl"):
            if entry["what"] == "streams":
                streamed[cell.task][f"{entry['worker']} {entry['seconds']!r}"] = float(entry["seconds"])
            else:
                spent[cell.arm, cell.task].update(
                    {"updates": float(entry["updates"]), "evaluations": float(entry["evaluations"])}
                )
        if folder.stream_owner() is None:
            points[cell.task] += rows
    costs = {}
    for (arm, task), seconds in spent.items():
        branches = _branches(registration, owners, arm, task)
        episodes = registration.arm(arm).evaluation.episodes
        if forks[arm, task] and seconds["evaluations"] > 0:
            costs[arm, task] = Cost(
                checkpoint=training.get(task, 0.0),
                stream=sum(streamed[task].values()) / max(points[task], 1),
                draw=seconds["updates"] / forks[arm, task],
                episode=seconds["evaluations"] / (forks[arm, task] * branches * episodes),
            )
    return costs


def _branches(registration: Registration, owners: Mapping[Cell, Cell], arm: str, task: str) -> int:
    """Return how many branches each fork of an arm evaluated: one where it took HOLD from another arm."""
    return 1 if any(owner != cell for cell, owner in owners.items() if (cell.arm, cell.task) == (arm, task)) else 2


def training_seconds(study: Study) -> dict[str, float]:
    """Return the seconds of pretraining for each checkpoint that was kept, rejected seeds included, by task."""
    found: dict[str, float] = {}
    for path in sorted((study.path / "pretraining").glob("*.json")):
        record = read_json(path)
        seconds = sum(float(record.get(name) or 0.0) for name in ("training_seconds", "evaluation_seconds"))
        kept = [seed.get("task") for seed in record.get("seeds", ()) if seed.get("index") is not None]
        found |= {str(task): seconds / len(kept) for task in kept}
    return found


def _timings(path: Path) -> list[dict[str, Any]]:
    """Return the lines of timings.jsonl that are whole; no digest covers them."""
    if not path.exists():
        return []
    entries = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            entry = json.loads(line)
            streams = entry["what"] == "streams" and {"seconds", "worker"} <= entry.keys()
            if streams or (entry["what"] == "block" and {"updates", "evaluations"} <= entry.keys()):
                entries.append(entry)
        except (ValueError, TypeError, KeyError, AttributeError):
            continue
    return entries


@dataclasses.dataclass(frozen=True)
class Power:
    """The effect that one arm would find on one task with 80% power at 95% confidence, and the design to prefer."""

    arm: str
    task: str
    detectable: float
    at_double: dict[str, float]  # with twice the checkpoints, forks, episodes, or draws where their spread is known
    resolves: int | None = None  # checkpoints that would resolve the earlier ledger's mean, were it to stay
    resolves_anytime: int | None = None  # the same, looking after every checkpoint
    recommended: Recommendation | None = None  # where it is known what things cost

    @property
    def buys_most(self) -> str:
        """The axis on which doubling helps most."""
        return min(self.at_double, key=lambda axis: self.at_double[axis])


def planned_power(
    registration: Registration,
    *,
    like: Mapping[str, Mapping[str, Forks]] | None = None,
    costs: Mapping[tuple[str, str], Cost] | None = None,
) -> list[Power]:
    """Return the power of every arm and task whose variances are known: from the forks of an earlier study (arm ->
    task -> forks), else from the registration's [guess.TASK].

    `costs` are those of the earlier study, by arm and task. Of that study the arm of the same name is taken, or
    else its first.
    """
    first = {task: forks for tasks in reversed(list((like or {}).values())) for task, forks in tasks.items()}
    first_costs = {task: cost for (_, task), cost in reversed(list((costs or {}).items()))}
    family = sum(len(arm.tasks) for arm in registration.arms)
    planned = []
    for arm in registration.arms:
        earlier = {**first, **(like or {}).get(arm.name, {})}
        split = _registered_split(registration, arm)
        for task in arm.tasks:
            noise = _planned_noise(registration, task, earlier.get(task))
            if noise is None or split.checkpoints < 2:
                continue
            axes = (*AXES, *(("draws",) if "draw" in noise else ()))
            means = np.zeros(0)
            if task in earlier:
                means = partition(earlier[task].prefork).means_of_checkpoints(earlier[task].delta)
            more = more_checkpoints(means, family=family)
            cost = (costs or {}).get((arm.name, task), first_costs.get(task))
            planned.append(
                Power(
                    arm=arm.name,
                    task=task,
                    detectable=detectable_effect(split, noise),
                    at_double={axis: detectable_effect(split.times(2, axis), noise) for axis in axes},
                    resolves=None if isinstance(more, Undefined) else len(means) + more,
                    resolves_anytime=_resolves_anytime(means),
                    recommended=recommend(split, noise, cost) if cost is not None and cost.checkpoint > 0 else None,
                )
            )
    return planned


def _registered_split(registration: Registration, arm: Arm) -> Split:
    streams = len(registration.grid.directions) * len(arm.stream_seeds)
    return Split(
        checkpoints=len(registration.grid.checkpoints),
        forks=streams * arm.stream.decision_points,
        draws=len(arm.update_seeds),
        episodes=arm.evaluation.episodes,
    )


def _planned_noise(registration: Registration, task: str, earlier: Forks | None) -> dict[str, float] | None:
    """Return the variances of a task: those of earlier forks, else the guess that is registered."""
    if earlier is not None:
        for found in (components_of(earlier), design_components(earlier)):
            variances = found if isinstance(found, Undefined) else variances_of(found)
            if not isinstance(variances, Undefined):
                return variances
    guess = registration.guess.get(task)
    if guess is None:
        return None
    return {"checkpoint": guess.checkpoint**2, "fork": guess.fork**2, "episode": guess.episode**2}


def _resolves_anytime(means: np.ndarray) -> int | None:
    if len(means) < 2 or not means.any() or means.std(ddof=1) == 0:
        return None
    distance = abs(float(means.mean())) / float(means.std(ddof=1))
    for count in range(intervals.FEWEST, FARTHEST):
        if distance * math.sqrt(count) > intervals.half_width(count):
            return count
    return None
