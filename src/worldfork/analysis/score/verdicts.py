"""Tests that were registered together, and the grades of means and triggers among them.

Holm's adjustment (Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
Statistics 1979) runs over the registered family, not over what happens to be computed: scoring one arm, one task
or one trigger alone must not make a test easier to pass. Members that were not computed count as p = 1, which can
only raise the others. What is not in the family is exploratory: it is adjusted as one more member, and says so
wherever it is shown.
"""

import dataclasses
from collections.abc import Hashable, Iterable, Mapping
from typing import Final, Literal, NamedTuple, TypeVar

import numpy as np
from scipy import stats

from worldfork.analysis.score.clusters import ClusterMeans
from worldfork.analysis.score.effects import Effect
from worldfork.analysis.score.intervals import (
    SIGNIFICANT,
    LeaveOneOut,
    MeanByCheckpoint,
    anytime_interval,
    difference_t,
    leave_one_out,
    no_spread,
)
from worldfork.analysis.score.rules import ArmTask, Family
from worldfork.analysis.score.sign_flips import too_few_clusters, wild_p
from worldfork.analysis.score.undefined import INTERNAL, Bounds, Figure, Undefined

Key = TypeVar("Key", bound=Hashable)

Grade = Literal["resolved", "leaning", "unresolved"]

CONTROLS: Final = ("random", "random_shift", "swapped")
BASELINES: Final = ("better_of_both", "position_table")
REQUIRED: Final = (*CONTROLS, *BASELINES)  # what a useful policy has to beat
FARTHEST: Final = 10_000  # checkpoints beyond which "how many more" is not worth an answer


