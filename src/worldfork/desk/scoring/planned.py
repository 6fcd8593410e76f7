"""What a registration could detect, before anything has been run: from an earlier ledger, or from a guess.

And how a budget is best split between checkpoints, forks, draws of each update and episodes, where it is said what
each of them costs.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from worldfork.desk.reading.outcomes import Forks
from worldfork.desk.scoring import anytime, few_clusters
from worldfork.desk.scoring.budget import Cost, Split, components_of, detectable_effect, split_budget
from worldfork.desk.scoring.judgement import Components
from worldfork.desk.scoring.partition import partition
from worldfork.desk.scoring.power import design_components
from worldfork.desk.scoring.undefined import Undefined
from worldfork.registration import Arm, Registration

__all__ = ["Power", "planned_power"]

NOT_GUESSED: Final = Undefined("a guess does not say it")
SHOWN: Final = 3  # of the best splits of a budget


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
        """Where doubling helps most."""
        return min(self.at_double, key=lambda axis: self.at_double[axis])


def planned_power(
    registration: Registration,
    *,
    like: Mapping[str, Mapping[str, Forks]] | None = None,
    cost: Cost | None = None,
) -> list[Power]:
    """The power of every arm and task whose variances are known: from the forks of an earlier study (arm -> task ->
    forks), else from the registration's [guess.TASK]. With a `cost`, also how best to spend what it comes to.

    Of an earlier study the arm of the same name is taken, or else its first.
    """
    first = {task: forks for tasks in reversed(list((like or {}).values())) for task, forks in tasks.items()}
    family = sum(len(arm.tasks) for arm in registration.arms)
    planned = []
    for arm in registration.arms:
        earlier = {**first, **(like or {}).get(arm.name, {})}
        noise = _noise(registration, earlier)
        for task in (task for task in arm.tasks if task in noise):
            split = _planned_split(registration, arm)
            detectable = detectable_effect(split, noise[task])
            if isinstance(detectable, Undefined):
                continue
            means = _checkpoint_means(earlier[task]) if task in earlier else np.zeros(0)
            planned.append(
                Power(
                    *(arm.name, task, detectable, _doubled(split, noise[task])),
                    resolves=_resolves(means, family),
                    resolves_anytime=_resolves_anytime(means),
                    splits=() if cost is None else _best_splits(split, noise[task], cost),
                )
            )
    return planned


def _doubled(split: Split, noise: Components) -> dict[str, float]:
    """What is detected with twice of each; draws only where it is known how they differ."""
    axes = ["checkpoints", "forks", "episodes", *([] if isinstance(noise.draw, Undefined) else ["draws"])]
    effects = {
        axis: detectable_effect(dataclasses.replace(split, **{axis: 2 * getattr(split, axis)}), noise)
        for axis in axes
    }
    return {axis: effect for axis, effect in effects.items() if not isinstance(effect, Undefined)}


def _planned_split(registration: Registration, arm: Arm) -> Split:
    streams = len(registration.grid.directions) * len(arm.stream_seeds)
    return Split(
        checkpoints=len(registration.grid.checkpoints),
        forks=streams * arm.stream.decision_points,
        draws=len(arm.update_seeds),
        episodes=arm.evaluation.episodes,
    )


def _noise(registration: Registration, earlier: Mapping[str, Forks]) -> dict[str, Components]:
    """The variances of each task."""
    known = {
        task: Components(
            checkpoint=guess.checkpoint**2,
            decision_point=NOT_GUESSED,
            fork=guess.fork**2,
            draw=NOT_GUESSED,
            draw_interval=NOT_GUESSED,
            draws_of_both_signs=NOT_GUESSED,
            episode=guess.episode**2,
            draw_episode=NOT_GUESSED,
        )
        for task, guess in registration.guess.items()
    }
    for task, forks in earlier.items():
        found = components_of(forks)
        if isinstance(found, Undefined) or isinstance(found.checkpoint, Undefined):
            rough = design_components(forks)
            if isinstance(rough.traded(), Undefined):
                continue
            found = Components(
                checkpoint=rough.checkpoint,
                decision_point=rough.decision_point,
                fork=rough.fork,
                draw=NOT_GUESSED,
                draw_interval=NOT_GUESSED,
                draws_of_both_signs=NOT_GUESSED,
                episode=rough.episode,
                draw_episode=NOT_GUESSED,
            )
        known[task] = found
    return known


def _checkpoint_means(forks: Forks) -> np.ndarray:
    parts = partition(forks.prefork)
    means = parts.checkpoint_means(parts.cell_means(forks.delta))
    return means[~np.isnan(means)]


def _resolves(means: np.ndarray, family: int) -> int | None:
    """The fewest checkpoints, more than there were, that would resolve this mean among `family` of them."""
    more = few_clusters.more_checkpoints(means, family=family)
    return None if isinstance(more, Undefined) else len(means) + more


def _resolves_anytime(means: np.ndarray) -> int | None:
    if len(means) < 2 or not means.any() or means.std(ddof=1) == 0:
        return None
    distance = abs(float(means.mean())) / float(means.std(ddof=1))
    for count in range(anytime.FEWEST, few_clusters.FARTHEST):
        if distance * math.sqrt(count) > anytime.half_width(count):
            return count
    return None


def _best_splits(split: Split, noise: Components, cost: Cost) -> tuple[tuple[Split, float], ...]:
    """The best ways to spend what a design costs, on as many forks as it has, or a half or a quarter of them."""
    forks = sorted({split.forks, max(split.forks // 2, 1), max(split.forks // 4, 1)})
    best = split_budget(cost.study(split), noise, cost=cost, forks=forks)
    return () if isinstance(best, Undefined) else tuple(best[:SHOWN])
