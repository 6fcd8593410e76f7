"""Mean dR along drift, and along what HOLD still returns, with a band that holds at every place at once.

A mean over a schedule is not the value of a rule: it says what updating is worth on this schedule. The curve says
where. Its band is mean +- c standard errors, where c is the 95% quantile of the largest studentised deviation over
all places in resampled checkpoints.
"""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.read.prefork import ForkFlags, ForkValues
from worldfork.analysis.score.clusters import group_means, partition
from worldfork.analysis.score.intervals import around, difference_t, times_drawn
from worldfork.analysis.score.undefined import Bounds, Figure, Undefined


@dataclasses.dataclass(frozen=True, kw_only=True)
class FreshSeverity:
    """The forks of a bin, where half of the episodes say how severe it is and the others what updating was
    worth."""

    mean: Figure  # over checkpoints, of what either half placed here
    student_t: Bounds  # of that
    forks_by_even: int  # that the even episodes place here; the odd ones say what updating was worth
    forks_by_odd: int  # the reverse: a fork can be in both, or in different classes
    checkpoints: int  # that have such forks by either half


@dataclasses.dataclass(frozen=True, kw_only=True)
class Severity:
    """The forks with low <= r_hold / clean return < high; None is an open end."""

    low: float | None
    high: float | None
    forks: int
    checkpoints: int  # that have such forks: the interval rests on these
    helped: int
    mean: Figure  # over forks
    checkpoint_mean: Figure  # over checkpoints, of the mean over their forks here
    student_t: Bounds  # of that
    fresh: FreshSeverity | Undefined


@dataclasses.dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """Mean dR of the forks between two ends, by checkpoint."""

    low: float | None
    high: float | None
    forks: int
    checkpoints: int
    mean: Figure
    student_t: Bounds  # for this place alone
    band: Bounds  # for all places at once


@dataclasses.dataclass(frozen=True, kw_only=True)
class Curve:
    """Mean dR along something, with a simultaneous 95% band."""

    points: tuple[CurvePoint, ...]
    critical: Figure  # standard errors that the band reaches to each side


@dataclasses.dataclass(frozen=True, kw_only=True)
class Curves:
    """Mean dR along the drift level, and along the share of the clean return that HOLD still has."""

    level: Curve | Undefined
    halves: tuple[CurvePoint, ...] | Undefined  # below half of the largest level, and from there on
    hold_share: Curve | Undefined  # placed by half of the episodes and valued by the others


Ends = tuple[float | None, float | None]
SEVERITY_EDGES: Final = (0.5, 0.75, 0.95)  # of r_hold / clean return, where a registration does not say otherwise


@dataclasses.dataclass(frozen=True)
class Halves:
    """Forks placed among the edges by one half of their episodes and valued by the other half: the even ones place
    first, then the odd ones."""

    place: Int[np.ndarray, "2 whole"]
    worth: Float[np.ndarray, "2 whole"]
    checkpoint: Int[np.ndarray, "whole"]

    def means(self, place: int, count: int) -> Float[np.ndarray, "{count}"]:
        """Return the mean of either half's mean of each checkpoint, or of the one there is; NaN without any.

        All forks of both halves pooled would lean the other way: a fork that the valuing half would have placed
        here too would count once more, in the denominator, and so weigh less than one that it would not have.
        """
        here = self.place == place
        by_half = np.array([
            group_means(self.worth[half][here[half]], self.checkpoint[here[half]], count) for half in (0, 1)
        ])  # fmt: skip
        means, there = np.full(count, np.nan), ~np.isnan(by_half).all(axis=0)
        means[there] = np.nanmean(by_half[:, there], axis=0)
        return means


def place_by_halves(forks: Forks, clean: ForkValues, edges: Sequence[float]) -> Halves | Undefined:
    """Return the forks that have all of their episodes, placed by HOLD's share of the clean return."""
    hold, update = forks.outcomes.hold, forks.outcomes.update
    if hold is None or update is None or hold.shape[1] < 2:
        return Undefined("it needs at least two episodes per fork, in the lists `hold` and `update`")
    whole = ~(np.isnan(hold) | np.isnan(update)).any(axis=1)
    if not whole.any():
        return Undefined("no fork has all of its episodes")
    held, delta = hold[whole], (update - hold)[whole] - forks.outcomes.cost
    shares = np.array([held[:, half::2].mean(axis=1) / clean[whole] for half in (0, 1)])
    return Halves(
        place=np.searchsorted(np.asarray(edges, dtype=np.float64), shares, side="right"),
        worth=np.array([delta[:, 1 - half :: 2].mean(axis=1) for half in (0, 1)]),
        checkpoint=partition(forks.prefork).checkpoint[whole],
    )


def severity(
    forks: Forks, clean: ForkValues, *, edges: Sequence[float] = SEVERITY_EDGES
) -> tuple[Severity, ...] | Undefined:
    """Return every bin, the most severe first. `clean` is the clean return of each fork's checkpoint."""
    if not len(forks):
        return Undefined("there are no forks")
    if np.isnan(clean).any():
        return Undefined("the ledger does not say the clean return of every checkpoint")
    if (clean <= 0).any():
        return Undefined("a checkpoint's clean return is not positive, so a share of it means nothing")
    inside = np.searchsorted(np.asarray(edges, dtype=np.float64), forks.outcomes.r_hold / clean, side="right")
    halves = place_by_halves(forks, clean, edges)
    return tuple(
        _bin(forks, inside == index, bounds, halves if isinstance(halves, Undefined) else (halves, index))
        for index, bounds in enumerate(_between(edges))
    )


