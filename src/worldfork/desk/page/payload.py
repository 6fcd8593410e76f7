"""Everything that the page computes with, as one JSON value.

Outcomes and signals keep every digit, because the page sums them and must come to what `worldfork score` says;
what is only drawn is rounded. An undefined figure is `{"why": reason}`, never null and never zero.
"""

import json
import math
from typing import Any, Final

import numpy as np

from worldfork.desk.page.material import Material
from worldfork.desk.page.record import varies
from worldfork.desk.page.streams import read_condensed, rounded
from worldfork.desk.reading.prefork import CellKey
from worldfork.desk.scoring.decisions import Decisions
from worldfork.desk.scoring.partition import natural
from worldfork.desk.scoring.records import TaskScore
from worldfork.desk.scoring.undefined import Undefined, as_tree
from worldfork.desk.triggers import is_reference
from worldfork.desk.wording import digits_for
from worldfork.ledger.row import ForkRow
from worldfork.registration import Cell

__all__ = ["embed", "payload", "reasoned"]

SCHEMA: Final = "worldfork.page/1"
OVERFLOW: Final = "the arithmetic overflowed: the returns are too large to square"
NOT_SHOWN: Final = ("triggers_unavailable", "divergence", "predictions")  # the template prints these


def payload(material: Material) -> dict[str, Any]:
    """The page's data: one part per arm and task, and the streams that they share."""
    streams: dict[str, dict[str, Any]] = {}
    parts = [
        _part(material, arm, task, one, streams)
        for arm, scored in material.score.arms.items()
        for task, one in scored.tasks.items()
    ]
    registration = material.study.registration if material.study else None
    return {
        "schema": SCHEMA,
        "name": material.name,
        "parts": parts,
        "streams": streams,
        "contrasts": material.score.to_json()["contrasts"],
        "varies": varies(registration) if registration else {},
        "steps": {arm.name: arm.mechanism.steps for arm in registration.arms} if registration else {},
        "permutations": material.rules.permutations,
    }


