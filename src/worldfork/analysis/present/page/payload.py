"""Data that the page's script looks up: one JSON value, compressed.

Nothing is left for the script to compute but places on a screen. Returns, totals, signals and thresholds keep every
digit, so that what the page shows is what `worldfork score` says. An undefined figure is null.
"""

import base64
import dataclasses
import json
import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from worldfork.analysis.present.page.material import Material
from worldfork.analysis.present.page.record import counted
from worldfork.analysis.present.page.streams import read_stream
from worldfork.analysis.present.text.formatting import defined, digits_for
from worldfork.analysis.present.text.value import crossing_words
from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.score.clusters import natural, partition
from worldfork.analysis.score.decisions import Decisions
from worldfork.analysis.score.records import TaskScore
from worldfork.analysis.score.rules import Rules
from worldfork.analysis.score.threshold_curves import Sweep, sweep
from worldfork.analysis.score.triggers import TriggerScore
from worldfork.analysis.score.undefined import Estimand, Undefined
from worldfork.counting import plural
from worldfork.ledger.closed_loop import cell_key
from worldfork.ledger.row import ForkRow
from worldfork.registration import Cell
from worldfork.triggers import CellKey

SCHEMA: Final = "worldfork.page/4"
SIDES: Final[tuple[Estimand, ...]] = ("all_attempted", "retained")
DIGEST: Final = 24  # characters of a row's digest: enough to find it
SMALL_PAGE: Final = 5_000  # forks of all tasks and arms together, up to which everything about each is on the page
MOST_ROWS: Final = 300  # thresholds of a signal on one page: a step for every two or three columns of the chart
FEW_FORKS: Final = 2_000
PERMUTATIONS: Final = 5_000  # at each of hundreds of thresholds; a fitted policy has the full number
PERMUTATIONS_OF_MANY: Final = 1_000  # with thousands of forks, whose totals vary less by chance
DRAWN: Final = ("mean", "low", "high", "p", "p_shift")  # of chance, at each threshold
Json = dict[str, Any]


def payload(material: Material) -> Json:
    """Return the page's data: one part per arm and task, and the streams that they share."""
    streams: dict[str, Json] = {}
    small = size(material) <= SMALL_PAGE
    return {
        "schema": SCHEMA,
        "parts": [
            _part(material, arm, task, score, streams, small=small)
            for arm, scored in material.score.arms.items()
            for task, score in scored.tasks.items()
        ],
        "streams": list(streams.values()),
        "permutations": material.score.rules.permutations,
    }


def size(material: Material) -> int:
    """Return how many forks all tasks and arms have together."""
    return sum(len(score.evidence.forks) for arm in material.score.arms.values() for score in arm.tasks.values())


def compressed(value: object) -> str:
    """Return JSON that the script inflates, in base64: no text in it can close the element that holds it."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


@dataclasses.dataclass(frozen=True)
class OrderedForks:
    """Forks in the page's order: by direction, checkpoint, stream seed, then k."""

    cells: Mapping[CellKey, Cell | None]  # in order; None where a flat table has no cell folders
    keys: Sequence[tuple[CellKey, int]]
    index: Sequence[int | None]  # among the scored forks; None without a dR
    rows: Mapping[tuple[CellKey, int], Sequence[ForkRow]]  # one for each draw of the fork's update


def ordered_forks(forks: Forks, rows: Mapping[Cell, Sequence[ForkRow]], *, arm: str, task: str) -> OrderedForks:
    """Return where every fork stands, scored or not."""
    prefork = forks.prefork
    cells: dict[CellKey, Cell | None] = dict.fromkeys(prefork.cells)
    recorded: dict[tuple[CellKey, int], list[ForkRow]] = {}
    for cell, inside in rows.items():
        if (cell.arm, cell.task) == (arm, task) and inside:
            key = cell_key(cell)
            cells[key] = cells.get(key) or cell  # the first draw's: all draws share the stream
            for row in inside:
                recorded.setdefault((key, row.k), []).append(row)
    scored = {
        (prefork.cells[cell], int(k)): index
        for index, (cell, k) in enumerate(zip(prefork.cell, prefork.k, strict=True))
    }
    keys = sorted({**scored, **recorded}, key=_in_order)
    ordered = dict.fromkeys(key for key, _ in keys)
    return OrderedForks({key: cells[key] for key in ordered}, keys, [scored.get(key) for key in keys], recorded)


