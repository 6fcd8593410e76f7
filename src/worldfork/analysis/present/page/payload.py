"""Data that the page's script looks up, as one JSON value with packed columns (packing.py).

Nothing is left for the script to compute but places on a screen. Returns and totals keep every digit, so that what
the page shows is what `worldfork score` says; what is only drawn has four bytes. An undefined figure is null.
"""

import json
import math
from typing import Final

import numpy as np

from worldfork.analysis.present.page.forks import (
    BINS,
    BINS_OF_MANY,
    SMALL_PAGE,
    fork_columns,
    places,
    read_stream,
)
from worldfork.analysis.present.page.material import Material
from worldfork.analysis.present.page.thresholds import trigger_columns
from worldfork.analysis.present.text.formatting import defined, digits_for
from worldfork.analysis.score.clusters import partition
from worldfork.analysis.score.records import TaskScore
from worldfork.registration import Cell

SCHEMA: Final = "worldfork.page/3"


def payload(material: Material) -> dict[str, object]:
    """Return the page's data: one part per arm and task, and the streams that they share."""
    streams: dict[str, dict[str, object]] = {}
    small = size(material) <= SMALL_PAGE
    parts: list[object] = [
        _part(material, arm, task, task_score, streams, small=small)
        for arm, arm_score in material.score.arms.items()
        for task, task_score in arm_score.tasks.items()
    ]
    return {
        "schema": SCHEMA,
        "parts": parts,
        "streams": list(streams.values()),
        "permutations": material.rules.permutations,
        "small": small,
    }


def size(material: Material) -> int:
    """Return how many forks all tasks and arms have together."""
    return sum(len(score.evidence.forks) for arm in material.score.arms.values() for score in arm.tasks.values())


def embed(value: object) -> str:
    """Return JSON that can stand inside a script element: nothing in it can close the element or open a comment.

    >>> embed({"cell": "</script>"})
    '{"cell":"\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _part(
    material: Material,
    arm: str,
    task: str,
    score: TaskScore,
    streams: dict[str, dict[str, object]],
    *,
    small: bool,
) -> dict[str, object]:
    forks = score.evidence.forks
    shown = places(forks, material.rows, arm=arm, task=task)
    means = dict(zip(forks.prefork.cells, partition(forks.prefork).cell_means(forks.delta).tolist(), strict=True))
    sizes = np.sort(np.abs(forks.delta))
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
                "stream": _stream(material, shown.cells[key], streams, bins=BINS if small else BINS_OF_MANY),
                "mean": None if math.isnan(mean := means.get(key, math.nan)) else mean,
                **({} if (cell := shown.cells[key]) is None else {"id": cell.id}),
            }
            for key in shown.cells
        ],
        "forks": fork_columns(shown, forks, score.evidence.divergence.dropped, small=small),
        "policies": {
            "all_attempted": _references(score, "all_attempted"),
            "retained": _references(score, "retained"),
        },
        "triggers": trigger_columns(score, shown, rules=material.rules),
        "contraction": _contraction(score),
    }


def _references(score: TaskScore, side: str) -> dict[str, object]:
    references = score.policies[side]
    return {
        "always": defined(references.always),
        "oracle": defined(references.oracle),
        "forks": score.forks.attempted if side == "all_attempted" else score.forks.retained,
        "deployments": max(1, getattr(score.effect, side).cells),
    }


def _contraction(score: TaskScore) -> dict[str, object]:
    """Return the fitted line."""
    fit = score.contraction
    return {
        "slope": defined(fit.slope),
        "interval": defined(fit.slope_interval),
        "intercept": defined(fit.intercept),
        "crossing": defined(fit.crossing),
    }


def _stream(
    material: Material, cell: Cell | None, streams: dict[str, dict[str, object]], *, bins: int
) -> int | None:
    if cell is None or material.study is None:
        return None
    path, _ = material.study.cell(cell.id).stream_files()
    if not path.exists():
        return None
    digest, condensed = read_stream(path, bins=bins)
    streams.setdefault(digest, condensed)
    return list(streams).index(digest)
