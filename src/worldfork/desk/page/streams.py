"""A stream's log, condensed to what a screen can show: bins of steps with their least, mean and largest value."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from worldfork.ledger.arrays import content_digest, read_parquet

__all__ = ["condense", "read_condensed"]

BINS = 240  # a pixel or two each at the width of a phone
DIGITS = 5


def read_condensed(path: Path) -> tuple[str, dict[str, Any]]:
    """The log at `path`, condensed, with the content digest that tells which arms share it."""
    log = read_parquet(path)
    return content_digest(log), condense(log)


def condense(log: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Error and KL in bins, level at the bins' first steps, and the return of every episode."""
    steps = len(log["step"])
    width = max(1, -(-steps // BINS))
    quantities = {name: np.asarray(log[name], dtype=np.float64) for name in ("error", "kl") if name in log}
    episode = np.asarray(log["episode"], dtype=np.int64)
    return {
        "steps": steps,
        "width": width,
        "level": rounded(np.asarray(log["level"], dtype=np.float64)[::width]),
        "episode_return": rounded(np.bincount(episode, weights=np.asarray(log["reward"], np.float64))[1:]),
        "episode_steps": int((episode == episode[0]).sum()) if steps else 0,
        "non_finite": {name: int((~np.isfinite(values)).sum()) for name, values in quantities.items()},
        **{name: _bins(values, width) for name, values in quantities.items()},
    }


def rounded(values: Float[np.ndarray, "*shape"]) -> list[Any]:
    """Few digits for a picture; what is not finite is null.

    >>> rounded(np.array([1 / 3, np.nan]))
    [0.33333, None]
    """
    if values.ndim > 1:
        return [rounded(row) for row in values]
    return [float(f"{value:.{DIGITS}g}") if np.isfinite(value) else None for value in values.tolist()]


def _bins(values: Float[np.ndarray, "steps"], width: int) -> dict[str, list[float | None]] | None:
    """Least, mean and largest finite value of each bin; None where nothing was logged at all."""
    known = np.isfinite(values)
    if not known.any():
        return None
    starts = np.arange(0, len(values), width)
    count = np.add.reduceat(known, starts)
    total = np.add.reduceat(np.where(known, values, 0.0), starts)
    empty = count == 0

    def settled(bins: Float[np.ndarray, "bins"]) -> list[Any]:
        return rounded(np.where(empty, np.nan, bins))

    return {
        "low": settled(np.minimum.reduceat(np.where(known, values, np.inf), starts)),
        "mean": settled(total / np.maximum(count, 1)),
        "high": settled(np.maximum.reduceat(np.where(known, values, -np.inf), starts)),
    }
