"""What a reader asks beside the mean: how large it is, how often it helps, which arm is better, and over all tasks.

Nothing here is a new estimand. Frozen returns and shares are averaged as dR is: over cells, then checkpoints. A
contrast of arms is graded as a mean is (few_clusters.py), over the family of all contrasts of the study.
"""

import dataclasses
import math
from collections.abc import Mapping

import numpy as np
from scipy import stats

from worldfork.analysis.score.clusters import partition
from worldfork.analysis.score.intervals import grade, more_checkpoints
from worldfork.analysis.score.judgement import Grade
from worldfork.analysis.score.records import Contrast, TaskScore
from worldfork.analysis.score.result import Score
from worldfork.analysis.score.undefined import Bounds, Figure, Interval, Undefined
from worldfork.analysis.score.verdicts import adjust

__all__ = [
    "ContrastGrade",
    "Helped",
    "Normalised",
    "Scale",
    "contrast_grades",
    "helped",
    "normalised",
    "scale",
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scale:
    """What a mean dR is to be held against; a share where what it is a share of is positive."""

    frozen: float
    of_frozen: Figure
    clean: Figure
    of_clean: Figure


@dataclasses.dataclass(frozen=True, kw_only=True)
class Helped:
    """The share of forks with dR > 0, averaged as dR is, and its range over checkpoints."""

    share: float
    low: float
    high: float
    forks: int
    of: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class ContrastGrade:
    """What the difference of two arms can be held to, among all differences of the study."""

    grade: Grade | Undefined
    family: int
    adjusted_student_t: Figure
    adjusted_sign_flip: Figure
    more_checkpoints: int | Undefined


@dataclasses.dataclass(frozen=True, kw_only=True)
class Normalised:
    """The plain mean over tasks of dR as a share of the frozen return, with Welch's interval over checkpoints."""

    share: Figure
    interval: Bounds
    tasks: Mapping[str, float]


def scale(score: TaskScore) -> Scale:
    """The mean of all attempted forks beside the frozen and the clean return."""
    forks, mean = score.evidence.forks, score.effect.all_attempted.mean
    grouped = partition(forks.prefork)
    by_checkpoint = grouped.checkpoint_means(grouped.cell_means(forks.outcomes.r_hold))
    frozen = float(np.nanmean(by_checkpoint)) if len(by_checkpoint) else math.nan
    clean = score.clean_return if isinstance(score.clean_return, Undefined) else score.clean_return.mean
    return Scale(frozen=frozen, of_frozen=_share(mean, frozen), clean=clean, of_clean=_share(mean, clean))


def helped(score: TaskScore) -> Helped:
    """How often updating helped at a decision point, over all attempted forks."""
    forks = score.evidence.forks
    grouped = partition(forks.prefork)
    better = (forks.delta > 0).astype(np.float64)
    shares = grouped.checkpoint_means(grouped.cell_means(better))
    shares = shares[~np.isnan(shares)]
    return Helped(
        share=float(shares.mean()),
        low=float(shares.min()),
        high=float(shares.max()),
        forks=int(better.sum()),
        of=len(better),
    )


def contrast_grades(score: Score) -> dict[tuple[str, str], ContrastGrade]:
    """Every contrast of all attempted forks, by "first - second" and task, graded over all of them."""
    contrasts: dict[tuple[str, str], Contrast] = {
        (pair, task): sides.all_attempted
        for pair, tasks in score.contrasts.items()
        for task, sides in tasks.items()
        if not isinstance(sides.all_attempted, Undefined)
    }
    student = adjust({key: one.p_student_t for key, one in contrasts.items()}, contrasts)
    flips = adjust({key: one.p_sign_flip for key, one in contrasts.items()}, contrasts)
    grades = {}
    for key, contrast in contrasts.items():
        values = np.array([mean for mean in contrast.by_checkpoint.values() if not isinstance(mean, Undefined)])
        graded = grade(values, adjusted_student_p=student[key], adjusted_sign_flip_p=flips[key])
        more = 0 if graded == "resolved" else more_checkpoints(values, family=len(contrasts))
        grades[key] = ContrastGrade(
            grade=graded,
            family=len(contrasts),
            adjusted_student_t=student[key],
            adjusted_sign_flip=flips[key],
            more_checkpoints=more,
        )
    return grades


def normalised(tasks: Mapping[str, TaskScore]) -> Normalised | Undefined:
    """dR as a share of each task's frozen return, averaged over tasks with equal weight.

    Tasks are fixed, checkpoints are drawn: the interval takes each task's spread over its own checkpoints
    (Welch, "The generalization of Student's problem when several different population variances are involved",
    Biometrika 1947). It speaks of these tasks, not of others.
    """
    if len(tasks) < 2:
        return Undefined("there is one task")
    shares, variances, freedoms = {}, [], []
    for task, figures in tasks.items():
        shown = scale(figures)
        if isinstance(shown.of_frozen, Undefined):
            return Undefined(f"{task}: {shown.of_frozen.why}")
        means = [
            mean for mean in figures.effect.all_attempted.by_checkpoint.values() if not isinstance(mean, Undefined)
        ]
        if len(means) < 2:
            return Undefined(f"{task} has one checkpoint, so its mean has no spread")
        shares[task] = shown.of_frozen
        variances.append(float(np.var(means, ddof=1)) / len(means) / shown.frozen**2)
        freedoms.append(len(means) - 1)
    mean, variance = float(np.mean(list(shares.values()))), sum(variances) / len(shares) ** 2
    if variance == 0 and mean != 0:
        return Undefined("the checkpoints of each task have the same mean, so theirs has no spread")
    if variance == 0:
        return Normalised(share=mean, interval=Interval(mean, mean), tasks=shares)
    freedom = sum(variances) ** 2 / sum(one**2 / count for one, count in zip(variances, freedoms, strict=True))
    half = float(stats.t.ppf(0.975, freedom)) * math.sqrt(variance)
    return Normalised(share=mean, interval=Interval(mean - half, mean + half), tasks=shares)


def _share(mean: Figure, whole: Figure) -> Figure:
    if isinstance(mean, Undefined):
        return mean
    if isinstance(whole, Undefined):
        return whole
    if not whole > 0:
        return Undefined("the return is not positive, so a share of it means nothing")
    return mean / whole
