"""Two ways of running the same cells, or two directions at the same drift levels, compared pair by pair."""

from typing import Any

import numpy as np

from worldfork.desk.scoring.effects import summary
from worldfork.desk.scoring.partition import group_means, natural, partition
from worldfork.desk.scoring.undefined import Undefined
from worldfork.ledger.outcomes import Forks

__all__ = ["contrast_arms", "contrast_directions"]


def contrast_arms(first: Forks, second: Forks, *, seed: int) -> dict[str, Any] | Undefined:
    """Mean dR of `first` less that of `second` on the cells both have, averaged by checkpoint
    (paper, "Pinned-physics bias and the forward-window arm")."""
    means = []
    for forks in (first, second):
        cells = partition(forks.prefork).cell_means(forks.delta)
        means.append(
            {key: mean for key, mean in zip(forks.prefork.cells, cells, strict=True) if not np.isnan(mean)}
        )
    shared = sorted(set(means[0]) & set(means[1]))
    if not shared:
        return Undefined("the two arms have no cell (checkpoint, direction, stream seed) in common")
    differences = np.array([means[0][key] - means[1][key] for key in shared])
    return {
        **_by_checkpoint(differences, [key.checkpoint for key in shared], seed=seed, task=first.task),
        "cells": len(shared),
    }


def contrast_directions(forks: Forks, *, seed: int) -> dict[str, Any] | Undefined:
    """toward less away at the drift levels that both directions of a checkpoint and stream seed visit."""
    directions = partition(forks.prefork).directions
    if directions != ("away", "toward"):
        return Undefined(f"it needs the directions toward and away; the table has {', '.join(directions)}")
    if np.isnan(forks.prefork.level).any():
        return Undefined("some forks have no drift level")
    # One level may be visited more than once (a saturated ramp): such visits are averaged first.
    visits: dict[tuple[str, int, float], dict[str, list[float]]] = {}
    for cell, level, delta in zip(forks.prefork.cell, forks.prefork.level, forks.delta, strict=True):
        key = forks.prefork.cells[cell]
        place = (key.checkpoint, key.stream_seed, round(float(level), 9))
        visits.setdefault(place, {}).setdefault(key.direction, []).append(float(delta))
    shared = {place: both for place, both in visits.items() if len(both) == 2}
    if not shared:
        return Undefined("the two directions of a stream have no drift level in common")
    differences = np.array([np.mean(both["toward"]) - np.mean(both["away"]) for both in shared.values()])
    return {
        **_by_checkpoint(differences, [place[0] for place in shared], seed=seed, task=forks.task),
        "levels": len({place[2] for place in shared}),
    }


def _by_checkpoint(differences: np.ndarray, owners: list[str], *, seed: int, task: str) -> dict[str, Any]:
    names = sorted(set(owners), key=natural)
    means = group_means(differences, np.array([names.index(owner) for owner in owners]), len(names))
    by_checkpoint = {name: float(mean) for name, mean in zip(names, means, strict=True)}
    return {**summary(means, seed=seed, task=task), "by_checkpoint": by_checkpoint}
