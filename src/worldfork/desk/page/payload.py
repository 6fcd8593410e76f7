"""Everything that the page's script looks up, as one JSON value.

Nothing is left for the script to compute but places on a screen. dR and totals keep every digit, so that what the
page shows is what `worldfork score` says; what is only drawn is rounded. A figure that is undefined is null.
"""

import json
import math
from typing import Final

import numpy as np
from jaxtyping import Bool, Float

from worldfork.desk.page.forks import Places, fork_columns, places
from worldfork.desk.page.material import Material
from worldfork.desk.page.streams import read_condensed, rounded
from worldfork.desk.page.view import SIDES
from worldfork.desk.scoring.decisions import Decisions
from worldfork.desk.scoring.partition import partition
from worldfork.desk.scoring.policies import fit_threshold
from worldfork.desk.scoring.records import TaskScore, TriggerScore
from worldfork.desk.scoring.sweep import Sweep, sweep
from worldfork.desk.scoring.undefined import Bounds, Figure, Undefined
from worldfork.desk.triggers import is_reference
from worldfork.desk.wording import digits_for, known, minus, number, rate, with_span
from worldfork.registration import Cell

__all__ = ["embed", "payload"]

SCHEMA: Final = "worldfork.page/2"
THRESHOLD_PERMUTATIONS: Final = 5_000  # at each of hundreds of thresholds; a fitted policy has the full number


def payload(material: Material) -> dict[str, object]:
    """The page's data: one part per arm and task, and the streams that they share."""
    streams: dict[str, dict[str, object]] = {}
    parts: list[object] = [
        _part(material, arm, task, task_score, streams)
        for arm, arm_score in material.score.arms.items()
        for task, task_score in arm_score.tasks.items()
    ]
    return {
        "schema": SCHEMA,
        "parts": parts,
        "streams": list(streams.values()),
        "permutations": material.rules.permutations,
        "threshold_permutations": _threshold_permutations(material),
    }


