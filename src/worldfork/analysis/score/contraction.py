"""A line through forks, with intervals that know that the checkpoint is the cluster.

Two intervals for the slope, the crossing with the identity and the ratio of variances. The percentile bootstrap
resamples whole checkpoints (all n^n up to six, 20,000 seeded beyond). The one to believe leaves out one
checkpoint at a time and takes Student-t with n - 1 degrees of freedom (the jackknife, CV3 of MacKinnon, Nielsen
and Webb, "Fast and reliable jackknife and bootstrap methods for cluster-robust inference", Journal of Applied
Econometrics 2023).

The crossing is a ratio. Its interval is Fieller's: the returns at which the fitted dR is not distinguishable from
0.

`within` is the slope at a fixed place in the stream: do checkpoints that do well there lose, or only moments at
which all of them do well?
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from jaxtyping import Float
from scipy import stats

from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.read.prefork import ForkCodes, ForkValues
from worldfork.analysis.score.clusters import partition, strata
from worldfork.analysis.score.intervals import fieller, jackknife, middle_95, times_drawn
from worldfork.analysis.score.undefined import Bounds, Figure, Interval, Undefined, undefined


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bin:
    """Mean dR of the forks with low <= r_hold < high; None is an open end."""

    low: float | None
    high: float | None
    forks: int
    mean: Figure
    standard_error: Figure


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitHalf:
    """The second half of HOLD's episodes on the first: what measurement error alone would show."""

    slope: Figure
    variance_ratio: Figure


@dataclasses.dataclass(frozen=True, kw_only=True)
class SlopeEstimate:
    """A figure of a fit with both intervals over checkpoints."""

    value: Figure
    bootstrap: Bounds
    student_t: Bounds
    clusters: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Contraction:
    """r_update on r_hold."""

    slope: Figure
    slope_interval: Bounds  # Student-t over checkpoints left out one at a time (slopes.py)
    slope_bootstrap: Bounds  # percentile, over resampled checkpoints
    intercept: Figure
    crossing: Figure
    crossing_interval: Bounds  # Fieller's
    crossing_bootstrap: Bounds
    variance_ratio: Figure
    variance_ratio_interval: Bounds
    variance_ratio_bootstrap: Bounds
    clusters: int
    within: SlopeEstimate  # the slope at a fixed (direction, k): between checkpoints, not between moments
    bins: tuple[Bin, ...] | Undefined
    split_half: SplitHalf


@dataclasses.dataclass(frozen=True, kw_only=True)
class Line:
    """Least squares of y on x over all forks."""

    slope: SlopeEstimate
    crossing: SlopeEstimate
    variance_ratio: SlopeEstimate


FLAT: Final = 1e-12  # a spread of r_hold below this share of its square is none


def line(x: ForkValues, y: ForkValues, checkpoint: ForkCodes, *, seed: int, task: str) -> Line:
    """Return slope, crossing with y = x, and var(y) / var(x)."""
    centre = float(x.mean()) if len(x) else 0.0
    sums = _sums(x - centre, y - centre, checkpoint)
    slope, ratio, crossing = _fit(sums.sum(axis=0)[None])
    count = len(sums)
    drawn = _fit(times_drawn(count, seed, task) @ sums) if count > 1 else (np.zeros(0),) * 3
    left_out = _fit(sums.sum(axis=0) - sums)
    return Line(
        slope=_estimate(slope, drawn[0], _jackknife(slope, left_out[0]), count),
        variance_ratio=_estimate(ratio, drawn[1], _jackknife(ratio, left_out[1]), count),
        crossing=_estimate(crossing + centre, drawn[2] + centre, _fieller(sums, centre), count),
    )


def within(x: ForkValues, y: ForkValues, stratum: ForkCodes, checkpoint: ForkCodes) -> SlopeEstimate:
    """Return the slope over forks of one (direction, k), pooled: each place has a mean of its own."""

    centre = float(x.mean()) if len(x) else 0.0
    places = _sums(x - centre, y - centre, stratum)
    _, owner = np.unique(checkpoint, return_inverse=True)
    _, place = np.unique(stratum, return_inverse=True)
    group = strata(owner, place)
    groups = _sums(x - centre, y - centre, group)
    first = np.unique(group, return_index=True)[1]
    owner, place = owner[first], place[first]  # of each group
    # Leaving a checkpoint out changes the places where it has forks, and no other.
    changed = _spread(places[place] - groups) - _spread(places)[place]
    whole = _spread(places).sum(axis=0)
    left = np.stack([whole[i] + np.bincount(owner, weights=changed[:, i]) for i in (0, 1)], axis=1)
    flat_below = FLAT * max(float(np.dot(x - centre, x - centre)), float(np.finfo(float).tiny))
    value, left_out = (_ratio(np.atleast_2d(sums), flat_below) for sums in (whole, left))
    checkpoints = np.unique(checkpoint)
    no_bootstrap = Undefined("a resampled checkpoint would be compared with itself at every place")
    flat = Undefined("r_hold does not vary over the checkpoints at any place")
    return SlopeEstimate(
        value=flat if np.isnan(value[0]) else float(value[0]),
        bootstrap=no_bootstrap,
        student_t=flat if np.isnan(value[0]) else _jackknife(value, left_out),
        clusters=len(checkpoints),
    )


