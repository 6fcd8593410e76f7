"""Signals of every trigger and where it fired; and what each threshold of a signal would earn, chance included.

A signal with n distinct values has n + 1 thresholds that differ, and the page holds all of them. Where there are
more than a screen has columns, it holds an even choice, with every fitted threshold and the best in hindsight.
"""

import math
from collections.abc import Mapping
from typing import Final

import numpy as np
from jaxtyping import Bool, Float

from worldfork.analysis.present.page.forks import Places
from worldfork.analysis.present.page.packing import MISSING, pack
from worldfork.analysis.present.text.formatting import defined
from worldfork.analysis.score.decisions import Decisions
from worldfork.analysis.score.records import TaskScore
from worldfork.analysis.score.rules import Rules
from worldfork.analysis.score.threshold_curves import Sweep, sweep
from worldfork.analysis.score.triggers import TriggerScore
from worldfork.analysis.score.undefined import Undefined

SIDES: Final = ("all_attempted", "retained")
MOST_ROWS: Final = 300  # thresholds of a signal on one page: a step for every two or three columns of the chart
FEW_FORKS: Final = 2_000
PERMUTATIONS: Final = 5_000  # at each of hundreds of thresholds; a fitted policy has the full number
PERMUTATIONS_OF_MANY: Final = 1_000  # with thousands of forks, whose totals vary less by chance


def threshold_permutations(rules: Rules, forks: int) -> int:
    """Return the draws of chance at each threshold."""
    return min(rules.permutations, PERMUTATIONS if forks <= FEW_FORKS else PERMUTATIONS_OF_MANY)


def trigger_columns(score: TaskScore, shown: Places, *, rules: Rules) -> dict[str, object]:
    """Return every trigger by name."""
    evidence = score.evidence
    decisions = {"all_attempted": evidence.all_attempted, "retained": evidence.retained}
    figures = dict(score.triggers.items())
    masks = {"all_attempted": np.ones(len(evidence.forks), bool), "retained": ~evidence.divergence.dropped}
    signals = {name: read.signal for name, read in evidence.all_attempted.items() if read.signal is not None}
    # Where nothing diverged the two sets of forks are one.
    sides = SIDES if evidence.divergence.dropped.any() else SIDES[:1]
    sweeps = {side: _sweeps(signals, score, decisions[side], masks[side], rules) for side in sides}
    triggers: dict[str, object] = {}
    for name in evidence.all_attempted:
        trigger: dict[str, object] = {
            "standing": score.triggers.all_attempted[name].standing,
            "fired": {side: _flags(decisions[side][name], shown) for side in SIDES},
            "official": {side: _official(figures[side][name]) for side in SIDES},
        }
        if name in signals:
            trigger["signal"] = pack(_in_order(signals[name], shown), "f32")
            trigger["fitted"] = {side: _fitted(decisions[side][name]) for side in SIDES}
            trigger["draws"] = threshold_permutations(rules, len(evidence.forks))
            trigger["rows"] = {
                side: _rows(swept[name], decisions[side][name], signals[name], masks[side], shown)
                for side, swept in sweeps.items()
            }
        triggers[name] = trigger
    return triggers


def _sweeps(
    signals: Mapping[str, np.ndarray],
    score: TaskScore,
    decided: Mapping[str, Decisions],
    scored: Bool[np.ndarray, "forks"],
    rules: Rules,
) -> dict[str, Sweep]:
    forks = score.evidence.forks
    also = {name: [_of_all(decided[name]), *_fitted(decided[name])] for name in signals}
    return sweep(
        signals,
        forks,
        scored=scored,
        permutations=threshold_permutations(rules, len(forks)),
        seed=rules.seed,
        most=MOST_ROWS,
        also=also,
    )


def _rows(
    swept: Sweep,
    decided: Decisions,
    signal: Float[np.ndarray, "forks"],
    scored: Bool[np.ndarray, "forks"],
    shown: Places,
) -> dict[str, object]:
    """Return a sweep by column.

    `least` is the least value that fires at a row, `reach` the last row at which each fork fires. `start` is where
    the page opens, the middle of the fitted thresholds; `best` fits all.
    """
    kept = signal[scored]
    values = np.sort(kept[~np.isnan(kept)])
    start = len(swept.fires) // 2
    if finite := sorted(_fitted(decided)):
        fires = (kept >= finite[(len(finite) - 1) // 2]).sum()
        start = int(np.argmin(np.abs(swept.fires - fires)))
    best = np.flatnonzero(swept.threshold == _of_all(decided))
    reached = np.searchsorted(swept.threshold, signal, side="right") - 1.0
    reach = _in_order(np.where(np.isnan(signal), MISSING, reached), shown, missing=float(MISSING))
    above = np.searchsorted(values, swept.threshold, side="left")
    return {
        "threshold": pack([_shortest(threshold, values) for threshold in swept.threshold.tolist()], "f64"),
        "least": pack(np.append(values, np.inf)[above], "f64"),
        "reach": pack(reach, "u16"),
        "total": pack(swept.total, "f64"),
        "fires": pack(swept.fires, "u32"),
        **{name: pack(getattr(swept, name), "f32") for name in ("mean", "low", "high", "p", "p_shift")},
        "start": start,
        "best": int(best[0]) if len(best) else start,
        "of": swept.of,
    }


def _in_order(
    values: Float[np.ndarray, "forks"], shown: Places, *, missing: float = math.nan
) -> Float[np.ndarray, "shown"]:
    """Return the values of scored forks in the page's order."""
    return np.array([missing if index is None else values[index] for index in shown.index], dtype=np.float64)


def _shortest(threshold: float, values: Float[np.ndarray, "known"]) -> float:
    """Return the shortest number between the same two values: it fires on the same forks."""
    if not math.isfinite(threshold):
        return threshold
    place = int(np.searchsorted(values, threshold))
    for digits in range(1, 17):
        short = float(f"{threshold:.{digits}g}")
        if values[place - 1] < short <= values[place]:
            return short
    return threshold


def _flags(decided: Decisions, shown: Places) -> dict[str, str]:
    """Return where it fires, one bit per fork."""
    if isinstance(decided.fired, Undefined):
        return pack(np.packbits(np.zeros(len(shown.index), bool)), "u8")
    fired = decided.fired
    return pack(np.packbits([index is not None and bool(fired[index]) for index in shown.index]), "u8")


def _of_all(decided: Decisions) -> float:
    """Return the threshold that earns the most on all scored forks together."""
    assert decided.threshold_of_all is not None
    return decided.threshold_of_all


def _fitted(decided: Decisions) -> list[float]:
    """Return the distinct thresholds that scoring fitted and that a line can be drawn at."""
    if decided.threshold is None:
        return []
    return [float(value) for value in np.unique(decided.threshold) if math.isfinite(value)]


def _official(figures: TriggerScore) -> dict[str, object] | None:
    """Return the fitted policy as scored: 20,000 draws unless another number was asked for."""
    random, shift = defined(figures.random), defined(figures.random_shift)
    if random is None or shift is None:
        return None
    interval = defined(random.interval)
    return {
        "total": defined(figures.policy_total),
        "fires": defined(figures.fires),
        "mean": defined(random.mean),
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
        "p": random.p,
        "p_shift": shift.p,
    }
