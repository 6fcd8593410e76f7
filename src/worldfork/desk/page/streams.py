"""A stream's log, condensed to what a screen can show: bins of steps with their least, mean and largest value."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
from jaxtyping import Bool, Float

from worldfork.desk.page.packing import pack
from worldfork.ledger.arrays import content_digest, read_parquet

__all__ = ["BINS", "BINS_OF_MANY", "condense", "pack_stream", "read_condensed"]

BINS: Final = 240  # a pixel or two each at the width of a phone
BINS_OF_MANY: Final = 120  # of each stream on a page of many forks
LEVELS: Final = 254  # heights that a packed panel tells apart, in 84 pixels; 255 is a bin without a value
WORLD: Final = (
    "step",
    "env_step",
    "episode",
    "level",
    "rate",
    "sigma_a",
    "reward",
    "terminated",
    "real",
)  # the rest is the agent's
WORDS: Final = {"error": "one-step error (the model's units)", "kl": "KL (nats)"}


def read_condensed(path: Path, *, bins: int = BINS) -> tuple[str, dict[str, object]]:
    """The log at `path`, condensed, with the content digest that tells which arms share it."""
    log = read_parquet(path)
    return content_digest(log), condense(log, bins=bins)


def condense(log: Mapping[str, np.ndarray], *, bins: int = BINS) -> dict[str, object]:
    """What the agent logged in bins, level at the bins' first steps, and the return of every episode."""
    steps = len(log["step"])
    width = max(1, -(-steps // bins))
    episode = np.asarray(log["episode"], dtype=np.int64)
    past = ~np.asarray(log["real"], dtype=np.bool_) if "real" in log else np.zeros(steps, np.bool_)
    return {
        "steps": steps,
        "width": width,
        "level": np.asarray(log["level"], dtype=np.float64)[::width],
        "episode_return": np.bincount(episode, weights=np.asarray(log["reward"], np.float64))[1:],
        "episode_steps": int((episode == episode[0]).sum()) if steps else 0,
        "panels": [
            _panel(name, np.asarray(values, dtype=np.float64), width, past=past)
            for name, values in log.items()
            if name not in WORLD
        ],
    }


def pack_stream(condensed: Mapping[str, object]) -> dict[str, object]:
    """The same for the page: a panel's values as heights between its least and its cap."""
    packed = dict(condensed)
    level, returns = condensed["level"], condensed["episode_return"]
    assert isinstance(level, np.ndarray)
    assert isinstance(returns, np.ndarray)
    packed["episode_return"] = pack(returns, "f32")
    packed["level"] = pack(_heights(level, 0.0, 1.0), "u8")
    panels = condensed["panels"]
    assert isinstance(panels, list)
    packed["panels"] = [_pack_panel(panel) for panel in panels]
    return packed


def _panel(
    name: str, values: Float[np.ndarray, "steps"], width: int, *, past: Bool[np.ndarray, "steps"]
) -> dict[str, object]:
    """Least, mean and largest finite value of each bin; without them where nothing was logged at all."""
    known = np.isfinite(values)
    panel: dict[str, object] = {
        "name": name,
        "words": WORDS.get(name, name),
        "non_finite": int((~known & ~past).sum()),
    }
    if not known.any():
        return {**panel, "non_finite": 0}
    starts = np.arange(0, len(values), width)
    count = np.add.reduceat(known, starts)
    mean = np.where(count, np.add.reduceat(np.where(known, values, 0.0), starts) / np.maximum(count, 1), np.nan)
    low = np.where(count, np.minimum.reduceat(np.where(known, values, np.inf), starts), np.nan)
    high = np.where(count, np.maximum.reduceat(np.where(known, values, -np.inf), starts), np.nan)
    # A few bursts would flatten all the rest: the axis ends where a tenth of the bins still reaches.
    cap = min(np.nanmax(high), max(1.6 * np.nanmax(mean), np.nanquantile(high, 0.9)))
    return {
        **panel,
        "low": low,
        "mean": mean,
        "high": high,
        "floor": min(0.0, float(np.nanmin(low))),
        "cap": float(cap),
    }


def _pack_panel(panel: dict[str, object]) -> dict[str, object]:
    if "mean" not in panel:
        return panel
    floor, cap = float(panel["floor"]), float(panel["cap"])  # type: ignore[arg-type]
    room = cap - floor or 1.0
    packed = dict(panel)
    for name in ("low", "mean", "high"):
        packed[name] = pack(_heights(np.asarray(panel[name]), floor, room), "u8")
    return packed


def _heights(values: Float[np.ndarray, "bins"], floor: float, room: float) -> Float[np.ndarray, "bins"]:
    """Values as heights between the floor and the top of a panel."""
    share = (values - floor) / room
    return np.where(np.isnan(share), 255.0, np.round(LEVELS * np.clip(share, 0.0, 1.0)))