def _spread(sums: Float[np.ndarray, "groups six"]) -> Float[np.ndarray, "groups 2"]:
    """Sum of squares of x about the mean of its group, and of products with y."""
    n = np.maximum(sums[:, 0], 1.0)
    return np.stack([sums[:, 3] - sums[:, 1] ** 2 / n, sums[:, 4] - sums[:, 1] * sums[:, 2] / n], axis=1)


def _ratio(spread: Float[np.ndarray, "fits 2"], flat_below: float) -> Float[np.ndarray, "fits"]:
    """Return the slope of each fit; NaN where x does not vary."""
    varies = spread[:, 0] > flat_below
    return np.divide(spread[:, 1], spread[:, 0], out=np.full(len(spread), np.nan), where=varies)


def _sums(x: np.ndarray, y: np.ndarray, checkpoint: np.ndarray) -> Float[np.ndarray, "clusters six"]:
    """Return six sums per checkpoint, which are all that a fit needs."""
    _, owner = np.unique(checkpoint, return_inverse=True)
    terms = (np.ones(len(x)), x, y, x * x, x * y, y * y)
    return np.stack([np.bincount(owner, weights=term) for term in terms], axis=1).astype(np.float64)


def _fit(sums: Float[np.ndarray, "fits six"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return slope, variance ratio and crossing of each fit; NaN where x does not vary."""
    n, sx, sy, sxx, sxy, syy = sums.T
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = sxx - sx * sx / n
        spread = np.where(spread > FLAT * np.maximum(sxx, np.finfo(float).tiny), spread, np.nan)
        slope = (sxy - sx * sy / n) / spread
        crossing = (sy - slope * sx) / n / np.where(np.abs(1 - slope) < FLAT, np.nan, 1 - slope)
        return slope, (syy - sy * sy / n) / spread, crossing


def _estimate(value: np.ndarray, drawn: np.ndarray, student_t: Bounds, clusters: int) -> SlopeEstimate:
    if np.isnan(value[0]):
        why = Undefined("r_hold does not vary over these forks, or the fit runs beside the identity")
        return undefined(SlopeEstimate, why, clusters=clusters)
    defined = drawn[~np.isnan(drawn)]
    bootstrap: Bounds = Undefined("a bootstrap over checkpoints needs at least two of them")
    if len(defined):
        bootstrap = Interval(*middle_95(defined).tolist())
    return SlopeEstimate(value=float(value[0]), bootstrap=bootstrap, student_t=student_t, clusters=clusters)


def _jackknife(value: Float[np.ndarray, "1"], left_out: Float[np.ndarray, "checkpoints"]) -> Bounds:
    return _no_jackknife(left_out) or jackknife(float(value[0]), left_out - value)


def _no_jackknife(left_out: Float[np.ndarray, "*some checkpoints"]) -> Undefined | None:
    """Return why leaving checkpoints out gives no interval, if it gives none."""
    if (count := left_out.shape[-1]) < 3:
        return Undefined(f"leaving a checkpoint out needs at least three of them, and there are {count}")
    return Undefined("without one of the checkpoints there is no fit") if np.isnan(left_out).any() else None


def _fieller(sums: Float[np.ndarray, "checkpoints six"], centre: float) -> Bounds:
    """Return the x at which |a + b x| <= t se(a + b x), for the line a + b x of dR."""

    def coefficients(fits: np.ndarray) -> np.ndarray:
        slope = _fit(fits)[0]
        return np.stack([(fits[:, 2] - slope * fits[:, 1]) / fits[:, 0], slope - 1])

    count, whole = len(sums), coefficients(sums.sum(axis=0)[None])
    away = coefficients(sums.sum(axis=0) - sums) - whole if count > 1 else np.zeros((2, count))
    if why := _no_jackknife(away):
        return why
    spread = (count - 1) / count * away @ away.T * float(stats.t.ppf(0.975, count - 1)) ** 2
    a, b = whole[:, 0]
    found = fieller(b**2 - spread[1, 1], -(a * b - spread[0, 1]), a * a - spread[0, 0])
    if found is None:
        return Undefined("the slope is not distinguishable from 1, so that the crossing may lie anywhere")
    return Interval(found.low + centre, found.high + centre)


# The paper's edges, where a registration does not say otherwise.
EDGES: Final = dict.fromkeys(("cartpole", "cartpole-swingup"), (350.0, 450.0, 550.0, 650.0))


def contraction(forks: Forks, *, seed: int, edges: Sequence[float] | None = None) -> Contraction:
    """Return slope, crossing and variance ratio with intervals over checkpoints, bins, and the split-half null."""
    hold, update, parts = forks.outcomes.r_hold, forks.outcomes.r_update, partition(forks.prefork)
    fit = line(hold, update, parts.checkpoint, seed=seed, task=forks.task)
    slope, ratio = _line(hold, update)
    intercept: Figure = slope
    crossing: Figure = slope
    if not isinstance(slope, Undefined):
        intercept = float(update.mean()) - slope * float(hold.mean())
        crossing = Undefined("the slope is 1: the fit runs beside the identity and never crosses it")
        if abs(1 - slope) >= FLAT:
            crossing = intercept / (1 - slope)
    return Contraction(
        slope=slope,
        intercept=intercept,
        slope_interval=fit.slope.student_t,
        slope_bootstrap=fit.slope.bootstrap,
        crossing=crossing,
        crossing_interval=fit.crossing.student_t,
        crossing_bootstrap=fit.crossing.bootstrap,
        variance_ratio=ratio,
        variance_ratio_interval=fit.variance_ratio.student_t,
        variance_ratio_bootstrap=fit.variance_ratio.bootstrap,
        clusters=fit.slope.clusters,
        within=within(hold, update, strata(parts.direction, forks.prefork.k), parts.checkpoint),
        bins=_bins(forks, EDGES.get(forks.task) if edges is None else edges),
        split_half=_split_half(forks.outcomes.hold),
    )


def _line(x: ForkValues, y: ForkValues) -> tuple[Figure, Figure]:
    """Return the slope of y on x, and var(y) / var(x)."""
    if len(x) < 2 or np.ptp(x) == 0:
        why = Undefined("r_hold does not vary over these forks" if len(x) > 1 else "it needs at least two forks")
        return why, why
    dx, dy = x - x.mean(), y - y.mean()
    return float(dx @ dy / (dx @ dx)), float(dy @ dy / (dx @ dx))


def _bins(forks: Forks, edges: Sequence[float] | None) -> tuple[Bin, ...] | Undefined:
    """Return mean dR by r_hold: [low, high), open at both ends; without registered edges, the quintiles."""
    hold, delta = forks.outcomes.r_hold, forks.delta
    if not len(hold):
        return Undefined("there are no forks")
    inner = np.quantile(hold, [0.2, 0.4, 0.6, 0.8]) if edges is None else np.asarray(edges, dtype=np.float64)
    which = np.searchsorted(inner, hold, side="right")
    bounds = [None, *(float(edge) for edge in inner), None]
    bins = []
    for index in range(len(inner) + 1):
        inside = delta[which == index]
        few = Undefined("a standard error needs at least two forks")
        bins.append(
            Bin(
                low=bounds[index],
                high=bounds[index + 1],
                forks=len(inside),
                mean=float(inside.mean()) if len(inside) else Undefined("no fork has such an r_hold"),
                standard_error=float(inside.std(ddof=1)) / math.sqrt(len(inside)) if len(inside) > 1 else few,
            )
        )
    return tuple(bins)


def _split_half(hold: Float[np.ndarray, "forks episodes"] | None) -> SplitHalf:
    """Return the regression of HOLD's second half of episodes on its first: measurement error and no update."""
    if hold is None or hold.shape[1] < 2:
        why = Undefined("it needs at least two HOLD episodes per fork, in the lists `hold` and `update`")
        return undefined(SplitHalf, why)
    half = hold.shape[1] // 2
    whole = ~np.isnan(hold).any(axis=1)
    slope, ratio = _line(hold[whole, :half].mean(axis=1), hold[whole, half:].mean(axis=1))
    return SplitHalf(slope=slope, variance_ratio=ratio)