def _in_order(place: tuple[CellKey, int]) -> tuple[str, tuple[int, int, str], int, int]:
    key, k = place
    return key.direction, natural(key.checkpoint), key.stream_seed, k


def _part(
    material: Material, arm: str, task: str, score: TaskScore, streams: dict[str, Json], *, small: bool
) -> Json:
    forks = score.evidence.forks
    shown = ordered_forks(forks, material.rows, arm=arm, task=task)
    means = dict(zip(forks.prefork.cells, partition(forks.prefork).cell_means(forks.delta).tolist(), strict=True))
    sizes = np.sort(np.abs(forks.delta))
    fit = score.contraction
    return {
        "arm": arm,
        "task": task,
        "digits": digits_for(score.effect.all_attempted),
        "full_colour": float(sizes[int(0.95 * (len(sizes) - 1))]) or 1.0,  # the largest twentieth is left out
        "cells": [
            {
                "checkpoint": key.checkpoint,
                "direction": key.direction,
                "stream_seed": key.stream_seed,
                "stream": _stream(material, cell, streams),
                "mean": _finite(means.get(key)),
                "id": None if cell is None else cell.id,
            }
            for key, cell in shown.cells.items()
        ],
        "forks": _forks(shown, score, small=small),
        "policies": {side: _references(score, side) for side in SIDES},
        "triggers": _triggers(score, shown, rules=material.score.rules),
        "contraction": {
            "slope": defined(fit.slope),
            "interval": defined(fit.slope_interval),
            "intercept": defined(fit.intercept),
            "crossing": defined(fit.crossing) if crossing_words(score) else None,
        },
    }


def _stream(material: Material, cell: Cell | None, streams: dict[str, Json]) -> int | None:
    """Return the place of a cell's stream among all: arms that share it have one."""
    if cell is None or material.study is None:
        return None
    path, _ = material.study.cell(cell.id).stream_files()
    if not path.exists():
        return None
    digest, condensed = read_stream(path)
    streams.setdefault(digest, condensed)
    return list(streams).index(digest)


def _references(score: TaskScore, side: Estimand) -> Json:
    references = score.policies[side]
    return {
        "always": defined(references.always),
        "oracle": defined(references.oracle),
        "forks": score.forks.attempted if side == "all_attempted" else score.forks.retained,
        "deployments": max(1, score.effect[side].cells),
    }


def _forks(shown: OrderedForks, score: TaskScore, *, small: bool) -> list[Json]:
    """Return a record per fork; episodes, what the update did and the row's digest on a small page alone."""
    forks, cell = score.evidence.forks, {key: index for index, key in enumerate(shown.cells)}
    prefork, outcomes = forks.prefork, forks.outcomes
    records = []
    for (key, k), index in zip(shown.keys, shown.index, strict=True):
        rows = shown.rows.get((key, k), ())
        record: Json = {"k": k, "cell": cell[key], "delta": None, "diverged": False}
        if index is not None:
            record |= {
                "step": int(prefork.step[index]),
                "level": _short(prefork.level[index]),
                "r_hold": float(outcomes.r_hold[index]),
                "r_update": float(outcomes.r_update[index]),
                "delta": float(forks.delta[index]),
                "diverged": bool(score.evidence.divergence.dropped[index]),
            }
        else:
            row = rows[0]
            record |= {"step": row.step, "level": row.level, "r_hold": row.r_hold, "r_update": row.r_update}
        if small and index is not None and outcomes.hold is not None and outcomes.update is not None:
            record |= _episodes(outcomes.hold[index], outcomes.update[index])
        elif small and rows:
            record |= _episodes(rows[0].hold, rows[0].update)
        records.append(record | (_recorded(rows) if small and rows else {}))
    return records


def _episodes(hold: Iterable[float | None], update: Iterable[float | None]) -> Json:
    """Return the returns of both branches, episode by episode."""
    pairs = [(_short(held), _short(updated)) for held, updated in zip(hold, update, strict=False)]
    pairs = [pair for pair in pairs if pair != (None, None)]
    better = sum(held is not None and updated is not None and updated > held for held, updated in pairs)
    return {"hold": [held for held, _ in pairs], "update": [updated for _, updated in pairs], "better": better}


def _recorded(rows: Sequence[ForkRow]) -> Json:
    """Return what a study's own rows add: of the first draw of the update, and what all of them returned."""
    row = rows[0]
    fit = (row.fit.loss_before, row.fit.loss_after, row.fit.grad_norm, row.fit.param_shift)
    return {
        "env_step": row.env_step,
        "fit": [*map(_short, fit), row.fit.window],
        "digest": row.digest[:DIGEST],
        "broken": _broken(row),
        "draws": [_short(draw.r_update) for draw in rows] if len(rows) > 1 else None,
    }


