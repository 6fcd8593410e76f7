"""Every fork of one task and arm as columns for the page: those that were scored, and those without a dR.

r_hold and r_update keep every digit, and dR is their difference, here as there. What only a panel about one fork
shows (episodes, what the update did, the row's digest) is embedded for every fork of a small page; of a large one
for the forks with the largest and the least dR, and the ledger has the rest.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from worldfork.analysis.present.page.packing import pack
from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.score.clusters import natural
from worldfork.counting import plural
from worldfork.ledger.arrays import content_digest, read_parquet
from worldfork.ledger.row import ForkRow
from worldfork.registration import Cell
from worldfork.triggers import CellKey

DIGEST: Final = 24  # characters of a row's digest: enough to find it
SMALL_PAGE: Final = 5_000  # forks of all tasks and arms together, up to which everything about each is embedded
EXTREMES: Final = 100  # forks at either end of dR that a large page tells everything about


@dataclasses.dataclass(frozen=True)
class Places:
    """Forks in the page's order: by direction, checkpoint, stream seed, then k."""

    cells: Mapping[CellKey, Cell | None]  # in order; None where a flat table has no cell folders
    keys: Sequence[tuple[CellKey, int]]
    index: Sequence[int | None]  # among the scored forks; None without a dR
    rows: Mapping[tuple[CellKey, int], Sequence[ForkRow]]  # one for each draw of the fork's update


def places(forks: Forks, rows: Mapping[Cell, Sequence[ForkRow]], *, arm: str, task: str) -> Places:
    """Return where every fork stands, scored or not."""
    prefork = forks.prefork
    cells: dict[CellKey, Cell | None] = dict.fromkeys(prefork.cells)
    recorded: dict[tuple[CellKey, int], list[ForkRow]] = {}
    for cell, inside in rows.items():
        if (cell.arm, cell.task) == (arm, task) and inside:
            key = CellKey(str(cell.checkpoint), cell.direction, cell.stream_seed)
            cells[key] = cells.get(key) or cell  # the first draw's: all draws share the stream
            for row in inside:
                recorded.setdefault((key, row.k), []).append(row)
    scored = {
        (prefork.cells[cell], int(k)): index
        for index, (cell, k) in enumerate(zip(prefork.cell, prefork.k, strict=True))
    }
    keys = sorted({**scored, **recorded}, key=lambda place: (_by_direction(place[0]), place[1]))
    ordered = dict.fromkeys(key for key, _ in keys)
    return Places({key: cells[key] for key in ordered}, keys, [scored.get(place) for place in keys], recorded)


class _Line(NamedTuple):
    step: int
    level: float | None
    r_hold: float | None
    r_update: float | None
    diverged: bool


def fork_columns(
    shown: Places, forks: Forks, diverged: Bool[np.ndarray, "forks"], *, small: bool
) -> dict[str, object]:
    """Return packed columns in the page's order; `detail` lists the forks that everything is embedded about."""
    cell = {key: index for index, key in enumerate(shown.cells)}
    lines = [
        _scored(forks, index, diverged) if index is not None else _unscored(shown.rows[place][0])
        for place, index in zip(shown.keys, shown.index, strict=True)
    ]
    detail = np.arange(len(lines)) if small else _extremes(shown, forks)
    return {
        "k": pack([k for _, k in shown.keys], "u16"),
        "cell": pack([cell[key] for key, _ in shown.keys], "u16"),
        "scored": pack([index is not None for index in shown.index], "u8"),
        "diverged": pack([line.diverged for line in lines], "u8"),
        "step": pack([line.step for line in lines], "u32"),
        "level": pack([line.level for line in lines], "f32"),
        "r_hold": pack([line.r_hold for line in lines], "f64"),
        "r_update": pack([line.r_update for line in lines], "f64"),
        "detail": pack(detail, "u32"),
        **_episodes(shown, forks, detail),
        **_recorded(shown, detail),
    }


def _extremes(shown: Places, forks: Forks) -> Int[np.ndarray, "some"]:
    delta = np.array([0.0 if index is None else float(forks.delta[index]) for index in shown.index])
    order = np.argsort(delta, kind="stable")
    return np.unique(np.concatenate([order[:EXTREMES], order[-EXTREMES:]]))


def _scored(forks: Forks, index: int, diverged: Bool[np.ndarray, "forks"]) -> _Line:
    prefork, outcomes = forks.prefork, forks.outcomes
    return _Line(
        int(prefork.step[index]),
        float(prefork.level[index]),
        float(outcomes.r_hold[index]),
        float(outcomes.r_update[index]),
        bool(diverged[index]),
    )


def _unscored(row: ForkRow) -> _Line:
    return _Line(row.step, row.level, row.r_hold, row.r_update, False)


