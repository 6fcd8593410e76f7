"""Mean dR of a task, by direction and drift (paper, "A fixed update rule loses return on all three
tasks")."""

import dataclasses
import math
from collections.abc import Mapping

import numpy as np
from scipy import stats

from worldfork.analysis.read.outcomes import Forks, join
from worldfork.analysis.score.clusters import partition
from worldfork.analysis.score.decisions import diverged
from worldfork.analysis.score.intervals import (
    Intervals,
    MeanByCheckpoint,
    MeanEstimate,
    bootstrap,
    detectable,
    difference_t,
    middle_95,
    no_spread,
    resamples,
    skew,
    student_t,
)
from worldfork.analysis.score.rules import Rules
from worldfork.analysis.score.sign_flips import sign_flip_p, student_p
from worldfork.analysis.score.undefined import Bounds, Figure, Interval, Undefined, finite


@dataclasses.dataclass(frozen=True, kw_only=True)
class Effect(MeanByCheckpoint):
    """Mean dR over forks, cells and checkpoints."""

    by_direction: Mapping[str, Figure]
    by_direction_intervals: Mapping[str, Intervals]
    clusters: int
    cells: int
    cells_without_forks: int
    left_out: tuple[str, ...]  # these cells, by checkpoint/direction/stream seed
    cells_below_zero: int
    forks: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class CleanReturn:
    """The returns of checkpoints in the clean world."""

    mean: float
    student_t: Bounds
    by_checkpoint: Mapping[str, float]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scale:
    """Returns that a mean dR is held against, and dR as a share of each where that is positive."""

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
class Robust:
    """Figures that a few checkpoints, or a few episodes, can not carry alone."""

    interquartile_mean: Figure  # of the checkpoint means: without the highest and the lowest quarter
    interquartile_bootstrap: Bounds
    probability_of_improvement: Figure  # that an update returns more than HOLD on the same episode, ties a half
    probability_student_t: Bounds


@dataclasses.dataclass(frozen=True, kw_only=True)
class Normalised:
    """The plain mean over tasks of dR as a share of the frozen return, with Welch's interval over checkpoints."""

    share: Figure
    interval: Bounds
    tasks: Mapping[str, float]


def effect(forks: Forks, *, seed: int) -> Effect:
    """Return mean dR: within cells, then within checkpoints, then over checkpoints, with both intervals."""
    parts = partition(forks.prefork)
    cells = parts.cell_means(forks.delta)
    by_checkpoint = dict(zip(parts.checkpoints, parts.checkpoint_means(cells), strict=True))
    defined = np.array([mean for mean in by_checkpoint.values() if not np.isnan(mean)])
    by_direction, intervals_by_direction = {}, {}
    for code, direction in enumerate(parts.directions):
        of_direction = np.where(parts.cell_direction == code, cells, np.nan)
        means = parts.checkpoint_means(of_direction)
        by_direction[direction] = _mean(of_direction[~np.isnan(of_direction)])
        known_means = means[~np.isnan(means)]
        intervals_by_direction[direction] = Intervals(
            bootstrap=no_spread(known_means) or bootstrap(known_means, seed=seed, task=forks.task),
            student_t=difference_t(known_means),
        )
    empty = Undefined("no fork of this checkpoint was retained")
    return Effect(
        **vars(estimate(defined, seed=seed, task=forks.task)),
        by_direction=by_direction,
        by_direction_intervals=intervals_by_direction,
        by_checkpoint={name: empty if np.isnan(value) else float(value) for name, value in by_checkpoint.items()},
        clusters=len(defined),
        cells=int((~np.isnan(cells)).sum()),
        cells_without_forks=int(np.isnan(cells).sum()),
        left_out=tuple(
            f"{cell.checkpoint}/{cell.direction}/{cell.stream_seed}"
            for cell, value in zip(forks.prefork.cells, cells, strict=True)
            if np.isnan(value)
        ),
        cells_below_zero=int((cells < 0).sum()),
        forks=len(forks),
    )


def estimate(checkpoint_means: np.ndarray, *, seed: int, task: str) -> MeanEstimate:
    """Return a mean over checkpoints, with its intervals and its minimum detectable effect."""
    alike = no_spread(checkpoint_means)
    return MeanEstimate(
        mean=_mean(checkpoint_means),
        bootstrap=alike or bootstrap(checkpoint_means, seed=seed, task=task),
        student_t=difference_t(checkpoint_means),
        mde=alike or detectable(checkpoint_means),
        p_student_t=student_p(checkpoint_means),
        p_sign_flip=sign_flip_p(checkpoint_means, seed=seed, task=task),
        skew=skew(checkpoint_means),
    )


def estimate_of(by_checkpoint: Mapping[str, float], *, seed: int, task: str) -> MeanByCheckpoint:
    """Return the same of named checkpoints, with the mean of each."""
    found = estimate(np.array(list(by_checkpoint.values())), seed=seed, task=task)
    return MeanByCheckpoint(**vars(found), by_checkpoint=by_checkpoint)


