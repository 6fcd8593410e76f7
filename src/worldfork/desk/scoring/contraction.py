"""Does updating pull returns toward a point (paper, "Why the update's value varies")?

Least squares of r_update on r_hold, the return at which the fit crosses the identity, and the ratio of variances; a
contraction must shrink the spread. The split-half null asks how much of that HOLD's own episodes would show.
"""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from jaxtyping import Float

from worldfork.desk.reading.outcomes import Forks
from worldfork.desk.scoring.draws import figure_draws
from worldfork.desk.scoring.records import Bin, Contraction, SplitHalf
from worldfork.desk.scoring.undefined import Bounds, Figure, Interval, Undefined

__all__ = ["EDGES", "contraction"]

RESAMPLES: Final = 20_000
CHUNK: Final = 1 << 20
# The paper's edges, where a registration does not say otherwise.
EDGES: Final = dict.fromkeys(("cartpole", "cartpole-swingup"), (350.0, 450.0, 550.0, 650.0))


def contraction(forks: Forks, *, seed: int, edges: Sequence[float] | None = None) -> Contraction:
    """Slope, crossing and variance ratio with cell-cluster bootstrap intervals, bins, and the split-half null."""
    hold, update = forks.outcomes.r_hold, forks.outcomes.r_update
    slope, ratio = _line(hold, update)
    slope_interval, ratio_interval = (slope, slope) if isinstance(slope, Undefined) else _resampled(forks, seed)
    return Contraction(
        slope=slope,
        slope_interval=slope_interval,
        crossing=_crossing(slope, hold, update),
        variance_ratio=ratio,
        variance_ratio_interval=ratio_interval,
        bins=_bins(forks, EDGES.get(forks.task) if edges is None else edges),
        split_half=_split_half(forks.outcomes.hold),
    )


def _line(x: Float[np.ndarray, "forks"], y: Float[np.ndarray, "forks"]) -> tuple[Figure, Figure]:
    """Slope of y on x, and var(y) / var(x)."""
    if len(x) < 2 or np.ptp(x) == 0:
        why = Undefined("r_hold does not vary over these forks" if len(x) > 1 else "it needs at least two forks")
        return why, why
    dx, dy = x - x.mean(), y - y.mean()
    return float(dx @ dy / (dx @ dx)), float(dy @ dy / (dx @ dx))


def _crossing(slope: Figure, x: Float[np.ndarray, "forks"], y: Float[np.ndarray, "forks"]) -> Figure:
    if isinstance(slope, Undefined):
        return slope
    intercept = float(y.mean()) - slope * float(x.mean())
    if abs(1 - slope) < 1e-12:
        return Undefined("the slope is 1: the fit runs beside the identity and never crosses it")
    return intercept / (1 - slope)


def _resampled(forks: Forks, seed: int) -> tuple[Bounds, Bounds]:
    """Whole cells are resampled; six sums per cell are all that a fit needs."""
    x = forks.outcomes.r_hold - forks.outcomes.r_hold.mean()
    y = forks.outcomes.r_update - forks.outcomes.r_update.mean()
    _, cell = np.unique(forks.prefork.cell, return_inverse=True)
    terms = [np.ones(len(x)), x, y, x * x, x * y, y * y]
    sums = np.stack([np.bincount(cell, weights=term) for term in terms], axis=1)
    cells = len(sums)
    if cells < 2:
        why = Undefined("a bootstrap over cells needs at least two of them")
        return why, why
    draws = figure_draws("contraction", seed=seed, task=forks.task)
    slopes, ratios = np.empty(RESAMPLES), np.empty(RESAMPLES)
    rows = max(1, CHUNK // cells)
    for start in range(0, RESAMPLES, rows):
        stop = min(start + rows, RESAMPLES)
        drawn = draws.integers(0, cells, (stop - start, cells)) + cells * np.arange(stop - start)[:, None]
        times = np.bincount(drawn.ravel(), minlength=drawn.size).reshape(drawn.shape)
        n, sx, sy, sxx, sxy, syy = (times.astype(np.float64) @ sums).T
        spread = sxx - sx * sx / n
        # A resample of cells whose forks all have one r_hold has no slope.
        defined = spread > 1e-12 * np.maximum(sxx, np.finfo(float).tiny)
        spread = np.where(defined, spread, np.nan)
        slopes[start:stop] = (sxy - sx * sy / n) / spread
        ratios[start:stop] = (syy - sy * sy / n) / spread
    return _interval(slopes), _interval(ratios)


def _interval(values: Float[np.ndarray, "resamples"]) -> Bounds:
    known = values[~np.isnan(values)]
    if not len(known):
        return Undefined("r_hold does not vary in any resample of cells")
    low, high = np.quantile(known, [0.025, 0.975])
    return Interval(float(low), float(high))


def _bins(forks: Forks, edges: Sequence[float] | None) -> tuple[Bin, ...] | Undefined:
    """Mean dR by r_hold: [low, high), open at both ends; without registered edges, the quintiles."""
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
    """The second half of HOLD's episodes regressed on the first: measurement error and no update."""
    if hold is None or hold.shape[1] < 2:
        why = Undefined("it needs at least two HOLD episodes per fork, in the lists `hold` and `update`")
        return SplitHalf(slope=why, variance_ratio=why)
    half = hold.shape[1] // 2
    whole = ~np.isnan(hold).any(axis=1)
    slope, ratio = _line(hold[whole, :half].mean(axis=1), hold[whole, half:].mean(axis=1))
    return SplitHalf(slope=slope, variance_ratio=ratio)
