"""Mean dR along drift, and along what HOLD still returns, with a band that holds at every place at once.

A mean over a schedule is not the value of a rule: it says what updating is worth on this schedule. The curve says
where. Its band is mean +- c standard errors, where c is the 95% quantile of the largest studentised deviation over
all places in resampled checkpoints.
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from jaxtyping import Float

from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.score.clusters import group_means, partition
from worldfork.analysis.score.effects import halves_of
from worldfork.analysis.score.intervals import difference_t, times_drawn
from worldfork.analysis.score.records import Curve, CurvePoint, Curves
from worldfork.analysis.score.undefined import Bounds, Figure, Interval, Undefined

PLACES: Final = 8  # of a curve over drift: runs of levels, as equal as possible
FEWEST: Final = 8  # checkpoints; with fewer a band is too wide to be of use


def curves(forks: Forks, clean: Float[np.ndarray, "forks"], *, edges: Sequence[float], seed: int) -> Curves:
    """Return the curve over drift levels, both halves of them, and the curve over HOLD's share of the clean return.

    Args:
        forks: all attempted forks.
        clean: the clean return of each fork's checkpoint, NaN where it is not known.
        edges: between the places of the second curve, as registered for severity.
        seed: of the resampled checkpoints.
    """
    level = forks.prefork.level
    if np.isnan(level).any():
        missing = Undefined(f"{int(np.isnan(level).sum())} of {len(level)} forks have no drift level")
        return Curves(level=missing, halves=missing, hold_share=_over_share(forks, clean, edges, seed=seed))
    distinct = np.unique(np.round(level, 9))
    runs = np.array_split(distinct, min(PLACES, len(distinct)))
    middle = 0.5 * float(distinct[-1])
    below, above = distinct[distinct < middle], distinct[distinct >= middle]
    halves = [half for half in (below, above) if len(half)]
    return Curves(
        level=_curve([_at_levels(forks, run) for run in runs], [_ends(run) for run in runs], forks.task, seed=seed),
        halves=tuple(
            _point(means, count, bounds, Undefined("each half stands for itself"))
            for half in halves
            for (means, count), bounds in ((_at_levels(forks, half), _ends(half)),)
        ),
        hold_share=_over_share(forks, clean, edges, seed=seed),
    )


Means = tuple[Float[np.ndarray, "checkpoints"], int]  # of the forks at one place, and how many these are


def _ends(levels: Float[np.ndarray, "levels"]) -> tuple[float, float]:
    return float(levels[0]), float(levels[-1])


def _at_levels(forks: Forks, levels: Float[np.ndarray, "levels"]) -> Means:
    """Return the means over cells, then checkpoints, of the forks at these levels."""
    here = forks.take(np.isin(np.round(forks.prefork.level, 9), levels))
    parts = partition(here.prefork)
    return parts.checkpoint_means(parts.cell_means(here.delta)), len(here)


def _over_share(
    forks: Forks, clean: Float[np.ndarray, "forks"], edges: Sequence[float], *, seed: int
) -> Curve | Undefined:
    """Return the curve over what HOLD still returns. Half of the episodes place a fork, the others value it."""
    if np.isnan(clean).any() or (clean <= 0).any():
        return Undefined("the ledger does not say a positive clean return of every checkpoint")
    parts = partition(forks.prefork)
    inner = np.asarray(edges, dtype=np.float64)
    hold, update = forks.outcomes.hold, forks.outcomes.update
    halves = halves_of(hold, update, clean, parts.checkpoint, inner, cost=forks.outcomes.cost)
    if isinstance(halves, Undefined):
        return halves
    places: list[Means] = []
    for place in range(len(inner) + 1):
        by_half = [
            group_means(half.worth[here], half.checkpoint[here], len(parts.checkpoints))
            for half in halves
            for here in (half.severity == place,)
        ]
        there = ~np.isnan(by_half).all(axis=0)
        means = np.full(len(parts.checkpoints), np.nan)
        means[there] = np.nanmean(np.array(by_half)[:, there], axis=0)
        places.append((means, sum(int((half.severity == place).sum()) for half in halves)))
    bounds = [None, *(float(edge) for edge in inner), None]
    return _curve(places, list(itertools.pairwise(bounds)), forks.task, seed=seed)


def _curve(
    places: Sequence[Means], bounds: Iterable[tuple[float | None, float | None]], task: str, *, seed: int
) -> Curve:
    means = np.array([values for values, _ in places])
    critical = critical_value(means, seed=seed, task=task)
    return Curve(
        critical=critical,
        points=tuple(
            _point(values, count, ends, critical)
            for values, (_, count), ends in zip(means, places, bounds, strict=True)
        ),
    )


def _point(
    values: Float[np.ndarray, "checkpoints"],
    forks: int,
    bounds: tuple[float | None, float | None],
    critical: Figure,
) -> CurvePoint:
    there = values[~np.isnan(values)]
    mean: Figure = float(there.mean()) if len(there) else Undefined("no fork is here")
    band: Bounds = (
        critical if isinstance(critical, Undefined) else Undefined("too few checkpoints have a fork here")
    )
    if not isinstance(critical, Undefined) and not isinstance(mean, Undefined) and len(there) >= FEWEST:
        half = critical * float(there.std(ddof=1)) / np.sqrt(len(there))
        band = Interval(mean - half, mean + half)
    return CurvePoint(
        low=bounds[0],
        high=bounds[1],
        forks=forks,
        checkpoints=len(there),
        mean=mean,
        student_t=difference_t(there),
        band=band,
    )


def critical_value(means: Float[np.ndarray, "places checkpoints"], *, seed: int, task: str) -> Figure:
    """Return the 95% quantile of the largest studentised deviation over places in resampled checkpoints.

    A place takes part where at least eight checkpoints have a fork there. A resample in which all of them are one
    checkpoint has no spread, and says nothing.
    """
    present = ~np.isnan(means)
    rows = present.sum(axis=1) >= FEWEST
    if not rows.any():
        return Undefined(f"a band over checkpoints needs at least {FEWEST} of them")
    there = present[rows].astype(np.float64)
    whole = np.nanmean(means[rows], axis=1, keepdims=True)
    values = np.where(present[rows], means[rows] - whole, 0.0)  # deviations, whose squares lose no digits
    largest = []
    for counts in times_drawn(means.shape[1], seed, task):
        size, total, squares = counts @ there.T, counts @ values.T, counts @ (values**2).T
        with np.errstate(invalid="ignore", divide="ignore"):
            mean, square = total / size, squares / size
            variance = square - mean**2
            deviation = np.abs(mean) / np.sqrt(variance / (size - 1))
        enough = (size >= 2) & (variance > 1e-12 * square)
        largest.append(np.where(enough, deviation, 0.0).max(axis=1))
    return float(np.quantile(np.concatenate(largest), 0.95))