def embed(value: object) -> str:
    """JSON that can stand inside a script element: nothing in it can close the element or open a comment.

    >>> embed({"cell": "</script>"})
    '{"cell":"\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _part(
    material: Material, arm: str, task: str, score: TaskScore, streams: dict[str, dict[str, object]]
) -> dict[str, object]:
    forks = score.evidence.forks
    shown = places(forks, material.rows, arm=arm, task=task)
    means = dict(zip(forks.prefork.cells, partition(forks.prefork).cell_means(forks.delta).tolist(), strict=True))
    sizes = np.sort(np.abs(forks.delta))
    return {
        "digits": digits_for(score.effect.all_attempted),
        "full_colour": float(sizes[int(0.95 * (len(sizes) - 1))]) or 1.0,  # the largest twentieth is left out
        "cells": [
            {
                "checkpoint": key.checkpoint,
                "direction": key.direction,
                "stream_seed": key.stream_seed,
                "stream": _stream(material, shown.cells[key], streams),
                "mean": None if math.isnan(mean := means.get(key, math.nan)) else mean,
            }
            for key in shown.cells
        ],
        "forks": fork_columns(shown, forks, score.evidence.divergence.dropped),
        "policies": {
            "all_attempted": _references(score, "all_attempted"),
            "retained": _references(score, "retained"),
        },
        "triggers": _triggers(material, score, shown),
        "contraction": _contraction(score),
    }


def _references(score: TaskScore, side: str) -> dict[str, object]:
    attempted = side == "all_attempted"
    references = score.policies_all_attempted if attempted else score.policies
    return {
        "always": known(references.always),
        "oracle": known(references.oracle),
        "forks": score.forks.attempted if attempted else score.forks.retained,
    }


def _triggers(material: Material, score: TaskScore, shown: Places) -> dict[str, object]:
    """What every trigger saw and where it fired; for a signal, what each of its thresholds would earn."""
    evidence = score.evidence
    decisions = {"all_attempted": evidence.all_attempted, "retained": evidence.retained}
    figures = {"all_attempted": score.triggers_all_attempted, "retained": score.triggers}
    masks = {"all_attempted": np.ones(len(evidence.forks), bool), "retained": ~evidence.divergence.dropped}
    signals = {name: read.signal for name, read in evidence.all_attempted.items() if read.signal is not None}
    # Where nothing diverged the two sets of forks are one.
    sides = SIDES if evidence.divergence.dropped.any() else SIDES[:1]
    sweeps = {
        side: sweep(
            signals,
            evidence.forks,
            scored=masks[side],
            permutations=_threshold_permutations(material),
            seed=material.rules.seed,
        )
        for side in sides
    }
    triggers: dict[str, object] = {}
    for name in evidence.all_attempted:
        trigger: dict[str, object] = {
            "reference": is_reference(name),
            "fired": {side: _flags(decisions[side][name], shown) for side in SIDES},
            "official": {side: _official(figures[side][name]) for side in SIDES},
            "words": {side: _official_words(figures[side][name], score) for side in SIDES},
            "auc": {side: _auc(figures[side][name]) for side in SIDES},
        }
        if name in signals:
            values = [None if index is None else float(signals[name][index]) for index in shown.index]
            trigger["signal"] = [None if value is None or math.isnan(value) else value for value in values]
            trigger["fitted"] = {side: _fitted(decisions[side][name]) for side in SIDES}
            trigger["rows"] = {
                side: _rows(
                    swept[name],
                    decisions[side][name],
                    signal=signals[name][masks[side]],
                    delta=evidence.forks.delta[masks[side]],
                )
                for side, swept in sweeps.items()
            }
        triggers[name] = trigger
    return triggers


def _rows(
    swept: Sweep, decided: Decisions, *, signal: Float[np.ndarray, "scored"], delta: Float[np.ndarray, "scored"]
) -> dict[str, object]:
    """A sweep by column. `start` is where the page opens, the middle of the fitted thresholds; `best` fits all."""
    start = len(swept.fires) // 2
    if decided.threshold is not None and len(finite := np.sort(decided.threshold[np.isfinite(decided.threshold)])):
        fires = (signal >= finite[(len(finite) - 1) // 2]).sum()
        start = int(np.argmin(np.abs(swept.fires - fires)))
    best = np.flatnonzero(swept.threshold == fit_threshold(signal, delta))
    values = np.sort(signal[~np.isnan(signal)])
    return {
        "threshold": [_shortest(threshold, values) for threshold in swept.threshold[1:-1].tolist()],
        "total": swept.total.tolist(),
        "fires": swept.fires.tolist(),
        "mean": rounded(swept.mean, 7),
        "low": rounded(swept.low, 7),
        "high": rounded(swept.high, 7),
        "p": rounded(swept.p, 4),
        "p_shift": rounded(swept.p_shift, 4),
        "start": start,
        "best": int(best[0]) if len(best) else start,
    }


def _shortest(threshold: float, values: Float[np.ndarray, "known"]) -> float:
    """The number with the fewest digits that lies between the same two values: it fires on the same forks."""
    place = int(np.searchsorted(values, threshold))
    for digits in range(1, 17):
        short = float(f"{threshold:.{digits}g}")
        if values[place - 1] < short <= values[place]:
            return short
    return threshold


def _flags(decided: Decisions, shown: Places) -> str:
    """Where it fires, one character per fork."""
    if isinstance(decided.fired, Undefined):
        return "0" * len(shown.index)
    fired: Bool[np.ndarray, forks] = decided.fired
    return "".join("1" if index is not None and fired[index] else "0" for index in shown.index)


def _fitted(decided: Decisions) -> list[object]:
    """The distinct thresholds that scoring fitted and that a line can be drawn at."""
    if decided.threshold is None:
        return []
    return [float(value) for value in np.unique(decided.threshold) if math.isfinite(value)]


def _official(figures: TriggerScore) -> dict[str, object] | None:
    """The fitted policy, as scored: 20,000 draws where nobody chose otherwise."""
    random, shift = known(figures.random), known(figures.random_shift)
    if random is None or shift is None:
        return None
    interval = known(random.interval)
    return {
        "total": known(figures.policy_total),
        "fires": known(figures.fires),
        "mean": known(random.mean),
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
        "p": random.p,
        "p_shift": shift.p,
    }


def _official_words(figures: TriggerScore, score: TaskScore) -> str:
    random, shift = figures.random, figures.random_shift
    if isinstance(random, Undefined) or isinstance(shift, Undefined):
        reason = random.why if isinstance(random, Undefined) else "it is undefined"
        return f"worldfork score fits no threshold: {reason}."
    digits = max(0, digits_for(score.effect.all_attempted) - 1)
    passes = "passes" if figures.passes_control is True else "does not pass"
    figures_in_words = (
        f"total {number(figures.policy_total, digits)}, {figures.fires} fires, chance "
        f"{with_span(random.mean, random.interval, digits)}, p {rate(random.p)}, shifted {rate(shift.p)}"
    )
    return (
        "worldfork score, thresholds fitted leave-one-checkpoint-out: "
        f"{minus(figures_in_words)}: {passes} its control."
    )


def _auc(figures: TriggerScore) -> str:
    interval = known(figures.auc_interval)
    if isinstance(figures.auc, Undefined) or interval is None:
        return "undefined"
    return f"{rate(figures.auc)} [{rate(interval.low)}, {rate(interval.high)}] {known(figures.auc_interval_kind)}"


def _contraction(score: TaskScore) -> dict[str, object]:
    """The fitted line, for the script to draw, and everything about it in words."""
    fit = score.contraction
    kept = score.evidence.forks.take(~score.evidence.divergence.dropped)
    slope, halves, within = known(fit.slope), known(fit.split_half.slope), fit.within
    digits = digits_for(score.effect.all_attempted)
    level = kept.outcomes.r_update.mean() - slope * kept.outcomes.r_hold.mean() if slope is not None else None
    words = [
        f"n = {len(kept)} retained forks; dotted: the identity.",
        _fitted_words("Slope", fit.slope, fit.slope_interval, digits=2) + ",",
        _fitted_words("crossing", fit.crossing, fit.crossing_interval, digits=digits) + ",",
        _fitted_words("variance ratio", fit.variance_ratio, fit.variance_ratio_interval, digits=2),
        f"(95%, Student-t over {fit.clusters} checkpoints).",
        _fitted_words("At a fixed direction and k the slope is", within.value, within.student_t, digits=2) + ".",
        "" if halves is None else f"HOLD's own halves give slope {halves:.2f} without any update.",
    ]
    return {
        "slope": slope,
        "intercept": None if level is None else float(level),
        "crossing": known(fit.crossing),
        "words": minus(" ".join(words)),
    }


def _fitted_words(name: str, value: Figure, interval: Bounds | None, *, digits: int) -> str:
    if isinstance(value, Undefined):
        return f"{name} undefined ({value.why})"
    return f"{name} {with_span(value, interval, digits).removeprefix('+')}"


def _stream(material: Material, cell: Cell | None, streams: dict[str, dict[str, object]]) -> int | None:
    if cell is None or material.study is None:
        return None
    path = material.study.cell(cell.id).path / "stream.parquet"
    if not path.exists():
        return None
    digest, condensed = read_condensed(path)
    streams.setdefault(digest, condensed)
    return list(streams).index(digest)


def _threshold_permutations(material: Material) -> int:
    return min(material.rules.permutations, THRESHOLD_PERMUTATIONS)
