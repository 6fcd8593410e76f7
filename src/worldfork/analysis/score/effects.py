"""Mean dR of a task, by direction, drift and severity (paper, "A fixed update rule loses return on all three
tasks")."""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy import stats

from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.score import intervals
from worldfork.analysis.score.clusters import group_means, partition
from worldfork.analysis.score.intervals import SIGNIFICANT, difference_t, sign_flip_p, student_p
from worldfork.analysis.score.judgement import Equivalence, FreshSeverity, Severity
from worldfork.analysis.score.records import Effect, Intervals, MeanEstimate
from worldfork.analysis.score.skew import skew
from worldfork.analysis.score.undefined import Figure, Interval, Undefined
from worldfork.errors import WorldforkError


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
            bootstrap=intervals.no_spread(known_means)
            or intervals.bootstrap(known_means, seed=seed, task=forks.task),
            student_t=intervals.difference_t(known_means),
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
    alike = intervals.no_spread(checkpoint_means)
    return MeanEstimate(
        mean=_mean(checkpoint_means),
        bootstrap=alike or intervals.bootstrap(checkpoint_means, seed=seed, task=task),
        student_t=intervals.difference_t(checkpoint_means),
        mde=alike or intervals.detectable(checkpoint_means),
        p_student_t=student_p(checkpoint_means),
        p_sign_flip=sign_flip_p(checkpoint_means, seed=seed, task=task),
        skew=skew(checkpoint_means),
    )


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


SEVERITY_EDGES: Final = (0.5, 0.75, 0.95)  # of r_hold / clean return, where a registration does not say otherwise


class Half(NamedTuple):
    """Every fork placed by one half of its episodes and valued by the other half."""

    severity: Int[np.ndarray, "whole"]
    worth: Float[np.ndarray, "whole"]
    checkpoint: Int[np.ndarray, "whole"]


def severity(
    r_hold: Float[np.ndarray, "forks"],
    delta: Float[np.ndarray, "forks"],
    clean: Float[np.ndarray, "forks"],
    checkpoint: Int[np.ndarray, "forks"],
    *,
    edges: Sequence[float] = SEVERITY_EDGES,
    hold: Float[np.ndarray, "forks episodes"] | None = None,
    update: Float[np.ndarray, "forks episodes"] | None = None,
    cost: float = 0.0,
) -> tuple[Severity, ...] | Undefined:
    """Return every bin, the most severe first. `clean` is the clean return of each fork's checkpoint."""
    if not len(delta):
        return Undefined("there are no forks")
    if np.isnan(clean).any():
        return Undefined("the ledger does not say the clean return of every checkpoint")
    if (clean <= 0).any():
        return Undefined("a checkpoint's clean return is not positive, so a share of it means nothing")
    inner = np.asarray(edges, dtype=np.float64)
    inside = np.searchsorted(inner, r_hold / clean, side="right")
    halves = halves_of(hold, update, clean, checkpoint, inner, cost=cost)
    bounds = [None, *(float(edge) for edge in inner), None]
    return tuple(
        _bin(bounds[index], bounds[index + 1], delta, checkpoint, inside == index, halves, index)
        for index in range(len(inner) + 1)
    )


def _bin(
    low: float | None,
    high: float | None,
    delta: Float[np.ndarray, "forks"],
    checkpoint: Int[np.ndarray, "forks"],
    inside: np.ndarray,
    halves: tuple[Half, Half] | Undefined,
    index: int,
) -> Severity:
    here = delta[inside]
    nothing = Undefined("no fork is so severe" if high is not None else "no fork is so mild")
    by_checkpoint = group_means(here, checkpoint[inside], int(checkpoint.max()) + 1)
    by_checkpoint = by_checkpoint[~np.isnan(by_checkpoint)]
    return Severity(
        low=low,
        high=high,
        forks=len(here),
        checkpoints=len(by_checkpoint),
        helped=int((here > 0).sum()),
        mean=float(here.mean()) if len(here) else nothing,
        checkpoint_mean=float(by_checkpoint.mean()) if len(here) else nothing,
        student_t=difference_t(by_checkpoint),
        fresh=halves if isinstance(halves, Undefined) else _fresh(halves, index, nothing),
    )