def embed(value: Any) -> str:
    """JSON that can stand inside a script element: nothing in it can close the element or open a comment.

    >>> embed({"cell": "</script>"})
    '{"cell":"\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def reasoned(tree: Any) -> Any:
    """Plain JSON values, with `{"why": reason}` where there is none.

    >>> reasoned({"auc": Undefined("one class only"), "n": 3})
    {'auc': {'why': 'one class only'}, 'n': 3}
    """
    match tree:
        case Undefined(why):
            return {"why": why}
        case dict():
            return {str(key): reasoned(value) for key, value in tree.items()}
        case list() | tuple():
            return [reasoned(value) for value in tree]
        case np.generic():
            return reasoned(tree.item())
        case float() if not math.isfinite(tree):
            return {"why": OVERFLOW}
        case _:
            return tree


def _part(
    material: Material, arm: str, task: str, one: TaskScore, streams: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    rows = {
        CellKey(str(cell.checkpoint), cell.direction, cell.stream_seed): (cell, found)
        for cell, found in material.rows.items()
        if (cell.arm, cell.task) == (arm, task)
    }
    scored = {
        (one.evidence.forks.prefork.cells[cell], int(k)): index
        for index, (cell, k) in enumerate(
            zip(one.evidence.forks.prefork.cell, one.evidence.forks.prefork.k, strict=True)
        )
    }
    lost = [(key, row.k) for key, (_, found) in rows.items() for row in found if (key, row.k) not in scored]
    keys = sorted([*scored, *lost], key=lambda place: (_by_direction(place[0]), place[1]))
    cells = list(dict.fromkeys(key for key, _ in keys))
    order = [scored.get(place) for place in keys]
    details = {(key, row.k): row for key, (_, found) in rows.items() for row in found}
    tree: Any = as_tree(one)
    figures = {name: value for name, value in tree.items() if name not in NOT_SHOWN}
    plain: dict[str, Any] = one.to_json()
    return {
        "arm": arm,
        "task": task,
        "digits": digits_for(plain["effect"]["all_attempted"]),
        "figures": reasoned(figures),
        "cells": [
            {
                "checkpoint": key.checkpoint,
                "direction": key.direction,
                "stream_seed": key.stream_seed,
                "stream": _stream(material, rows[key][0], streams) if key in rows else None,
            }
            for key in cells
        ],
        "forks": [
            _fork(one, index, cells.index(key), k, details.get((key, k)))
            for (key, k), index in zip(keys, order, strict=True)
        ],
        "triggers": {
            name: _trigger(name, one.evidence.retained[name], one.evidence.all_attempted[name], one, order)
            for name in one.evidence.retained
        },
        "unavailable": {name: why.why for name, why in one.triggers_unavailable.items()},
    }


def _by_direction(key: CellKey) -> tuple[str, tuple[int, int, str], int]:
    """Cells by direction, then checkpoint, then stream seed: the order in which people compare them."""
    return key.direction, natural(key.checkpoint), key.stream_seed


def _fork(one: TaskScore, index: int | None, cell: int, k: int, row: ForkRow | None) -> dict[str, Any]:
    fork: dict[str, Any] = {"cell": cell, "k": k}
    if index is not None:
        prefork, outcomes = one.evidence.forks.prefork, one.evidence.forks.outcomes
        level = float(prefork.level[index])
        fork |= {
            "step": int(prefork.step[index]),
            "level": None if math.isnan(level) else level,
            "r_hold": float(outcomes.r_hold[index]),
            "r_update": float(outcomes.r_update[index]),
            "delta": float(outcomes.delta[index]),
            "diverged": bool(one.evidence.divergence.dropped[index]),
        }
        if outcomes.hold is not None and outcomes.update is not None:
            paired = ~np.isnan(outcomes.hold[index]) | ~np.isnan(outcomes.update[index])
            fork |= {
                "hold": rounded(outcomes.hold[index][paired]),
                "update": rounded(outcomes.update[index][paired]),
            }
    if row is not None:
        if index is None:
            fork |= {"step": row.step, "level": row.level, "r_hold": row.r_hold, "r_update": row.r_update}
            fork |= {"delta": None, "diverged": False, "hold": list(row.hold), "update": list(row.update)}
        fork |= {
            "env_step": row.env_step,
            "fit": row.fit.model_dump(),
            "counts": {
                "non-finite actions": row.nonfinite_actions.model_dump(),
                "non-finite returns": row.nonfinite_returns.model_dump(),
                "unstable episodes": row.unstable_episodes.model_dump(),
            },
            "digest": row.digest,
        }
    return fork


def _trigger(
    name: str, retained: Decisions, attempted: Decisions, one: TaskScore, order: list[int | None]
) -> dict[str, Any]:
    """What a trigger saw at every fork and the thresholds that scoring fitted; or, for alarms, its decisions."""
    if retained.signal is None:
        fired = retained.fired
        assert not isinstance(fired, Undefined)
        return {
            "reference": is_reference(name),
            "fired": [index is not None and bool(fired[index]) for index in order],
        }
    values = [None if index is None else float(retained.signal[index]) for index in order]
    return {
        "reference": is_reference(name),
        "signal": [None if value is None or math.isnan(value) else value for value in values],
        "thresholds": {
            "retained": _thresholds(retained, one),
            "all_attempted": _thresholds(attempted, one),
        },
    }


def _thresholds(decisions: Decisions, one: TaskScore) -> dict[str, float | str] | None:
    """By checkpoint; an infinite one is spelled out, for JSON has no infinity."""
    if decisions.threshold is None:
        return None
    owners = [one.evidence.forks.prefork.cells[cell].checkpoint for cell in one.evidence.forks.prefork.cell]
    return {
        owner: threshold if math.isfinite(threshold) else f"{threshold}"
        for owner, threshold in zip(owners, decisions.threshold.tolist(), strict=True)
    }


def _stream(material: Material, cell: Cell, streams: dict[str, dict[str, Any]]) -> str | None:
    assert material.study is not None
    path = material.study.cell(cell.id).path / "stream.parquet"
    if not path.exists():
        return None
    digest, condensed = read_condensed(path)
    return streams.setdefault(digest, {**condensed, "id": digest})["id"]
