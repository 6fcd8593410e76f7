"""Small worlds for the analysis' tests: forks with everything but what a test is about filled in."""

import numpy as np
import polars as pl

from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.read.table import read_table


def frame(delta, *, hold=100.0, **columns):
    """A flat table with one row per entry of `delta`; any column can be given."""
    delta = np.asarray(delta, dtype=float)
    count = len(delta)
    r_hold = np.broadcast_to(np.asarray(hold, dtype=float), count)
    given = {
        "task": ["world"] * count,
        "checkpoint": ["0"] * count,
        "direction": ["away"] * count,
        "stream_seed": [0] * count,
        "r_hold": r_hold,
        "r_update": r_hold + delta,
        **{name: list(values) for name, values in columns.items()},
    }
    if "k" not in given:
        seen: dict[tuple, int] = {}
        given["k"] = []
        for cell in zip(given["task"], given["checkpoint"], given["direction"], given["stream_seed"], strict=True):
            seen[cell] = seen.get(cell, 0) + 1
            given["k"].append(seen[cell])
    return pl.DataFrame(given, strict=False)


def forks(delta, **columns) -> Forks:
    """The forks of a one-task table, in canonical order."""
    return next(iter(read_table(frame(delta, **columns)).arms[""].values()))


def crossed(checkpoints=5, directions=("away", "toward"), seeds=(0,), k=24):
    """The identity columns of a full grid, in canonical order."""
    rows = [
        (str(checkpoint), direction, seed, step)
        for checkpoint in range(checkpoints)
        for direction in directions
        for seed in seeds
        for step in range(1, k + 1)
    ]
    return dict(zip(("checkpoint", "direction", "stream_seed", "k"), zip(*rows, strict=True), strict=True))


def study(seed=0, *, noise=0.2, checkpoints=5, k=12, episodes=None):
    """A plausible study: dR grows with a level that the signals see through noise."""
    draws = np.random.default_rng(seed)
    grid = crossed(checkpoints, k=k)
    step = np.array(grid["k"])
    level = np.where(np.array(grid["direction"]) == "away", step / k, 1 - step / k)
    hold = 600 - 300 * level + draws.normal(0, 20, len(level))
    delta = 200 * level - 120 + draws.normal(0, 30, len(level))
    more = {}
    if episodes:
        wobble = draws.normal(0, 50, (2, len(level), episodes))
        wobble -= wobble.mean(axis=2, keepdims=True)
        more = {
            "hold": (hold[:, None] + wobble[0]).tolist(),
            "update": ((hold + delta)[:, None] + wobble[1]).tolist(),
        }
    table = frame(
        delta,
        hold=hold,
        level=level,
        signal_residual=level + draws.normal(0, noise, len(level)),
        signal_noise=draws.normal(0, 1, len(level)),
        **grid,
    )
    return table.with_columns(**{name: pl.Series(values) for name, values in more.items()})