@dataclasses.dataclass(frozen=True, kw_only=True)
class LookFigures:
    """A question at one look."""

    checkpoints: int
    mean: float
    statistic: Figure  # answers the question where it is at least `bound`, whatever its sign
    bound: float
    interval: Bounds  # holds at all looks together
    answer: Literal["above", "below"] | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuestionAnswer:
    """A registered question, and the look that answered it, or else the last one."""

    task: str
    arm: str
    against: str | None
    grade: Grade  # resolved where it was answered, else unresolved
    answer: Literal["above", "below"] | None  # the side of 0 on which the mean lies
    checkpoints: int  # of that look
    mean: float  # at that look, as all below
    statistic: Figure
    bound: float
    interval: Bounds
    looks: tuple[LookFigures, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Judgement:
    """The strength of evidence of a mean over all attempted forks, among the registered means."""

    grade: Grade | Undefined
    p_student_t: Figure
    p_sign_flip: Figure
    p_wild: Figure
    least_p: Figure  # that sign flips can give with so many checkpoints
    family: int  # registered means: every task of every arm
    adjusted_student_t: Figure  # Holm's adjustment over these
    adjusted_sign_flip: Figure
    leave_one_out: LeaveOneOut | Undefined
    anytime: Bounds  # valid however often one looked
    more_checkpoints: int | Undefined  # that would resolve it, were mean and spread to stay
    # The question of [stopping] that decided the grade.
    asked: QuestionAnswer | None = dataclasses.field(default=None, metadata=INTERNAL)


def adjust(p_values: Mapping[Key, Figure], family: Iterable[Key]) -> dict[Key, Figure]:
    """Return Holm's adjustment of each p over the family, whether or not all of it was computed.

    A member of the family without a p value (undefined, or not computed) counts as p = 1. What is not a member is
    adjusted as one more, on its own, so that it makes no registered test stricter.
    """
    members = frozenset(family)
    defined = {key: p for key, p in p_values.items() if not isinstance(p, Undefined)}
    inside = {key: p for key, p in defined.items() if key in members}
    adjusted: dict[Key, Figure] = dict(holm(inside, size=len(members)))
    for key, p in defined.items():
        if key not in members:
            adjusted[key] = holm({**inside, key: p}, size=len(members) + 1)[key]
    return {key: adjusted.get(key, p) for key, p in p_values.items()}


def holm(p_values: Mapping[Key, float], *, size: int | None = None) -> dict[Key, float]:
    """Return Holm's adjustment over all of them, among `size` tests of which the others have p = 1.

    >>> holm({"a": 0.01, "b": 0.04, "c": 0.03})
    {'a': 0.03, 'c': 0.06, 'b': 0.06}
    >>> holm({"a": 0.01}, size=3)
    {'a': 0.03}
    """
    count = len(p_values) if size is None else size
    adjusted: dict[Key, float] = {}
    highest = 0.0
    for rank, (key, p) in enumerate(sorted(p_values.items(), key=lambda item: item[1])):
        highest = max(highest, min(1.0, (count - rank) * p))
        adjusted[key] = highest
    return adjusted


class Graded(NamedTuple):
    """The strength of evidence of a mean among others that it was tested together with."""

    grade: Grade | Undefined
    adjusted_student_t: Figure
    adjusted_sign_flip: Figure
    family: int


def grade_together(means: Mapping[Key, MeanByCheckpoint], family: Iterable[Key]) -> dict[Key, Graded]:
    """Return the grade of each mean, both of its p values adjusted over the family."""
    members = frozenset(family)
    student = adjust({key: mean.p_student_t for key, mean in means.items()}, members)
    flips = adjust({key: mean.p_sign_flip for key, mean in means.items()}, members)
    graded = {}
    for key, mean in means.items():
        grade = grade_of(mean.means, adjusted_student_p=student[key], adjusted_sign_flip_p=flips[key])
        graded[key] = Graded(grade, student[key], flips[key], len(members | {key}))
    return graded


def judge_means(effects: Mapping[ArmTask, Effect], family: Family, *, seed: int) -> dict[ArmTask, Judgement]:
    """Return the strength of evidence of every mean, graded over the registered means."""
    graded = grade_together(effects, family.means)
    judged = {}
    for arm_task, effect in effects.items():
        values, found = effect.means, graded[arm_task]
        names = [name for name, mean in effect.by_checkpoint.items() if not isinstance(mean, Undefined)]
        judged[arm_task] = Judgement(
            **found._asdict(),
            p_student_t=effect.p_student_t,
            p_sign_flip=effect.p_sign_flip,
            p_wild=wild_p(values, seed=seed, task=arm_task[1]),
            least_p=2.0 ** (1 - len(values)) if len(values) else Undefined("there is no checkpoint"),
            leave_one_out=leave_one_out(values, names),
            anytime=anytime_interval(values),
            more_checkpoints=0 if found.grade == "resolved" else more_checkpoints(values, family=found.family),
        )
    return judged


def grade_of(
    values: ClusterMeans, *, adjusted_student_p: Figure, adjusted_sign_flip_p: Figure
) -> Grade | Undefined:
    """Return the grade of a mean: resolved, leaning or unresolved.

    The interval is not adjusted; both p values come adjusted over the registered family. A mean leans where the
    interval excludes 0 and not both p values are below .05.
    """
    interval = difference_t(values)
    if isinstance(interval, Undefined):
        return interval
    if interval[0] <= 0 <= interval[1]:
        return "unresolved"
    both = (adjusted_student_p, adjusted_sign_flip_p)
    return "resolved" if all(not isinstance(p, Undefined) and p < SIGNIFICANT for p in both) else "leaning"


def more_checkpoints(values: ClusterMeans, *, family: int) -> int | Undefined:
    """Return how many more checkpoints would resolve this mean if it and its spread stayed as they are.

    Each p has to pass the strictest step of Holm's adjustment, `family` times itself, and the sign-flip p can not
    fall below 2^(1 - n). An even chance, not a promise: the mean of more checkpoints moves.
    """
    if len(values) < 2:
        return too_few_clusters(len(values))
    if not values.any():
        return Undefined("the mean is 0: no number of checkpoints would resolve it")
    if alike := no_spread(values):
        return alike
    counts = np.arange(len(values) + 1, FARTHEST + 1)
    distance = abs(float(values.mean())) / float(values.std(ddof=1))
    by_t = 2 * stats.t.sf(distance * np.sqrt(counts), counts - 1)
    enough = np.flatnonzero((family * by_t < SIGNIFICANT) & (family * 2.0 ** (1 - counts) < SIGNIFICANT))
    if not len(enough):
        return Undefined(
            f"the mean is too near 0 for its spread: not even {FARTHEST:,} checkpoints would resolve it"
        )
    return int(counts[enough[0]]) - len(values)