def _fresh(halves: tuple[Half, Half], index: int, nothing: Undefined) -> FreshSeverity:
    """Return the mean over checkpoints of either half's mean, or of the one there is.

    All forks of both halves pooled would lean the other way: a fork that the valuing half would have placed here
    too would count once more, in the denominator, and so weigh less than one that it would not have.
    """
    groups = 1 + max(int(half.checkpoint.max()) for half in halves)
    chosen = [half.severity == index for half in halves]
    means = np.array([
        group_means(half.worth[here], half.checkpoint[here], groups)
        for half, here in zip(halves, chosen, strict=True)
    ])  # fmt: skip
    by_checkpoint = np.nanmean(means[:, ~np.isnan(means).all(axis=0)], axis=0)
    even, odd = (int(here.sum()) for here in chosen)
    return FreshSeverity(
        mean=float(by_checkpoint.mean()) if len(by_checkpoint) else nothing,
        student_t=difference_t(by_checkpoint),
        forks_by_even=even,
        forks_by_odd=odd,
        checkpoints=len(by_checkpoint),
    )


def halves_of(
    hold: Float[np.ndarray, "forks episodes"] | None,
    update: Float[np.ndarray, "forks episodes"] | None,
    clean: Float[np.ndarray, "forks"],
    checkpoint: Int[np.ndarray, "forks"],
    inner: Float[np.ndarray, "edges"],
    *,
    cost: float = 0.0,
) -> tuple[Half, Half] | Undefined:
    """Return the forks with all of their episodes, placed by the even ones and valued by the odd ones, and the
    reverse."""
    if hold is None or update is None or hold.shape[1] < 2:
        return Undefined("it needs at least two episodes per fork, in the lists `hold` and `update`")
    whole = ~(np.isnan(hold) | np.isnan(update)).any(axis=1)
    if not whole.any():
        return Undefined("no fork has all of its episodes")
    held, delta, clean = hold[whole], (update - hold)[whole] - cost, clean[whole]

    def half(deciding: int) -> Half:
        share = held[:, deciding::2].mean(axis=1) / clean
        worth = delta[:, 1 - deciding :: 2].mean(axis=1)
        return Half(np.searchsorted(inner, share, side="right"), worth, checkpoint[whole])

    return half(0), half(1)


CONFIDENCE: Final = 1 - 2 * SIGNIFICANT


def equivalence(values: Float[np.ndarray, "clusters"], *, margin: float) -> Equivalence:
    """Return whether a mean is equivalent to 0 (|mean| < margin by both one-sided tests at 5%), different (the 90%
    interval lies outside the margin altogether), or not shown to be either."""
    if not margin > 0:
        raise WorldforkError(f"An equivalence margin is above 0; got {margin:g}. Register how much would matter.")
    if len(values) < 2:
        why = Undefined(f"two one-sided tests need at least two checkpoints, and there are {len(values)}")
        mean: Figure = float(values.mean()) if len(values) else why
        return Equivalence(
            margin=margin,
            mean=mean,
            interval=why,
            p=why,
            least_margin=why,
            clusters=len(values),
            answer="not shown",
        )
    centre, error, freedom = (
        float(values.mean()),
        float(values.std(ddof=1)) / math.sqrt(len(values)),
        len(values) - 1,
    )
    half = float(stats.t.ppf(1 - SIGNIFICANT, freedom)) * error
    low, high = centre - half, centre + half
    if error > 0:
        p = float(stats.t.sf((margin - abs(centre)) / error, freedom))
    else:
        p = 0.0 if abs(centre) < margin else 1.0
    outside = low > margin or high < -margin
    return Equivalence(
        margin=margin,
        mean=centre,
        interval=Interval(low, high),
        p=p,
        least_margin=max(abs(low), abs(high)),
        clusters=len(values),
        answer="equivalent" if p < SIGNIFICANT else "different" if outside else "not shown",
    )
