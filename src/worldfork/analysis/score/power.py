"""The power of a registered study, from an earlier ledger or a guess, and how best to spend its budget."""

import dataclasses
import itertools
import math
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
from jaxtyping import Float

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
    variances_of,
)
from worldfork.analysis.score.verdicts import FARTHEST, more_checkpoints
from worldfork.errors import WorldforkError
from worldfork.registration import Arm, Registration

DRAWS: Final = (1, 2, 3, 4, 5, 6, 8, 10)
EPISODES: Final = (2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 60)
MOST_CHECKPOINTS: Final = 1000
SHOWN: Final = 3  # of the best splits of a budget


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


def split_budget(
    budget: float, noise: Variances, *, cost: Cost, forks: Iterable[int]
) -> list[tuple[Split, float]] | Undefined:
    """Return designs within the budget with what they can detect, the best first; as many checkpoints as the rest
    allows.

    `forks` are the numbers of forks per checkpoint to consider: the decision points that a schedule can have. Where
    one draw was run, how draws differ is not known, and none but one is considered.
    """
    found: list[tuple[Split, float]] = []
    for count, draws, episodes in itertools.product(forks, DRAWS if "draw" in noise else (1,), EPISODES):
        single = Split(checkpoints=1, forks=count, draws=draws, episodes=episodes)
        split = dataclasses.replace(single, checkpoints=min(int(budget / cost.study(single)), MOST_CHECKPOINTS))
        if split.checkpoints >= 2:
            found.append((split, detectable_effect(split, noise)))
    if not found:
        return Undefined(f"a budget of {budget:g} pays for no design with two checkpoints")
    return sorted(found, key=lambda entry: entry[1])


@dataclasses.dataclass(frozen=True)
class Power:
    """The effect that one arm would find on one task with 80% power at 95% confidence."""

    arm: str
    task: str
    detectable: float
    at_double: dict[str, float]  # with twice the checkpoints, forks, episodes, or draws where their spread is known
    resolves: int | None = None  # checkpoints that would resolve the earlier ledger's mean, were it to stay
    resolves_anytime: int | None = None  # the same, looking after every checkpoint
    splits: tuple[tuple[Split, float], ...] = ()  # the best ways to spend as much, and what they detect

    @property
    def buys_most(self) -> str:
        """The axis on which doubling helps most."""
        return min(self.at_double, key=lambda axis: self.at_double[axis])


def planned_power(
    registration: Registration,
    *,
    like: Mapping[str, Mapping[str, Forks]] | None = None,
    cost: Cost | None = None,
) -> list[Power]:
    """Return the power of every arm and task whose variances are known: from the forks of an earlier study (arm ->
    task -> forks), else from the registration's [guess.TASK]. With a `cost`, also how best to spend what it comes
    to.

    Of an earlier study the arm of the same name is taken, or else its first.
    """
    first = {task: forks for tasks in reversed(list((like or {}).values())) for task, forks in tasks.items()}
    family = sum(len(arm.tasks) for arm in registration.arms)
    planned = []
    for arm in registration.arms:
        earlier = {**first, **(like or {}).get(arm.name, {})}
        split = planned_split(registration, arm)
        for task in arm.tasks:
            noise = planned_noise(registration, task, earlier.get(task))
            if noise is None or split.checkpoints < 2:
                continue
            axes = (*AXES, *(("draws",) if "draw" in noise else ()))
            means = _checkpoint_means(earlier[task]) if task in earlier else np.zeros(0)
            more = more_checkpoints(means, family=family)
            planned.append(
                Power(
                    arm=arm.name,
                    task=task,
                    detectable=detectable_effect(split, noise),
                    at_double={axis: detectable_effect(split.times(2, axis), noise) for axis in axes},
                    resolves=None if isinstance(more, Undefined) else len(means) + more,
                    resolves_anytime=_resolves_anytime(means),
                    splits=() if cost is None else _best_splits(split, noise, cost),
                )
            )
    return planned


def planned_split(registration: Registration, arm: Arm) -> Split:
    streams = len(registration.grid.directions) * len(arm.stream_seeds)
    return Split(
        checkpoints=len(registration.grid.checkpoints),
        forks=streams * arm.stream.decision_points,
        draws=len(arm.update_seeds),
        episodes=arm.evaluation.episodes,
    )


def planned_noise(registration: Registration, task: str, earlier: Forks | None) -> dict[str, float] | None:
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


def _checkpoint_means(forks: Forks) -> Float[np.ndarray, "checkpoints"]:
    return partition(forks.prefork).means_of_checkpoints(forks.delta)


def _resolves_anytime(means: np.ndarray) -> int | None:
    if len(means) < 2 or not means.any() or means.std(ddof=1) == 0:
        return None
    distance = abs(float(means.mean())) / float(means.std(ddof=1))
    for count in range(intervals.FEWEST, FARTHEST):
        if distance * math.sqrt(count) > intervals.half_width(count):
            return count
    return None


def _best_splits(split: Split, noise: Variances, cost: Cost) -> tuple[tuple[Split, float], ...]:
    """Return the best ways to spend what a design costs, on as many forks as it has, or a half or a quarter of
    them."""
    forks = sorted({int(split.forks), max(int(split.forks) // 2, 1), max(int(split.forks) // 4, 1)})
    best = split_budget(cost.study(split), noise, cost=cost, forks=forks)
    return () if isinstance(best, Undefined) else tuple(best[:SHOWN])