def _between(edges: Sequence[float]) -> list[Ends]:
    return list(itertools.pairwise([None, *(float(edge) for edge in edges), None]))


def _bin(forks: Forks, inside: ForkFlags, bounds: Ends, halves: tuple[Halves, int] | Undefined) -> Severity:
    here, parts = forks.delta[inside], partition(forks.prefork)
    nothing = Undefined("no fork is so severe" if bounds[1] is not None else "no fork is so mild")
    means = group_means(here, parts.checkpoint[inside], len(parts.checkpoints))
    means = means[~np.isnan(means)]
    return Severity(
        low=bounds[0],
        high=bounds[1],
        forks=len(here),
        checkpoints=len(means),
        helped=int((here > 0).sum()),
        mean=float(here.mean()) if len(here) else nothing,
        checkpoint_mean=float(means.mean()) if len(here) else nothing,
        student_t=difference_t(means),
        fresh=halves
        if isinstance(halves, Undefined)
        else _fresh(*halves, count=len(parts.checkpoints), nothing=nothing),
    )


def _fresh(halves: Halves, index: int, *, count: int, nothing: Undefined) -> FreshSeverity:
    means = halves.means(index, count)
    means = means[~np.isnan(means)]
    by_even, by_odd = (halves.place == index).sum(axis=1).tolist()
    return FreshSeverity(
        mean=float(means.mean()) if len(means) else nothing,
        student_t=difference_t(means),
        forks_by_even=by_even,
        forks_by_odd=by_odd,
        checkpoints=len(means),
    )


PLACES: Final = 8  # of a curve over drift: runs of levels, as equal as possible
FEWEST: Final = 8  # checkpoints; with fewer a band is too wide to be of use


def curves(forks: Forks, clean: ForkValues, *, edges: Sequence[float], seed: int) -> Curves:
    """Return the curve over drift levels, both halves of them, and the curve over HOLD's share of the clean return.

    Args:
        forks: all attempted forks.
        clean: the clean return of each fork's checkpoint, NaN where it is not known.
        edges: between the places of the second curve, as registered for severity.
        seed: of the resampled checkpoints.
    """
    shares = _over_share(forks, clean, edges, seed=seed)
    level = forks.prefork.level
    if np.isnan(level).any():
        missing = Undefined(f"{int(np.isnan(level).sum())} of {len(level)} forks have no drift level")
        return Curves(level=missing, halves=missing, hold_share=shares)
    distinct = np.unique(np.round(level, 9))
    runs = np.array_split(distinct, min(PLACES, len(distinct)))
    middle = 0.5 * float(distinct[-1])
    halves = [half for half in (distinct[distinct < middle], distinct[distinct >= middle]) if len(half)]
    alone = Undefined("each half stands for itself")
    return Curves(
        level=_curve([_at_levels(forks, run) for run in runs], forks.task, seed=seed),
        halves=tuple(_point(_at_levels(forks, half), alone) for half in halves),
        hold_share=shares,
    )


class Here(NamedTuple):
    """The forks at one place of a curve."""

    means: Float[np.ndarray, "checkpoints"]
    forks: int
    ends: Ends


def _at_levels(forks: Forks, levels: Float[np.ndarray, "levels"]) -> Here:
    """Return the means over cells, then checkpoints, of the forks at these levels."""
    here = forks.take(np.isin(np.round(forks.prefork.level, 9), levels))
    parts = partition(here.prefork)
    means = parts.checkpoint_means(parts.cell_means(here.delta))
    return Here(means, len(here), (float(levels[0]), float(levels[-1])))


def _over_share(forks: Forks, clean: ForkValues, edges: Sequence[float], *, seed: int) -> Curve | Undefined:
    """Return the curve over what HOLD still returns. Half of the episodes place a fork, the others value it."""
    if np.isnan(clean).any() or (clean <= 0).any():
        return Undefined("the ledger does not say a positive clean return of every checkpoint")
    halves = place_by_halves(forks, clean, edges)
    if isinstance(halves, Undefined):
        return halves
    count = len(partition(forks.prefork).checkpoints)
    places = [
        Here(halves.means(place, count), int((halves.place == place).sum()), ends)
        for place, ends in enumerate(_between(edges))
    ]
    return _curve(places, forks.task, seed=seed)


def _curve(places: Sequence[Here], task: str, *, seed: int) -> Curve:
    critical = critical_value(np.array([place.means for place in places]), seed=seed, task=task)
    return Curve(critical=critical, points=tuple(_point(place, critical) for place in places))


def _point(place: Here, critical: Figure) -> CurvePoint:
    there = place.means[~np.isnan(place.means)]
    mean: Figure = float(there.mean()) if len(there) else Undefined("no fork is here")
    band: Bounds = (
        critical if isinstance(critical, Undefined) else Undefined("too few checkpoints have a fork here")
    )
    if not isinstance(critical, Undefined) and not isinstance(mean, Undefined) and len(there) >= FEWEST:
        band = around(there, critical)
    return CurvePoint(
        low=place.ends[0],
        high=place.ends[1],
        forks=place.forks,
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
    counts = times_drawn(means.shape[1], seed, task)
    size, total, squares = counts @ there.T, counts @ values.T, counts @ (values**2).T
    with np.errstate(invalid="ignore", divide="ignore"):
        mean, square = total / size, squares / size
        variance = square - mean**2
        deviation = np.abs(mean) / np.sqrt(variance / (size - 1))
    enough = (size >= 2) & (variance > 1e-12 * square)
    return float(np.quantile(np.where(enough, deviation, 0.0).max(axis=1), 0.95))
