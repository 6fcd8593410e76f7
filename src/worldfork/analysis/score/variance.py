"""Components of the variance of dR, what a study can detect, and where twice the budget buys most.

dR of a fork is a mean over episodes, a checkpoint's is a mean over forks. Moment estimates of the variances tell
what more checkpoints, forks or episodes would do to the minimum detectable effect. They are unbiased and therefore
possibly negative: such a component is not distinguishable from none.

An update trained on other minibatches is another update: a fork has U draws of it, which share HOLD, the stream and
the episodes. Within a fork dR is then a table of draws by episodes: `draw` is what one training differs from
another on all episodes, `episode` what one episode differs from another for all draws (HOLD's luck is in it),
`draw_episode` the rest. With one draw, `draw` is part of `fork` and `draw_episode` of `episode`.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Final

import numpy as np
from jaxtyping import Float
from scipy import stats

from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.read.prefork import ForkCodes, ForkValues
from worldfork.analysis.score import intervals
from worldfork.analysis.score.clusters import partition, place_of
from worldfork.analysis.score.undefined import Bounds, Figure, Undefined

AXES: Final = ("checkpoints", "forks", "episodes")
BUDGETS: Final = {"2": 2.0, "4": 4.0, "10": 10.0, "unlimited": math.inf}  # times the paired episodes there are
NO_EPISODES: Final = Undefined("it needs the per-episode returns `hold` and `update`, two or more per fork")
UNEVEN: Final = Undefined("checkpoints do not fork at the same decision points, once each")


@dataclasses.dataclass(frozen=True, kw_only=True)
class VarianceComponents:
    """Variance of dR between checkpoints, between forks of a checkpoint, between paired episodes of a fork."""

    checkpoint: Figure
    fork: Figure
    episode: Figure


@dataclasses.dataclass(frozen=True, kw_only=True)
class DesignComponents(VarianceComponents):
    """Variances with what decision points share over checkpoints taken out of the forks."""

    decision_point: Figure


@dataclasses.dataclass(frozen=True, kw_only=True)
class Components:
    """Variances of dR. What decision points share is no noise: every checkpoint is forked there."""

    checkpoint: Figure
    decision_point: Figure
    fork: Figure
    draw: Figure
    draw_interval: Bounds  # Student-t over checkpoints, each with the component of its own forks
    draws_of_both_signs: Figure  # share of forks of which one draw helped and another hurt
    episode: Figure
    draw_episode: Figure


@dataclasses.dataclass(frozen=True, kw_only=True)
class DesignAdvice:
    """A study's size, what it can detect, and what a larger budget would buy."""

    checkpoints: int | float
    forks: float
    episodes: float
    components: DesignComponents
    mde: Figure
    mde_at_double: Mapping[str, Figure]
    buys_most: str
    standard_error: Figure
    standard_error_at: Mapping[str, Mapping[str, Figure]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Split:
    """A study's size; a budget without limit has infinitely many of something."""

    checkpoints: int | float
    forks: int | float  # of each checkpoint
    draws: int | float = 1  # of each fork's update
    episodes: int | float  # of each branch

    def times(self, factor: int | float, axis: str) -> "Split":
        """Return the study with so many times as many of one thing."""
        return dataclasses.replace(self, **{axis: factor * getattr(self, axis)})


Variances = Mapping[str, float]  # checkpoint, fork, episode; and draw, draw_episode where draws were repeated


def variances_of(components: VarianceComponents | Components) -> dict[str, float] | Undefined:
    """Return the variances that a budget trades against one another, or why one of them is not known."""
    found = {}
    for name in ("checkpoint", "fork", "episode", "draw", "draw_episode"):
        value = getattr(components, name, None)
        if isinstance(value, Undefined) and not name.startswith("draw"):
            return Undefined(f"a variance component is undefined: {value.why}")
        if isinstance(value, float):
            found[name] = value
    return found


def standard_error(split: Split, noise: Variances) -> float:
    """Return the standard error of the mean dR; a negative component counts as none."""
    draw, episode, rest = (max(noise.get(name, 0.0), 0.0) for name in ("draw", "episode", "draw_episode"))
    in_fork = draw / split.draws + episode / split.episodes + rest / (split.draws * split.episodes)
    within = (max(noise["fork"], 0.0) + in_fork) / split.forks
    return math.sqrt((max(noise["checkpoint"], 0.0) + within) / split.checkpoints)


def detectable_effect(split: Split, noise: Variances) -> float:
    """Return the mean dR found with 80% power at 95% confidence: (t_{.975, n-1} + z_{.80}) standard errors."""
    quantiles = stats.t.ppf(0.975, split.checkpoints - 1) + stats.norm.ppf(0.80)
    return float(quantiles) * standard_error(split, noise)


def variance_components(forks: Forks) -> VarianceComponents:
    """Return the variances of dR between checkpoints, forks of a checkpoint, and paired episodes of a fork."""
    checkpoint, delta = partition(forks.prefork).checkpoint, forks.delta
    sizes = np.bincount(checkpoint)
    means = np.bincount(checkpoint, weights=delta) / np.maximum(sizes, 1)
    groups, count = int((sizes > 0).sum()), len(forks)
    within: Figure = Undefined("it needs more forks than checkpoints")
    between: Figure = Undefined("it needs at least two checkpoints, and more forks than checkpoints")
    if count > groups:
        within = float(((delta - means[checkpoint]) ** 2).sum()) / (count - groups)
        if groups > 1:
            square = float(((means[checkpoint] - delta.mean()) ** 2).sum()) / (groups - 1)
            typical = (count - float((sizes.astype(float) ** 2).sum()) / count) / (groups - 1)
            between = (square - within) / typical
    episode, m = _episode_variance(forks)
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
    nested = variance_components(forks)
    checkpoint, point, between = between_forks(
        forks.delta, partition(forks.prefork).checkpoint, place_of(forks.prefork)
    )
    if isinstance(between, Undefined) or isinstance(nested.episode, Undefined):
        return DesignComponents(**vars(nested), decision_point=UNEVEN)
    return DesignComponents(
        checkpoint=checkpoint,
        decision_point=point,
        fork=between - nested.episode / _episode_variance(forks)[1],
        episode=nested.episode,
    )


def between_forks(means: ForkValues, checkpoint: ForkCodes, point: ForkCodes) -> tuple[Figure, Figure, Figure]:
    """Return the components of checkpoint, decision point and fork, by two-way analysis of variance."""
    checkpoints, row = np.unique(checkpoint, return_inverse=True)
    points, column = np.unique(point, return_inverse=True)
    grid = np.full((len(checkpoints), len(points)), np.nan)
    grid[row, column] = means
    if len(means) != grid.size or np.isnan(grid).any():
        return UNEVEN, UNEVEN, UNEVEN
    if min(grid.shape) < 2:
        few = Undefined("it needs at least two checkpoints and two decision points")
        return few, few, few
    return _two_way(grid[None])


def _two_way(tables: Float[np.ndarray, "tables rows columns"]) -> tuple[float, float, float]:
    """Return the variances of rows, of columns and of what is left, averaged over tables."""
    _, rows, columns = tables.shape
    by_row, by_column = tables.mean(axis=2), tables.mean(axis=1)
    residual = tables - by_row[:, :, None] - by_column[:, None, :] + tables.mean(axis=(1, 2))[:, None, None]
    rest = float((residual**2).sum(axis=(1, 2)).mean()) / ((rows - 1) * (columns - 1))
    of_rows, of_columns = (float(means.var(axis=1, ddof=1).mean()) for means in (by_row, by_column))
    return of_rows - rest / columns, of_columns - rest / rows, rest


def design_advice(forks: Forks, components: DesignComponents) -> DesignAdvice | Undefined:
    """Return the minimum detectable effect of this design and of twice the budget spent on each of its three axes,
    and the standard error of the mean dR at several budgets."""
    noise = variances_of(components)
    if isinstance(noise, Undefined):
        return noise
    checkpoints = len(np.unique(partition(forks.prefork).checkpoint))
    now = Split(checkpoints=checkpoints, forks=len(forks) / checkpoints, episodes=_episode_variance(forks)[1])
    doubled = {axis: detectable_effect(now.times(2, axis), noise) for axis in AXES}
    return DesignAdvice(
        checkpoints=now.checkpoints,
        forks=now.forks,
        episodes=now.episodes,
        components=components,
        mde=detectable_effect(now, noise),
        mde_at_double=doubled,
        buys_most=min(doubled, key=lambda axis: doubled[axis]),
        standard_error=standard_error(now, noise),
        standard_error_at={
            name: {axis: standard_error(now.times(factor, axis), noise) for axis in AXES}
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
    unpaired = np.isnan(update - hold)[enough]
    hold, update = np.where(unpaired, np.nan, hold[enough]), np.where(unpaired, np.nan, update[enough])
    apart = float((np.nanvar(hold, axis=1, ddof=1) + np.nanvar(update, axis=1, ddof=1)).mean())
    together = float(np.nanvar(update - hold, axis=1, ddof=1).mean())
    if together <= 1e-12 * max(apart, np.finfo(float).tiny):
        return Undefined("the two branches differ by a constant in every fork: the factor has no bound")
    return apart / together


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


def components_of(forks: Forks) -> Components | Undefined:
    """Return every component of dR, draws of the update among them, over the forks that have all of their
    episodes."""
    hold, update = forks.outcomes.hold, forks.outcomes.update
    if hold is None or update is None:
        return Undefined("it needs the per-episode returns `hold` and `update`")
    drawn = update[:, None, :] if forks.outcomes.drawn is None else forks.outcomes.drawn
    whole = ~(np.isnan(hold).any(axis=1) | np.isnan(drawn).any(axis=(1, 2)))
    if not whole.any():
        return Undefined("no fork has all of its episodes")
    kept = forks.take(whole)
    return components(drawn[whole], hold[whole], partition(kept.prefork).checkpoint, place_of(kept.prefork))


def components(
    update: Float[np.ndarray, "forks draws episodes"],
    hold: Float[np.ndarray, "forks episodes"],
    checkpoint: ForkCodes,
    point: ForkCodes,
) -> Components:
    """Return every component of a study in which each checkpoint has one fork at each decision point, all of one
    size."""
    table = update - hold[:, None, :]
    _, draws, episodes = table.shape
    draw, episode, rest = _within_fork(table)
    of_checkpoint, of_point, fork = between_forks(table.mean(axis=(1, 2)), checkpoint, point)
    if isinstance(episode, Undefined):
        fork = episode
    elif not isinstance(fork, Undefined):
        fork -= episode / episodes
        if not isinstance(draw, Undefined) and not isinstance(rest, Undefined):
            fork -= draw / draws + rest / (draws * episodes)
    signs: Figure = Undefined("there is one draw of each update")
    if draws > 1:
        means = table.mean(axis=2)
        signs = float(((means > 0).any(axis=1) & (means < 0).any(axis=1)).mean())
    return Components(
        checkpoint=of_checkpoint,
        decision_point=of_point,
        fork=fork,
        draw=draw,
        draw_interval=_draw_interval(table, checkpoint),
        draws_of_both_signs=signs,
        episode=episode,
        draw_episode=rest,
    )


def _within_fork(table: Float[np.ndarray, "forks draws episodes"]) -> tuple[Figure, Figure, Figure]:
    """Return the components of draw, episode and the rest: two-way analysis of variance, averaged over forks."""
    _, draws, episodes = table.shape
    if episodes < 2:
        few = Undefined("it needs at least two episodes per fork")
        return few, few, few
    if draws < 2:
        single = Undefined("there is one draw of each update, so that draws and forks can not be told apart")
        of_episode = float(table.mean(axis=1).var(axis=1, ddof=1).mean())
        return single, of_episode, Undefined("there is one draw of each update: it is part of the episodes")
    return _two_way(table)


def _draw_interval(table: Float[np.ndarray, "forks draws episodes"], checkpoint: ForkCodes) -> Bounds:
    """Return the interval over checkpoints, each with the component of its own forks: how much draws differ may
    depend on the model."""
    found = [_within_fork(table[checkpoint == name])[0] for name in np.unique(checkpoint)]
    draws = [draw for draw in found if not isinstance(draw, Undefined)]
    return intervals.student_t(np.array(draws)) if len(draws) == len(found) else found[0]  # type: ignore[return-value]


def label_noise(noise: Components, *, draws: int, episodes: int) -> Figure:
    """Return the variance of one fork's label about what its update is worth: draws, episodes and both together."""
    for needed in (noise.draw, noise.episode, noise.draw_episode):
        if isinstance(needed, Undefined):
            return needed
    draw, episode, rest = (
        0.0 if isinstance(part, Undefined) else max(part, 0.0)
        for part in (noise.draw, noise.episode, noise.draw_episode)
    )
    return draw / draws + episode / episodes + rest / (draws * episodes)
