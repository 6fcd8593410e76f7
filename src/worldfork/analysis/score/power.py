"""Variances of dR between checkpoints, forks and episodes, and where the next unit of budget buys most.

dR of a fork is a mean over episodes, a checkpoint's is a mean over forks. Moment estimates of the three variances
tell what more checkpoints, more forks or more episodes would do to the minimum detectable effect.
"""

import dataclasses
import math
from typing import Final

import numpy as np
from jaxtyping import Float, Int
from scipy import stats

from worldfork.analysis.read.outcomes import Forks, join
from worldfork.analysis.score.clusters import partition
from worldfork.analysis.score.decisions import diverged
from worldfork.analysis.score.effects import effect
from worldfork.analysis.score.policy_returns import strata
from worldfork.analysis.score.records import DesignAdvice, DesignComponents, Effect, VarianceComponents
from worldfork.analysis.score.rules import Rules
from worldfork.analysis.score.undefined import Figure, Undefined, finite

AXES: Final = ("checkpoints", "forks", "episodes")
BUDGETS: Final = {"2": 2.0, "4": 4.0, "10": 10.0, "unlimited": math.inf}  # times the paired episodes there are
NO_EPISODES = Undefined("it needs the per-episode returns `hold` and `update`, two or more per fork")


@dataclasses.dataclass(frozen=True)
class Design:
    """A study's size: checkpoints, forks of each, episodes of each branch."""

    checkpoints: int | float  # a budget without limit has infinitely many
    forks: float
    episodes: float

    def times(self, factor: float, axis: str) -> "Design":
        """Return the design with so many times the paired episodes, all of the increase spent on one axis."""
        return dataclasses.replace(self, **{axis: factor * getattr(self, axis)})


def standard_error(design: Design, *, checkpoint: float, fork: float, episode: float) -> float:
    """Return the standard error of the mean dR, given the three variances; negative ones count as none."""
    within = max(fork, 0.0) / design.forks + max(episode, 0.0) / (design.forks * design.episodes)
    return math.sqrt((max(checkpoint, 0.0) + within) / design.checkpoints)


def minimum_detectable_effect(design: Design, *, checkpoint: float, fork: float, episode: float) -> float:
    """Return the effect found with 80% power at 95% confidence, given the three variances; negative ones count as
    none."""
    error = standard_error(design, checkpoint=checkpoint, fork=fork, episode=episode)
    return float(stats.t.ppf(0.975, design.checkpoints - 1) + stats.norm.ppf(0.80)) * error


def variance_components(forks: Forks) -> VarianceComponents:
    """Return the variances of dR between checkpoints, forks of a checkpoint, and paired episodes of a fork.

    Moment estimates, unbiased and therefore possibly negative: such a component is not distinguishable from none.
    """
    parts = partition(forks.prefork)
    delta = forks.delta
    sizes = np.bincount(parts.checkpoint, minlength=len(parts.checkpoints)).astype(float)
    sizes = sizes[sizes > 0]
    groups, count = len(sizes), float(sizes.sum())
    within, episode, m = _mean_square_within(forks), *_episode_variance(forks)
    between: Figure = Undefined("it needs at least two checkpoints, and more forks than checkpoints")
    if groups > 1 and not isinstance(within, Undefined):
        means = np.bincount(parts.checkpoint, weights=delta) / np.maximum(np.bincount(parts.checkpoint), 1)
        square = float(((means[parts.checkpoint] - delta.mean()) ** 2).sum()) / (groups - 1)
        typical = (count - float((sizes**2).sum()) / count) / (groups - 1)
        between = (square - within) / typical
    fork = within
    if isinstance(episode, Undefined):
        fork = Undefined("without per-episode returns, forks and episodes can not be told apart")
    elif not isinstance(within, Undefined):
        fork = within - episode / m
    return VarianceComponents(checkpoint=between, fork=fork, episode=episode)


def design_components(forks: Forks) -> DesignComponents:
    """Return the variances that a design is judged by.

    Where every checkpoint forks at the same decision points (direction, stream seed, k), what these have in common
    is not noise: a new checkpoint would be forked at the same ones. Left among the forks it would make checkpoints
    look alike, since all of them share it. So it is taken out, as `decision_point`; elsewhere nothing can be.
    """
    nested, crossed = variance_components(forks), _crossed(forks)
    episode = nested.episode
    if crossed is None or isinstance(episode, Undefined):
        return DesignComponents(
            checkpoint=nested.checkpoint,
            decision_point=Undefined("checkpoints do not fork at the same decision points, once each"),
            fork=nested.fork,
            episode=episode,
        )
    of_checkpoint, of_point, between = crossed
    return DesignComponents(
        checkpoint=of_checkpoint,
        decision_point=of_point,
        fork=between - episode / _episode_variance(forks)[1],
        episode=episode,
    )


