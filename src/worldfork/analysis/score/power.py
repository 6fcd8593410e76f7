"""The power of a registered study, from an earlier ledger or a guess."""

import dataclasses
import math
from collections.abc import Mapping

import numpy as np

from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.score import intervals
from worldfork.analysis.score.clusters import partition
from worldfork.analysis.score.planning import Cost, Recommendation, recommend
from worldfork.analysis.score.undefined import Undefined
from worldfork.analysis.score.variance import (
    AXES,
    Split,
    components_of,
    design_components,
    detectable_effect,
    variances_of,
)
from worldfork.analysis.score.verdicts import FARTHEST, more_checkpoints
from worldfork.registration import Arm, Registration


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
