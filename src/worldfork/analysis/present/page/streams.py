"""Logs of streams, condensed to what a screen can show."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
from jaxtyping import Bool, Float

from worldfork.ledger.arrays import content_digest, read_parquet

BINS: Final = 240  # a pixel or two each at the width of a phone
LEVELS: Final = 254  # heights that a panel tells apart, in 84 pixels; 255 is a bin without a value
WORLD: Final = frozenset(
    ["step", "env_step", "episode", "level", "rate", "sigma_a", "reward", "terminated", "real"]
)
WORDS: Final = {"error": "one-step error (the model's units)", "kl": "KL (nats)"}


def read_stream(path: Path) -> tuple[str, dict[str, object]]:
    """Return the log at `path`, condensed, with the content digest that tells which arms share it."""
    log = read_parquet(path)
    return content_digest(log), condense(log)


def condense(log: Mapping[str, np.ndarray]) -> dict[str, object]:
    """Return what the agent logged in bins, the drift level at their first steps, and the return of every episode.

    Columns that `WORLD` does not name are the agent's.
    """
    steps = len(log["step"])
    width = max(1, -(-steps // BINS))
    episode = np.asarray(log["episode"], dtype=np.int64)
    past = ~np.asarray(log["real"], dtype=np.bool_) if "real" in log else np.zeros(steps, np.bool_)
    returns = np.bincount(episode, weights=np.asarray(log["reward"], np.float64))[1:]
    return {
        "steps": steps,
        "width": width,
        "level": _heights(np.asarray(log["level"], dtype=np.float64)[::width], 0.0, 1.0),
        "episode_return": [float(value) if np.isfinite(value) else None for value in returns],
        "episode_steps": int((episode == episode[0]).sum()) if steps else 0,
        "panels": [
            _panel(name, np.asarray(values, dtype=np.float64), width, past=past)
            for name, values in log.items()
            if name not in WORLD
        ],
    }


def _panel(
    name: str, values: Float[np.ndarray, "steps"], width: int, *, past: Bool[np.ndarray, "steps"]
) -> dict[str, object]:
    """Return the least, mean and largest finite value of each bin as heights between a floor and a cap; without
    them where nothing was logged at all."""
    finite = np.isfinite(values)
    panel = {"name": name, "words": WORDS.get(name, name), "non_finite": 0}
    if not finite.any():
        return panel
    starts = np.arange(0, len(values), width)
    count = np.add.reduceat(finite, starts)
    mean = np.where(count, np.add.reduceat(np.where(finite, values, 0.0), starts) / np.maximum(count, 1), np.nan)
    low = np.where(count, np.minimum.reduceat(np.where(finite, values, np.inf), starts), np.nan)
    high = np.where(count, np.maximum.reduceat(np.where(finite, values, -np.inf), starts), np.nan)
    floor = min(0.0, float(np.nanmin(low)))
    # A few bursts would flatten all the rest: the axis ends where a tenth of the bins still reaches.
    cap = float(min(np.nanmax(high), max(1.6 * np.nanmax(mean), np.nanquantile(high, 0.9))))
    heights = {name: _heights(each, floor, cap) for name, each in (("low", low), ("mean", mean), ("high", high))}
    return {**panel, "non_finite": int((~finite & ~past).sum()), "floor": floor, "cap": cap, **heights}


def _heights(values: Float[np.ndarray, "bins"], floor: float, cap: float) -> list[int]:
    """Return values as heights between the floor and the cap of a panel."""
    share = (values - floor) / (cap - floor or 1.0)
    heights = np.where(np.isnan(share), 255.0, np.round(LEVELS * np.clip(share, 0.0, 1.0)))
    return [int(height) for height in heights]