def _crossed(forks: Forks) -> tuple[float, float, float] | None:
    """Return the components of checkpoint, decision point and fork, where every pair of the former has one fork."""
    parts, prefork = partition(forks.prefork), forks.prefork
    stream = np.array([cell.stream_seed for cell in prefork.cells])[prefork.cell]
    point = strata(strata(parts.direction, stream), prefork.k)
    found = between_forks(forks.delta, parts.checkpoint, point)
    checkpoint, at_point, rest = found
    if isinstance(checkpoint, Undefined) or isinstance(at_point, Undefined) or isinstance(rest, Undefined):
        return None
    return checkpoint, at_point, rest


def between_forks(
    means: Float[np.ndarray, "forks"], checkpoint: Int[np.ndarray, "forks"], point: Int[np.ndarray, "forks"]
) -> tuple[Figure, Figure, Figure]:
    """Return the components of checkpoint, decision point and fork, by two-way analysis of variance."""
    checkpoints, row = np.unique(checkpoint, return_inverse=True)
    points, column = np.unique(point, return_inverse=True)
    grid = np.full((len(checkpoints), len(points)), np.nan)
    grid[row, column] = means
    if len(means) != grid.size or np.isnan(grid).any():
        uneven = Undefined("checkpoints do not fork at the same decision points, once each")
        return uneven, uneven, uneven
    if min(grid.shape) < 2:
        few = Undefined("it needs at least two checkpoints and two decision points")
        return few, few, few
    rows, columns = grid.mean(axis=1), grid.mean(axis=0)
    residual = grid - rows[:, None] - columns + grid.mean()
    rest = float((residual**2).sum()) / ((len(rows) - 1) * (len(columns) - 1))
    return (
        float(rows.var(ddof=1)) - rest / len(columns),
        float(columns.var(ddof=1)) - rest / len(rows),
        rest,
    )


def design_advice(forks: Forks, components: DesignComponents) -> DesignAdvice | Undefined:
    """Return the minimum detectable effect of this design and of twice the budget spent on each of its three axes,
    and the standard error of the mean dR at several budgets."""
    variances = components.traded()
    if isinstance(variances, Undefined):
        return variances
    checkpoints = len(set(partition(forks.prefork).checkpoint.tolist()))
    now = Design(checkpoints, len(forks) / checkpoints, _episode_variance(forks)[1])
    effects = {axis: minimum_detectable_effect(now.times(2.0, axis), **variances) for axis in AXES}
    return DesignAdvice(
        checkpoints=now.checkpoints,
        forks=now.forks,
        episodes=now.episodes,
        components=components,
        mde=minimum_detectable_effect(now, **variances),
        mde_at_double=effects,
        buys_most=min(effects, key=lambda name: effects[name]),
        standard_error=standard_error(now, **variances),
        standard_error_at={
            name: {axis: standard_error(now.times(factor, axis), **variances) for axis in AXES}
            for name, factor in BUDGETS.items()
        },
    )


def crn_gain(forks: Forks) -> Figure:
    """Return (var(hold) + var(update)) / var(update - hold), means over forks: the gain of common random
    numbers."""
    hold, update = forks.outcomes.hold, forks.outcomes.update
    if hold is None or update is None:
        return NO_EPISODES
    enough = (~np.isnan(update - hold)).sum(axis=1) > 1
    if not enough.any():
        return NO_EPISODES
    paired = np.isnan(update - hold)[enough]
    hold, update = np.where(paired, np.nan, hold[enough]), np.where(paired, np.nan, update[enough])
    apart = float((np.nanvar(hold, axis=1, ddof=1) + np.nanvar(update, axis=1, ddof=1)).mean())
    together = float(np.nanvar(update - hold, axis=1, ddof=1).mean())
    if together <= 1e-12 * max(apart, np.finfo(float).tiny):
        return Undefined("the two branches differ by a constant in every fork: the factor has no bound")
    return apart / together


def _mean_square_within(forks: Forks) -> Figure:
    checkpoint = partition(forks.prefork).checkpoint
    groups = len(set(checkpoint.tolist()))
    if len(forks) <= groups:
        return Undefined("it needs more forks than checkpoints")
    means = np.bincount(checkpoint, weights=forks.delta) / np.maximum(np.bincount(checkpoint), 1)
    return float(((forks.delta - means[checkpoint]) ** 2).sum()) / (len(forks) - groups)


def _episode_variance(forks: Forks) -> tuple[Figure, float]:
    """Return the variance of one paired episode's difference, and the harmonic mean of episodes per fork."""
    hold, update = forks.outcomes.hold, forks.outcomes.update
    if hold is None or update is None:
        return NO_EPISODES, math.nan
    difference = update - hold
    counts = (~np.isnan(difference)).sum(axis=1)
    enough = counts > 1
    if not enough.any():
        return NO_EPISODES, math.nan
    variance = float(np.nanvar(difference[enough], axis=1, ddof=1).mean())
    return variance, float(1 / np.mean(1 / counts[enough]))


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
    return finite(
        Replication(first=effect(first, seed=rules.seed), all_seeds=effect(kept, seed=rules.seed)),
    )
