"""The cheapest design for a width of a mean's interval, pretraining included.

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

from worldfork.analysis.score.variance import Split, Variances, standard_error
from worldfork.errors import WorldforkError
from worldfork.ledger.documents import read_json
from worldfork.ledger.store import Study
from worldfork.registration import Cell, Registration, cells, hold_owner

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
