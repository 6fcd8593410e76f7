"""What every threshold of a signal would earn, and what firing as often at random earns there.

Scoring fits one threshold per checkpoint; a reader who moves a threshold by hand asks about all of them. Sorted by
signal, each threshold fires on one value more than the next: so both nulls (docs/scoring.md) are running sums. For
one cell and one draw, dR is put in random order, and the n-th fork to fire there earns the n-th of them; in the
shifted null it earns the dR that lies a fixed number of places further around the cell.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from worldfork.desk.reading.outcomes import Forks
from worldfork.desk.scoring.controls import p_value
from worldfork.desk.scoring.draws import cell_draws
from worldfork.desk.scoring.policies import between, fires, policy_total
from worldfork.desk.scoring.quantiles import middle_95
from worldfork.desk.scoring.ties import rises

__all__ = ["Sweep", "sweep"]

COLUMNS = ("total", "fires", "mean", "low", "high", "p", "p_shift")
AT_ONCE = 64  # rows whose intervals are read at once


@dataclasses.dataclass(frozen=True)
class Sweep:
    """One row per threshold, ascending: the first fires wherever there is a signal, the last nowhere."""

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
) -> dict[str, Sweep]:
    """Every threshold of every signal on the `scored` forks; all signals are held against the same draws.

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
    """Where each fork lies in its cell; per cell, dR in random order and the places it is shifted by."""

    cell: Int[np.ndarray, "forks"]
    place: Int[np.ndarray, "forks"]
    shuffled: Mapping[int, Float[np.ndarray, "size permutations"]]
    shifted: Mapping[int, Float[np.ndarray, "size permutations"]]


def _draw(forks: Forks, *, permutations: int, seed: int) -> _Draws:
    place = np.zeros(len(forks), np.int64)
    shuffled, shifted = {}, {}
    for index, span in forks.prefork.spans():
        delta = forks.delta[span]
        size = len(delta)
        place[span] = np.arange(size)
        draws = cell_draws("thresholds", forks.prefork.cells[index], seed=seed, task=forks.task)
        shuffled[index] = delta[np.argsort(draws.random((size, permutations)), axis=0)]
        turn = draws.integers(0, size, permutations)
        shifted[index] = delta[(np.arange(size)[:, None] + turn) % size]
    return _Draws(forks.prefork.cell, place, shuffled, shifted)


def _sweep(
    signal: Float[np.ndarray, "forks"],
    delta: Float[np.ndarray, "forks"],
    draws: _Draws,
    *,
    most: int | None,
    also: Sequence[float],
) -> Sweep:
    known = np.flatnonzero(~np.isnan(signal))
    order = known[np.argsort(signal[known], kind="stable")]
    starts = np.flatnonzero(rises(signal[order]))  # values that differ by rounding alone are one
    thresholds = [
        -np.inf,
        *(between(float(signal[order[start - 1]]), float(signal[order[start]])) for start in starts[1:]),
        *([np.inf] if len(order) else []),
    ]
    permutations = next((drawn.shape[1] for drawn in draws.shuffled.values()), 1)
    permuted, turned = np.zeros(permutations), np.zeros(permutations)
    fired_before = dict.fromkeys(draws.shuffled, 0)
    stops = [*starts[1:].tolist(), len(order)]
    rows = len(thresholds)
    chosen = _chosen(np.array(thresholds), most, also)
    places = {int(row): place for place, row in enumerate(chosen)}
    columns = {name: np.zeros(len(chosen), int if name == "fires" else float) for name in COLUMNS}
    swept = Sweep(threshold=np.array(thresholds)[chosen], **columns, of=rows)
    waiting: dict[int, Float[np.ndarray, permutations]] = {}  # rows without their interval
    for row in range(rows - 1, -1, -1):
        for fork in order[starts[row] : stops[row]] if row < len(starts) else ():
            cell = int(draws.cell[fork])
            permuted += draws.shuffled[cell][fired_before[cell]]
            turned += draws.shifted[cell][draws.place[fork]]
            fired_before[cell] += 1
        if row not in places:
            continue
        place, flags = places[row], fires(signal, thresholds[row])
        swept.total[place], swept.fires[place] = policy_total(flags, delta), flags.sum()
        swept.mean[place] = permuted.mean()
        waiting[place] = permuted.copy()
        if len(waiting) == AT_ONCE or row == 0:
            swept.low[list(waiting)], swept.high[list(waiting)] = middle_95(np.array(list(waiting.values())))
            waiting.clear()
        swept.p[place], swept.p_shift[place] = (p_value(swept.total[place], null) for null in (permuted, turned))
    return swept


def _chosen(
    thresholds: Float[np.ndarray, "rows"], most: int | None, also: Sequence[float]
) -> Int[np.ndarray, "chosen"]:
    """The rows to compute: all of them, or an even choice with both ends, and the named thresholds besides."""
    every = np.arange(len(thresholds))
    if most is None or len(every) <= most:
        return every
    even = np.linspace(0, len(every) - 1, most).round().astype(np.int64)
    return np.union1d(even, np.flatnonzero(np.isin(thresholds, also)))
