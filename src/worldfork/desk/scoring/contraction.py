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
from worldfork.desk.scoring import position, slopes
from worldfork.desk.scoring.partition import partition
from worldfork.desk.scoring.records import Bin, Contraction, SplitHalf
from worldfork.desk.scoring.undefined import Figure, Undefined

__all__ = ["EDGES", "contraction"]

# The paper's edges, where a registration does not say otherwise.
EDGES: Final = dict.fromkeys(("cartpole", "cartpole-swingup"), (350.0, 450.0, 550.0, 650.0))


def contraction(forks: Forks, *, seed: int, edges: Sequence[float] | None = None) -> Contraction:
    """Slope, crossing and variance ratio with intervals over checkpoints, bins, and the split-half null."""
    hold, update, parts = forks.outcomes.r_hold, forks.outcomes.r_update, partition(forks.prefork)
    fit = slopes.line(hold, update, parts.checkpoint, seed=seed, task=forks.task)
    slope, ratio = _line(hold, update)
    place = position.strata(parts.direction, forks.prefork.k)
    return Contraction(
        slope=slope,
        slope_interval=fit.slope.student_t,
        slope_bootstrap=fit.slope.bootstrap,
        crossing=_crossing(slope, hold, update),
        crossing_interval=fit.crossing.student_t,
        crossing_bootstrap=fit.crossing.bootstrap,
        variance_ratio=ratio,
        variance_ratio_interval=fit.variance_ratio.student_t,
        variance_ratio_bootstrap=fit.variance_ratio.bootstrap,
        clusters=fit.slope.clusters,
        within=slopes.within(hold, update, place, parts.checkpoint),
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
