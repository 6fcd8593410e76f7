"""Totals at every threshold of a signal, and of firing as often at random there.

Scoring fits one threshold per checkpoint; a reader who moves a threshold by hand asks about all of them. Sorted by
signal, each threshold fires on one value more than the next: so both nulls (docs/scoring.md) are running sums. For
one cell and one draw, dR is put in random order, and the n-th fork to fire there earns the n-th of them; in the
shifted null it earns the dR that lies a fixed number of places further around the cell.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float, Int

from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.read.prefork import ForkCodes, ForkFlags, ForkValues
from worldfork.analysis.score.decisions import between, fires, policy_total, rises
from worldfork.analysis.score.intervals import figure_draws, middle_95
from worldfork.analysis.score.permutation_nulls import p_value, reached


@dataclasses.dataclass(frozen=True)
class Sweep:
    """Rows by threshold, ascending: the first fires wherever there is a signal, the last nowhere."""

    threshold: Float[np.ndarray, "rows"]
    total: Float[np.ndarray, "rows"]
    fires: Int[np.ndarray, "rows"]
    mean: Float[np.ndarray, "rows"]  # of firing as often at random in every cell,
    low: Float[np.ndarray, "rows"]  # with its 95% interval
    high: Float[np.ndarray, "rows"]
    p: Float[np.ndarray, "rows"]
    p_shift: Float[np.ndarray, "rows"]
    of: int = 0  # how many thresholds differ; there are as many rows unless a choice was asked for


def sweep(
    signals: Mapping[str, ForkValues],
    forks: Forks,
    *,
    scored: ForkFlags,
    permutations: int,
    seed: int,
    most: int | None = None,
    also: Mapping[str, Sequence[float]] | None = None,
) -> dict[str, Sweep]:
    """Return every threshold of every signal on the `scored` forks; all signals are held against the same draws.

    `most` asks for an even choice of so many thresholds where there are more; those in `also` are among them.
    """
    kept = forks.take(scored)
    draws = _draw(kept, permutations=permutations, seed=seed)
    return {
        name: _sweep(signal[scored], kept.delta, draws, most=most, also=(also or {}).get(name, ()))
        for name, signal in signals.items()
    }


@dataclasses.dataclass(frozen=True)
class _Draws:
    """dR of every cell in random order, and by how many places each cell is shifted, with each fork's place."""

    shuffled: Float[np.ndarray, "forks draws"]
    shift: Int[np.ndarray, "cells draws"]
    cell: ForkCodes
    start: ForkCodes  # of its cell
    size: ForkCodes


def _draw(forks: Forks, *, permutations: int, seed: int) -> _Draws:
    spans = list(forks.prefork.spans())
    sizes = np.array([span.stop - span.start for _, span in spans], np.int64)
    shuffled = np.empty((len(forks), permutations))
    shift = np.empty((len(spans), permutations), np.int64)
    for turn, (index, span) in enumerate(spans):
        draws = figure_draws("thresholds", seed=seed, task=forks.task, cell=forks.prefork.cells[index])
        order = np.argsort(draws.random((sizes[turn], permutations)), axis=0)
        shuffled[span] = forks.delta[span][order]
        shift[turn] = draws.integers(0, sizes[turn], permutations)
    cell, starts = np.repeat(np.arange(len(spans)), sizes), np.cumsum(sizes) - sizes
    return _Draws(shuffled, shift, cell, starts[cell], sizes[cell])


def _sweep(
    signal: ForkValues, delta: ForkValues, draws: _Draws, *, most: int | None, also: Sequence[float]
) -> Sweep:
    defined = np.flatnonzero(~np.isnan(signal))
    order = defined[np.argsort(signal[defined], kind="stable")]
    distinct = rises(signal[order])  # values that differ by rounding alone are one
    starts = np.flatnonzero(distinct)
    middles = [between(float(signal[order[start - 1]]), float(signal[order[start]])) for start in starts[1:]]
    thresholds = np.array([-np.inf, *middles, *([np.inf] if len(order) else [])])
    chosen = _chosen(thresholds, most, also)
    rows, fired = thresholds[chosen], np.append(len(order) - starts, 0)[chosen]
    totals = np.array([policy_total(fires(signal, threshold), delta) for threshold in rows])
    firing = order[np.argsort(-np.cumsum(distinct), kind="stable")]  # as the threshold falls
    earner = _drawn(firing, draws)
    null, shifted = np.empty((len(rows), draws.shuffled.shape[1])), np.empty(len(rows), np.int64)
    earned, moved = np.zeros(null.shape[1]), np.zeros(null.shape[1])
    # From the highest threshold down, each has the sum of the one above and what its own forks add.
    for row in range(len(rows) - 1, -1, -1):
        new = slice(fired[row + 1] if row + 1 < len(rows) else 0, fired[row])
        forks = firing[new]
        earned += draws.shuffled[earner[new]].sum(axis=0)
        place = forks[:, None] - draws.start[forks, None] + draws.shift[draws.cell[forks]]
        moved += delta[draws.start[forks, None] + place % draws.size[forks, None]].sum(axis=0)
        null[row], shifted[row] = earned, reached(float(totals[row]), moved)
    low, high = middle_95(null)
    return Sweep(
        threshold=rows,
        total=totals,
        fires=fired,
        mean=null.mean(axis=1),
        low=low,
        high=high,
        p=np.array([p_value(total, row) for total, row in zip(totals, null, strict=True)]),
        p_shift=(1 + shifted) / (1 + null.shape[1]),
        of=len(thresholds),
    )


def _drawn(firing: Int[np.ndarray, "known"], draws: _Draws) -> Int[np.ndarray, "known"]:
    """Return the place that each fork earns: the first to fire in a cell the first of its random order, and so
    on."""
    cell = draws.cell[firing]
    by_cell = np.argsort(cell, kind="stable")
    rank = np.empty_like(firing)
    rank[by_cell] = np.arange(len(firing))
    return draws.start[firing] + rank - np.searchsorted(cell[by_cell], cell)


def _chosen(
    thresholds: Float[np.ndarray, "rows"], most: int | None, also: Sequence[float]
) -> Int[np.ndarray, "chosen"]:
    """Return the rows to compute: all of them, or an even choice with both ends, and the named thresholds
    besides."""
    every = np.arange(len(thresholds))
    if most is None or len(every) <= most:
        return every
    even = np.linspace(0, len(every) - 1, most).round().astype(np.int64)
    return np.union1d(even, np.flatnonzero(np.isin(thresholds, also)))