def _episodes(shown: Places, forks: Forks, detail: np.ndarray) -> dict[str, object]:
    """Return the returns of both branches episode by episode, where there are any."""
    pairs = []
    for place in detail.tolist():
        index, (key, k) = shown.index[place], shown.keys[place]
        if index is not None and forks.outcomes.hold is not None and forks.outcomes.update is not None:
            pairs.append((forks.outcomes.hold[index], forks.outcomes.update[index]))
        elif index is None and (key, k) in shown.rows:
            row = shown.rows[key, k][0]
            pairs.append((_numbers(row.hold), _numbers(row.update)))
        else:
            pairs.append((np.zeros(0), np.zeros(0)))
    most = max((len(hold) for hold, _ in pairs), default=0)
    if not most:
        return {}
    table = np.full((2, len(pairs), most), np.nan)
    for place, (hold, update) in enumerate(pairs):
        table[0, place, : len(hold)], table[1, place, : len(update)] = hold, update
    return {
        "episodes": most,
        "hold": pack(table[0].ravel(), "f32"),
        "update": pack(table[1].ravel(), "f32"),
        "better": pack((table[1] > table[0]).sum(axis=1), "u16"),
    }


def _recorded(shown: Places, detail: np.ndarray) -> dict[str, object]:
    """Return what a study's own rows add: of the first draw of the update, and what the others returned."""
    if not shown.rows:
        return {}
    drawn = [shown.rows[shown.keys[place]] for place in detail.tolist()]
    first = [draws[0] for draws in drawn]
    fits = [
        [row.fit.loss_before, row.fit.loss_after, row.fit.grad_norm, row.fit.param_shift, row.fit.window]
        for row in first
    ]
    most = max(map(len, drawn), default=1)
    several = {
        "draws": most,
        "drawn": pack(
            [value for draws in drawn for value in _filled([row.r_update for row in draws], most)], "f32"
        ),
    }
    return {
        "env_step": pack([row.env_step for row in first], "u32"),
        "fit": pack([value for fit in fits for value in fit], "f32"),
        "digest": "".join(row.digest[:DIGEST] for row in first),
        "digest_length": DIGEST,
        "broken": {str(place): words for place, row in enumerate(first) if (words := _broken(row))},
        **(several if most > 1 else {}),
    }


def _filled(values: Sequence[float | None], count: int) -> list[float | None]:
    return [*values, *[None] * (count - len(values))]


def _numbers(values: Sequence[float | None]) -> np.ndarray:
    return np.array([math.nan if value is None else value for value in values], dtype=np.float64)


def _broken(row: ForkRow) -> str | None:
    """Return in words whatever was not finite or not stable."""
    counts = {
        "non-finite parameter": {"UPDATE": row.fit.non_finite},
        "non-finite action": {"HOLD": row.nonfinite_actions.hold, "UPDATE": row.nonfinite_actions.update},
        "non-finite return": {"HOLD": row.nonfinite_returns.hold, "UPDATE": row.nonfinite_returns.update},
        "unstable episode": {"HOLD": row.unstable_episodes.hold, "UPDATE": row.unstable_episodes.update},
    }
    counted = [
        f"{plural(count, noun)} in {branch}"
        for noun, branches in counts.items()
        for branch, count in branches.items()
        if count
    ]
    return f"Counted: {'; '.join(counted)}." if counted else None


def _by_direction(key: CellKey) -> tuple[str, tuple[int, int, str], int]:
    return key.direction, natural(key.checkpoint), key.stream_seed


BINS: Final = 240  # a pixel or two each at the width of a phone
BINS_OF_MANY: Final = 120  # of each stream on a page of many forks
LEVELS: Final = 254  # heights that a panel tells apart, in 84 pixels; 255 is a bin without a value
WORLD: Final = frozenset(
    ["step", "env_step", "episode", "level", "rate", "sigma_a", "reward", "terminated", "real"]
)
WORDS: Final = {"error": "one-step error (the model's units)", "kl": "KL (nats)"}


def read_stream(path: Path, *, bins: int = BINS) -> tuple[str, dict[str, object]]:
    """Return the log at `path`, condensed, with the content digest that tells which arms share it."""
    log = read_parquet(path)
    return content_digest(log), condense(log, bins=bins)


def condense(log: Mapping[str, np.ndarray], *, bins: int = BINS) -> dict[str, object]:
    """Return what the agent logged in bins, the drift level at their first steps, and the return of every episode.

    Columns that `WORLD` does not name are the agent's.
    """
    steps = len(log["step"])
    width = max(1, -(-steps // bins))
    episode = np.asarray(log["episode"], dtype=np.int64)
    past = ~np.asarray(log["real"], dtype=np.bool_) if "real" in log else np.zeros(steps, np.bool_)
    returns = np.bincount(episode, weights=np.asarray(log["reward"], np.float64))[1:]
    return {
        "steps": steps,
        "width": width,
        "level": _heights(np.asarray(log["level"], dtype=np.float64)[::width], 0.0, 1.0),
        "episode_return": pack(returns, "f32"),
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


def _heights(values: Float[np.ndarray, "bins"], floor: float, cap: float) -> dict[str, str]:
    """Return values as packed heights between the floor and the cap of a panel."""
    share = (values - floor) / (cap - floor or 1.0)
    return pack(np.where(np.isnan(share), 255.0, np.round(LEVELS * np.clip(share, 0.0, 1.0))), "u8")
