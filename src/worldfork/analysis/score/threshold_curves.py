"""Totals at every threshold of a signal, and of firing as often at random there.

Scoring fits one threshold per checkpoint; a reader who moves a threshold by hand asks about all of them. Sorted by
signal, each threshold fires on one value more than the next: so both nulls (docs/scoring.md) are running sums. For
one cell and one draw, dR is put in random order, and the n-th fork to fire there earns the n-th of them; in the
shifted null it earns the dR that lies a fixed number of places further around the cell.

Ten thousands of forks in a thousand orders do not fit into a page's memory: some draws of all forks are held at a
time, and of the sums only those at the thresholds that are shown.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from jaxtyping import Bool, Float, Int

from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.score.decisions import between, fires, policy_total
from worldfork.analysis.score.numerics import cell_draws, middle_95, rises
from worldfork.analysis.score.permutation_nulls import p_value, reached

HELD: Final = 1 << 23  # dR in random order that are held at a time: 64 MB. Half of it draws twice as often.
ADDED: Final = 1 << 18  # and added up at a time
AT_ONCE: Final = 64  # rows whose intervals are read at once


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
    signals: Mapping[str, Float[np.ndarray, "forks"]],
    forks: Forks,
    *,
    scored: Bool[np.ndarray, "forks"],
    permutations: int,
    seed: int,
    most: int | None = None,
    also: Mapping[str, Sequence[float]] | None = None,
    held: int = HELD,
) -> dict[str, Sweep]:
    """Return every threshold of every signal on the `scored` forks; all signals are held against the same draws.

    `most` asks for an even choice of so many thresholds where there are more; those in `also` are among them.
    `held` bounds the memory: the same figures come out of any.
    """
    kept = forks.take(scored)
    cells = _cells(kept)
    asked = {
        name: _ask(signal[scored], kept.delta, cells, most=most, also=(also or {}).get(name, ()))
        for name, signal in signals.items()
    }
    # Filled draw by draw, signal by signal; memory is taken as it is filled.
    nulls = {name: np.empty((len(entry.rows), permutations)) for name, entry in asked.items()}
    shifted = {name: np.zeros(len(entry.rows), np.int64) for name, entry in asked.items()}
    swept = {}
    width = max(1, held // len(kept))
    for start in range(0, permutations, width):
        some = slice(start, min(start + width, permutations))
        draws = _draw(kept, cells, permutations=permutations, some=some, seed=seed)
        for name, entry in asked.items():
            shifted[name] += _add_up(entry, cells, draws, nulls[name][:, some])
            if some.stop == permutations:
                swept[name] = _compare(entry, nulls.pop(name), shifted[name])
    return swept


@dataclasses.dataclass(frozen=True)
class _Cells:
    """Places of the forks of each cell."""

    spans: Sequence[tuple[int, slice]]
    turn: Int[np.ndarray, "forks"]  # which of the spans
    start: Int[np.ndarray, "forks"]
    size: Int[np.ndarray, "forks"]

    @property
    def place(self) -> Int[np.ndarray, "forks"]:
        return np.arange(len(self.start)) - self.start


def _cells(forks: Forks) -> _Cells:
    spans = list(forks.prefork.spans())
    sizes = np.array([span.stop - span.start for _, span in spans], dtype=np.int64)
    starts = np.array([span.start for _, span in spans], dtype=np.int64)
    return _Cells(spans, np.repeat(np.arange(len(spans)), sizes), np.repeat(starts, sizes), np.repeat(sizes, sizes))


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Asked:
    """A signal: the thresholds that were chosen of all, and the forks in the order in which they come to fire as
    the threshold falls."""

    rows: Float[np.ndarray, "chosen"]  # thresholds, ascending
    of: int
    totals: Float[np.ndarray, "chosen"]  # what each of them earns
    forks: Int[np.ndarray, "known"]
    drawn: Int[np.ndarray, "known"]  # for each of them, the place in its cell's random order that it earns
    fired: Int[np.ndarray, "chosen"]  # how many of them fire at each threshold


def _ask(
    signal: Float[np.ndarray, "forks"],
    delta: Float[np.ndarray, "forks"],
    cells: _Cells,
    *,
    most: int | None,
    also: Sequence[float],
) -> _Asked:
    defined = np.flatnonzero(~np.isnan(signal))
    order = defined[np.argsort(signal[defined], kind="stable")]
    distinct = rises(signal[order])  # values that differ by rounding alone are one
    starts = np.flatnonzero(distinct)
    thresholds = np.array(
        [
            -np.inf,
            *(between(float(signal[order[start - 1]]), float(signal[order[start]])) for start in starts[1:]),
            *([np.inf] if len(order) else []),
        ]
    )
    chosen = _chosen(thresholds, most, also)
    firing = order[np.argsort(-np.cumsum(distinct), kind="stable")]
    return _Asked(
        rows=thresholds[chosen],
        of=len(thresholds),
        totals=np.array([policy_total(fires(signal, threshold), delta) for threshold in thresholds[chosen]]),
        forks=firing,
        drawn=_drawn(firing, cells),
        fired=np.append(len(order) - starts, 0)[chosen],
    )


def _drawn(firing: Int[np.ndarray, "known"], cells: _Cells) -> Int[np.ndarray, "known"]:
    """Return the place that each fork earns: the first to fire in a cell the first of its random order, and so
    on."""
    by_cell = np.argsort(cells.turn[firing], kind="stable")
    first = np.searchsorted(cells.turn[firing][by_cell], cells.turn[firing])
    rank = np.empty_like(firing)
    rank[by_cell] = np.arange(len(firing))
    return cells.start[firing] + rank - first


@dataclasses.dataclass(frozen=True)
class _Draws:
    """Some of the draws: dR of every cell in random order, and by how many places each cell is shifted."""

    delta: Float[np.ndarray, "forks"]
    shuffled: Float[np.ndarray, "forks draws"]
    shift: Int[np.ndarray, "spans draws"]


def _draw(forks: Forks, cells: _Cells, *, permutations: int, some: slice, seed: int) -> _Draws:
    """Draw dR in random order and shifts. All of a cell's draws are drawn, however few are kept, so that they are
    the same whatever the memory."""
    prefork, delta = forks.prefork, forks.delta
    shuffled = np.empty((len(forks), some.stop - some.start))
    shift = np.empty((len(cells.spans), some.stop - some.start), np.int64)
    at_once = max(1, ADDED // permutations)
    for turn, (index, span) in enumerate(cells.spans):
        draws = cell_draws("thresholds", prefork.cells[index], seed=seed, task=forks.task)
        keys = shuffled[span]  # and then what they put in order
        for start in range(0, len(keys), at_once):
            rows = keys[start : start + at_once]
            rows[:] = draws.random((len(rows), permutations))[:, some]
        np.take(delta[span], np.argsort(keys, axis=0), out=keys, mode="clip")  # none is out of bounds
        shift[turn] = draws.integers(0, len(keys), permutations)[some]
    return _Draws(delta, shuffled, shift)


def _add_up(
    asked: _Asked, cells: _Cells, draws: _Draws, null: Float[np.ndarray, "chosen draws"]
) -> Int[np.ndarray, "chosen"]:
    """Add the totals of firing at each threshold in these draws into `null`, and return in how many of them shifted
    fires earn as much as the threshold itself. From the highest threshold down, each has the sum of the one above
    and what its own forks add."""
    at_once = max(1, ADDED // null.shape[1])
    earned = np.zeros((2, null.shape[1]))  # in random order, and shifted
    as_much = np.zeros(len(asked.rows), np.int64)
    before = 0
    for row in range(len(asked.rows) - 1, -1, -1):
        for start in range(before, int(asked.fired[row]), at_once):
            new = slice(start, min(start + at_once, int(asked.fired[row])))
            forks = asked.forks[new]
            place = (cells.place[forks, None] + draws.shift[cells.turn[forks]]) % cells.size[forks, None]
            added = draws.shuffled[asked.drawn[new]], draws.delta[cells.start[forks, None] + place]
            for sums, more in zip(earned, added, strict=True):
                more[0] += sums
                np.add.reduce(more, axis=0, out=sums)  # one fork after the other, whatever is held
        before = int(asked.fired[row])
        null[row] = earned[0]
        as_much[row] = reached(float(asked.totals[row]), earned[1])
    return as_much


def _compare(asked: _Asked, null: Float[np.ndarray, "chosen draws"], shifted: Int[np.ndarray, "chosen"]) -> Sweep:
    ends = [middle_95(null[start : start + AT_ONCE]) for start in range(0, len(null), AT_ONCE)]
    low, high = np.concatenate(ends, axis=1)
    return Sweep(
        threshold=asked.rows,
        total=asked.totals,
        fires=asked.fired,
        mean=np.array([totals.mean() for totals in null]),
        low=low,
        high=high,
        p=np.array([p_value(total, totals) for total, totals in zip(asked.totals, null, strict=True)]),
        p_shift=(1 + shifted) / (1 + null.shape[1]),
        of=asked.of,
    )


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
