"""Fixed schedules: what "always update, with N gradient steps" comes to as N grows.

Paper, "No fixed-rate schedule beats never updating on CartPole".

Nothing here is a new test. A dose is an arm, its mean is that arm's, and the largest dose is held against the
smallest by the contrast of arms. How the means in between are ordered is described, by ranks, and not tested.
"""

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any, Final, Literal

import numpy as np

from worldfork.desk.scoring.alike import ArmGroup, alike_but_for
from worldfork.desk.scoring.contrast import contrast_arms
from worldfork.desk.scoring.family import adjust
from worldfork.desk.scoring.few_clusters import grade
from worldfork.desk.scoring.judgement import Grade
from worldfork.desk.scoring.records import Contrast, TaskScore
from worldfork.desk.scoring.undefined import Bounds, Figure, Interval, Undefined, finite
from worldfork.registration import Arm, Registration

__all__ = ["Dose", "DoseSweep", "MeanOf", "dose_groups", "score_doses"]

VARIED: Final = ("mechanism.steps", "mechanism.settings.passes")
PASSES: Final = Undefined("the number of steps follows the window: its dose is in passes")
NO_ORDER: Final = Undefined("doses in steps and doses in passes have no common order")
NO_STEPS: Final = Undefined("an update without gradient steps")
Order = Literal["rises", "falls", "neither"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class MeanOf:
    """A mean over checkpoints and its Student-t interval."""

    mean: Figure
    student_t: Bounds


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dose(MeanOf):
    """One arm among those that differ in their dose: mean dR of a fork, all attempted, and what follows from it."""

    steps: int | Undefined  # N, gradient steps of an update
    passes: float | None  # over the window, where the dose is given so
    interval: int | Undefined  # control steps between two decision points
    replay_ratio: Figure  # N / interval
    per_step: MeanOf  # mean dR of a fork / N
    always: MeanOf  # the total of a deployment that updates at every decision point
    forks: int
    diverged: int
    rank: int | Undefined  # of its mean among those of the other doses, 1 the highest

    @property
    def amount(self) -> str:
        """The dose as people read it: "400", "1 pass", "2.5 passes"."""
        if self.passes is None:
            return str(self.steps)
        return "1 pass" if self.passes == 1 else f"{self.passes:g} passes"


@dataclasses.dataclass(frozen=True, kw_only=True)
class DoseSweep:
    """One task at several doses, all else the same."""

    doses: Mapping[str, Dose]  # by arm, from the smallest to the largest dose
    missing: tuple[str, ...]  # arms that were registered and are not scored here
    order: Order | Undefined  # of the means as the dose grows: described, not tested
    smallest: str
    largest: str
    largest_less_smallest: Contrast | Undefined
    grade: Grade | Undefined  # of that, after Holm's adjustment over all tasks and groups of the study
    family: int


def score_doses(
    registration: Registration, arms: Mapping[str, Mapping[str, TaskScore]], *, seed: int
) -> dict[str, dict[str, DoseSweep]]:
    """By task and by what else sets arms apart; empty where no two arms differ in their dose."""
    sweeps: dict[tuple[str, str], DoseSweep] = {}
    registered = []
    for group in dose_groups(registration):
        for task in dict.fromkeys(task for arm in group.arms for task in arm.tasks):
            there = [arm for arm in group.arms if task in arm.tasks]
            if len({_amount(arm) for arm in there}) < 2:
                continue
            registered.append((task, group.label))
            scored = {arm.name: arms[arm.name][task] for arm in there if task in arms.get(arm.name, {})}
            if scored and len(arms) > 1:  # who asks for one arm alone does not ask how arms compare
                sweeps[task, group.label] = _sweep(there, scored, seed=seed)
    by_task: dict[str, dict[str, DoseSweep]] = {}
    for (task, label), sweep in _graded(sweeps, registered).items():
        by_task.setdefault(task, {})[label] = sweep
    return finite(by_task)


def dose_groups(registration: Registration) -> list[ArmGroup]:
    """Arms that differ in the number of their gradient steps, or of passes over the window, and in nothing else."""
    return alike_but_for(VARIED, registration.arms, value=_amount)


def _amount(arm: Arm) -> tuple[bool, float]:
    """A dose that can be ordered: those in steps first, then those in passes."""
    passes = _passes(arm)
    return (False, float(arm.mechanism.steps)) if passes is None else (True, passes)


def _passes(arm: Arm) -> float | None:
    passes: Any = arm.mechanism.settings.get("passes")
    return float(passes) if passes is not None and arm.mechanism.steps else None


def _sweep(registered: list[Arm], scored: Mapping[str, TaskScore], *, seed: int) -> DoseSweep:
    ascending = sorted(registered, key=_amount)
    means = {name: score.effect.all_attempted.mean for name, score in scored.items()}
    known = [mean for mean in means.values() if not isinstance(mean, Undefined)]
    doses = {arm.name: _dose(arm, scored[arm.name], means=known) for arm in ascending if arm.name in scored}
    smallest, largest = ascending[0].name, ascending[-1].name
    in_both_units = len({in_passes for in_passes, _ in map(_amount, ascending)}) > 1
    return DoseSweep(
        doses=doses,
        missing=tuple(arm.name for arm in ascending if arm.name not in scored),
        order=NO_ORDER if in_both_units else _order([means[name] for name in doses]),
        smallest=smallest,
        largest=largest,
        largest_less_smallest=NO_ORDER if in_both_units else _ends(smallest, largest, scored, seed=seed),
        grade=Undefined("not yet compared with the rest of its family"),
        family=0,
    )


def _dose(arm: Arm, score: TaskScore, *, means: list[float]) -> Dose:
    effect, passes = score.effect.all_attempted, _passes(arm)
    steps: int | Undefined = arm.mechanism.steps if passes is None else PASSES
    interval = _interval(score)
    always = score.policies_all_attempted
    per_checkpoint = effect.cells / max(1, effect.clusters)
    return Dose(
        steps=steps,
        passes=passes,
        interval=interval,
        replay_ratio=_ratio(steps, interval),
        mean=effect.mean,
        student_t=effect.student_t,
        per_step=_divided(effect.mean, effect.student_t, by=steps or NO_STEPS),
        always=MeanOf(
            mean=_over(always.always, max(1, effect.cells)),
            student_t=_bounds_over(always.earned["always"].student_t, per_checkpoint),
        ),
        forks=score.forks.attempted,
        diverged=score.forks.diverged,
        rank=_rank(effect.mean, means),
    )


def _rank(mean: Figure, means: list[float]) -> int | Undefined:
    return mean if isinstance(mean, Undefined) else 1 + sum(other > mean for other in means)


def _interval(score: TaskScore) -> int | Undefined:
    """Control steps from one decision point to the next, as the stream has them."""
    prefork = score.evidence.forks.prefork
    intervals = np.unique(prefork.step / prefork.k)
    if len(intervals) != 1 or intervals[0] <= 0 or intervals[0] != int(intervals[0]):
        return Undefined("decision points are not the same number of control steps apart")
    return int(intervals[0])


def _ratio(steps: int | Undefined, interval: int | Undefined) -> Figure:
    if isinstance(steps, Undefined):
        return steps
    return interval if isinstance(interval, Undefined) else steps / interval


def _divided(mean: Figure, bounds: Bounds, *, by: int | Undefined) -> MeanOf:
    if isinstance(by, Undefined):
        return MeanOf(mean=by, student_t=by)
    return MeanOf(mean=_over(mean, by), student_t=_bounds_over(bounds, by))


def _over(value: Figure, by: int | float) -> Figure:
    return value if isinstance(value, Undefined) else value / by


def _bounds_over(bounds: Bounds, by: int | float) -> Bounds:
    return bounds if isinstance(bounds, Undefined) else Interval(bounds.low / by, bounds.high / by)


def _order(means: list[Figure]) -> Order | Undefined:
    """Whether the means rise or fall from every dose to the next."""
    known = [mean for mean in means if not isinstance(mean, Undefined)]
    if len(known) < len(means):
        return Undefined("a dose has no mean")
    if all(before < after for before, after in itertools.pairwise(known)):
        return "rises"
    return "falls" if all(before > after for before, after in itertools.pairwise(known)) else "neither"


def _ends(smallest: str, largest: str, scored: Mapping[str, TaskScore], *, seed: int) -> Contrast | Undefined:
    for name in (smallest, largest):
        if name not in scored:
            return Undefined(f"arm `{name}` is not scored here")
    return contrast_arms(scored[largest].evidence.forks, scored[smallest].evidence.forks, seed=seed)


def _graded(
    sweeps: Mapping[tuple[str, str], DoseSweep], registered: list[tuple[str, str]]
) -> dict[tuple[str, str], DoseSweep]:
    """Every contrast of the ends with its grade; those that are registered and not there count as p = 1."""
    ends = {
        key: sweep.largest_less_smallest
        for key, sweep in sweeps.items()
        if not isinstance(sweep.largest_less_smallest, Undefined)
    }
    student = adjust({key: contrast.p_student_t for key, contrast in ends.items()}, registered)
    flips = adjust({key: contrast.p_sign_flip for key, contrast in ends.items()}, registered)
    graded = {}
    for key, sweep in sweeps.items():
        contrast = sweep.largest_less_smallest
        verdict: Grade | Undefined
        if isinstance(contrast, Undefined):
            verdict = contrast
        else:
            values = [mean for mean in contrast.by_checkpoint.values() if not isinstance(mean, Undefined)]
            verdict = grade(np.array(values), adjusted_student_p=student[key], adjusted_sign_flip_p=flips[key])
        graded[key] = dataclasses.replace(sweep, grade=verdict, family=len(registered))
    return graded
