"""The size of a mean dR: beside the return it is a share of, how often updating helped, and over all tasks.

None of these is a new estimand. Frozen returns and shares are averaged as dR is: over cells, then checkpoints.
"""

import math
from collections.abc import Mapping

import numpy as np
from scipy import stats

from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.score.clusters import partition
from worldfork.analysis.score.intervals import no_spread, resamples, student_t
from worldfork.analysis.score.judgement import CleanReturn, Helped, Normalised, Robust, Scale
from worldfork.analysis.score.numerics import middle_95
from worldfork.analysis.score.records import TaskScore
from worldfork.analysis.score.undefined import Bounds, Figure, Interval, Undefined


def scale(forks: Forks, mean: Figure, *, clean: CleanReturn | Undefined) -> Scale:
    """Return the mean dR of these forks beside their frozen and their clean return."""
    grouped = partition(forks.prefork)
    by_checkpoint = grouped.checkpoint_means(grouped.cell_means(forks.outcomes.r_hold))
    frozen = float(np.nanmean(by_checkpoint)) if len(by_checkpoint) else math.nan
    of_clean = clean if isinstance(clean, Undefined) else clean.mean
    return Scale(frozen=frozen, of_frozen=_share(mean, frozen), clean=of_clean, of_clean=_share(mean, of_clean))


def helped(forks: Forks) -> Helped:
    """Return how often updating helped at a decision point."""
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


def robust(forks: Forks, *, seed: int) -> Robust:
    """Return the interquartile mean over checkpoints, and how probably an update returns more than HOLD."""
    parts = partition(forks.prefork)
    means = parts.checkpoint_means(parts.cell_means(forks.delta))
    means = means[~np.isnan(means)]
    few = Undefined("a mean without quarters needs at least four checkpoints")
    middle: Figure = few
    bootstrap: Bounds = few
    if len(means) >= 4:
        middle = float(stats.trim_mean(means, 0.25))
        drawn = [stats.trim_mean(means[chosen], 0.25, axis=1) for chosen in resamples(len(means), seed, forks.task)]
        bootstrap = no_spread(means) or Interval(*middle_95(np.concatenate(drawn)).tolist())
    hold, update = forks.outcomes.hold, forks.outcomes.update
    better = (np.sign(forks.delta) + 1) / 2
    if hold is not None and update is not None:
        pairs = update - hold - forks.outcomes.cost
        there = ~np.isnan(pairs).all(axis=1)
        better[there] = np.nanmean((np.sign(pairs[there]) + 1) / 2, axis=1)
    shares = parts.checkpoint_means(parts.cell_means(better))
    shares = shares[~np.isnan(shares)]
    return Robust(
        interquartile_mean=middle,
        interquartile_bootstrap=bootstrap,
        probability_of_improvement=float(shares.mean()) if len(shares) else Undefined("there are no forks"),
        probability_student_t=student_t(shares),
    )


def normalised(tasks: Mapping[str, TaskScore]) -> Normalised | Undefined:
    """Return dR as a share of each task's frozen return, averaged over tasks with equal weight.

    Tasks are fixed, checkpoints are drawn: the interval takes each task's spread over its own checkpoints
    (Welch, "The generalization of Student's problem when several different population variances are involved",
    Biometrika 1947). It speaks of these tasks, not of others.
    """
    if len(tasks) < 2:
        return Undefined("there is one task")
    shares, variances, freedoms = {}, [], []
    for task, figures in tasks.items():
        shown = figures.scale
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
    freedom = sum(variances) ** 2 / sum(
        variance_of**2 / count for variance_of, count in zip(variances, freedoms, strict=True)
    )
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