def verdict(all_attempted: MeanEstimate) -> str | Undefined:
    """Return harmful, helpful or unresolved, by the Student-t interval of all attempted forks."""
    interval = all_attempted.student_t
    if isinstance(interval, Undefined):
        return interval
    return "harmful" if interval.high < 0 else "helpful" if interval.low > 0 else "unresolved"


def drift_quartiles(forks: Forks) -> dict[str, tuple[Figure, ...] | Undefined]:
    """Return the mean dR of four runs of forks, as equal as possible, by drift level within each direction."""
    parts = partition(forks.prefork)
    quartiles: dict[str, tuple[Figure, ...] | Undefined] = {}
    for code, direction in enumerate(parts.directions):
        inside = parts.direction == code
        level, k, delta = forks.prefork.level[inside], forks.prefork.k[inside], forks.delta[inside]
        if np.isnan(level).any():
            quartiles[direction] = Undefined(
                f"{int(np.isnan(level).sum())} of {len(level)} forks have no drift level"
            )
            continue
        runs = np.array_split(delta[np.lexsort((k, level))], 4)
        quartiles[direction] = tuple(_mean(run) for run in runs)
    return quartiles


def _mean(values: np.ndarray) -> Figure:
    return float(values.mean()) if len(values) else Undefined("there are no forks to average")


def clean_return(forks: Forks) -> CleanReturn | Undefined:
    """Return the clean return of each checkpoint and their mean."""
    if not forks.clean:
        return Undefined("the ledger does not say the clean return of any checkpoint")
    values = np.array(list(forks.clean.values()))
    return CleanReturn(mean=float(values.mean()), student_t=student_t(values), by_checkpoint=forks.clean)


def scale(forks: Forks, mean: Figure, *, clean: CleanReturn | Undefined) -> Scale:
    """Return the mean dR of these forks beside their frozen and their clean return."""
    frozen = float(partition(forks.prefork).means_of_checkpoints(forks.outcomes.r_hold).mean())
    of_clean = clean if isinstance(clean, Undefined) else clean.mean
    return Scale(frozen=frozen, of_frozen=_share(mean, frozen), clean=of_clean, of_clean=_share(mean, of_clean))


def helped(forks: Forks) -> Helped:
    """Return how often updating helped at a decision point."""
    better = (forks.delta > 0).astype(np.float64)
    shares = partition(forks.prefork).means_of_checkpoints(better)
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
    means = parts.means_of_checkpoints(forks.delta)
    few = Undefined("a mean without quarters needs at least four checkpoints")
    middle: Figure = few
    bootstrap: Bounds = few
    if len(means) >= 4:
        middle = float(stats.trim_mean(means, 0.25))
        drawn = stats.trim_mean(means[resamples(len(means), seed, forks.task)], 0.25, axis=1)
        bootstrap = no_spread(means) or Interval(*middle_95(drawn).tolist())
    hold, update = forks.outcomes.hold, forks.outcomes.update
    better = (np.sign(forks.delta) + 1) / 2
    if hold is not None and update is not None:
        pairs = update - hold - forks.outcomes.cost
        there = ~np.isnan(pairs).all(axis=1)
        better[there] = np.nanmean((np.sign(pairs[there]) + 1) / 2, axis=1)
    shares = parts.means_of_checkpoints(better)
    return Robust(
        interquartile_mean=middle,
        interquartile_bootstrap=bootstrap,
        probability_of_improvement=float(shares.mean()) if len(shares) else Undefined("there are no forks"),
        probability_student_t=student_t(shares),
    )


def normalised(tasks: Mapping[str, tuple[Scale, Effect]]) -> Normalised | Undefined:
    """Return dR as a share of each task's frozen return, averaged over tasks with equal weight.

    Tasks are fixed, checkpoints are drawn: the interval takes each task's spread over its own checkpoints
    (Welch, "The generalization of Student's problem when several different population variances are involved",
    Biometrika 1947). It speaks of these tasks, not of others.
    """
    if len(tasks) < 2:
        return Undefined("there is one task")
    shares, variances, freedoms = {}, [], []
    for task, (shown, effect) in tasks.items():
        if isinstance(shown.of_frozen, Undefined):
            return Undefined(f"{task}: {shown.of_frozen.why}")
        means = effect.means
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Replication:
    """Retained forks of the first stream seed, and of all of them."""

    first: Effect
    all_seeds: Effect


def replicate(forks: Forks, others: Forks | None, *, rules: Rules) -> Replication | None:
    """Return the effect of the first stream seed and of all; None where there is one seed only. `others` are forks
    of the same task on other stream seeds."""
    joined = join([forks] if others is None else [forks, others])
    kept = joined.take(~diverged(joined, rules.divergence).dropped)
    seeds = np.array([cell.stream_seed for cell in kept.prefork.cells])
    if len(set(seeds.tolist())) < 2:
        return None
    first = kept.take(seeds[kept.prefork.cell] == seeds.min())
    return finite(Replication(first=effect(first, seed=rules.seed), all_seeds=effect(kept, seed=rules.seed)))