def _broken(row: ForkRow) -> str | None:
    """Return in words whatever was not finite or not stable."""
    broken = [f"{plural(row.fit.non_finite, 'non-finite parameter')} in UPDATE"] if row.fit.non_finite else []
    words = [*broken, *counted([row])]
    return f"Counted: {'; '.join(words)}." if words else None


def threshold_permutations(rules: Rules, forks: int) -> int:
    """Return the draws of chance at each threshold."""
    return min(rules.permutations, PERMUTATIONS if forks <= FEW_FORKS else PERMUTATIONS_OF_MANY)


def _triggers(score: TaskScore, shown: OrderedForks, *, rules: Rules) -> Json:
    """Return every trigger by name: its signal, where it fired, and what each threshold would earn."""
    evidence = score.evidence
    dropped = evidence.divergence.dropped
    masks = {"all_attempted": np.ones(len(dropped), bool), "retained": ~dropped}
    signals = {name: read.signal for name, read in evidence.all_attempted.items() if read.signal is not None}
    draws = threshold_permutations(rules, len(dropped))
    triggers: Json = {
        name: {
            "standing": score.triggers.all_attempted[name].standing,
            "fired": {side: _fired(getattr(evidence, side)[name], shown) for side in SIDES},
            "official": {side: _official(score.triggers[side][name]) for side in SIDES},
            "draws": draws,
            "signal": None,
        }
        for name in evidence.all_attempted
    }
    for name, signal in signals.items():
        triggers[name] |= {
            "signal": [None if index is None else _finite(signal[index]) for index in shown.index],
            "fitted": {side: _fitted(getattr(evidence, side)[name]) for side in SIDES},
            "rows": {},
        }
    # Where nothing diverged the two sets of forks are one.
    for side in SIDES if dropped.any() else SIDES[:1]:
        decided: Mapping[str, Decisions] = getattr(evidence, side)
        swept = sweep(
            signals,
            evidence.forks,
            scored=masks[side],
            permutations=draws,
            seed=rules.seed,
            most=MOST_ROWS,
            also={name: [_of_all(decided[name]), *_fitted(decided[name])] for name in signals},
        )
        for name, signal in signals.items():
            triggers[name]["rows"][side] = _rows(swept[name], decided[name], signal[masks[side]])
    return triggers


def _rows(swept: Sweep, decided: Decisions, signal: np.ndarray) -> Json:
    """Return a sweep by column. `start` is where the page opens, the middle of the fitted thresholds; `best` is the
    best in hindsight."""
    start = len(swept.fires) // 2
    if finite := sorted(_fitted(decided)):
        fires = (signal >= finite[(len(finite) - 1) // 2]).sum()
        start = int(np.argmin(np.abs(swept.fires - fires)))
    best = np.flatnonzero(swept.threshold == _of_all(decided))
    return {
        # JSON has no infinities; the script reads these words as numbers.
        "threshold": [
            value if math.isfinite(value) else str(value).replace("inf", "Infinity")
            for value in swept.threshold.tolist()
        ],
        "total": swept.total.tolist(),
        "fires": swept.fires.tolist(),
        **{name: [_short(value) for value in getattr(swept, name)] for name in DRAWN},
        "start": start,
        "best": int(best[0]) if len(best) else start,
        "of": swept.of,
    }


def _fired(decided: Decisions, shown: OrderedForks) -> list[int]:
    """Return 1 where it fires, fork by fork."""
    fired = decided.fired
    if isinstance(fired, Undefined):
        return [0] * len(shown.index)
    return [int(index is not None and fired[index]) for index in shown.index]


def _of_all(decided: Decisions) -> float:
    """Return the threshold that earns the most on all scored forks together."""
    assert decided.threshold_of_all is not None
    return decided.threshold_of_all


def _fitted(decided: Decisions) -> list[float]:
    """Return the distinct thresholds that scoring fitted and that a line can be drawn at."""
    if decided.threshold is None:
        return []
    return [float(value) for value in np.unique(decided.threshold) if math.isfinite(value)]


def _official(figures: TriggerScore) -> Json | None:
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


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def _short(value: float | None) -> float | None:
    """Return a number that is only drawn or read, with nine digits."""
    return None if (number := _finite(value)) is None else float(f"{number:.9g}")
