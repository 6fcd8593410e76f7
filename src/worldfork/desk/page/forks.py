"""Every fork of one task and arm as columns for the page: those that were scored, and those without a dR."""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool

from worldfork.desk.page.streams import rounded
from worldfork.desk.reading.outcomes import Forks
from worldfork.desk.reading.prefork import CellKey
from worldfork.desk.scoring.partition import natural
from worldfork.ledger.row import ForkRow
from worldfork.registration import Cell

__all__ = ["Places", "fork_columns", "places"]

DIGEST = 24  # characters of a row's digest: enough to find it


@dataclasses.dataclass(frozen=True)
class Places:
    """The forks in the page's order: by direction, checkpoint, stream seed, then k."""

    cells: Mapping[CellKey, Cell | None]  # in order; None where a flat table has no cell folders
    keys: Sequence[tuple[CellKey, int]]
    index: Sequence[int | None]  # among the scored forks; None without a dR
    rows: Mapping[tuple[CellKey, int], Sequence[ForkRow]]  # one for each draw of the fork's update


def places(forks: Forks, rows: Mapping[Cell, Sequence[ForkRow]], *, arm: str, task: str) -> Places:
    """Where every fork stands, scored or not."""
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


def fork_columns(shown: Places, forks: Forks, diverged: Bool[np.ndarray, "forks"]) -> dict[str, object]:
    """One list per quantity, in the page's order; a quantity that no fork has is left out."""
    cell = {key: index for index, key in enumerate(shown.cells)}
    table = [
        {
            "k": k,
            "cell": cell[key],
            **({} if index is None else _scored(forks, index, bool(diverged[index]))),
            **(_recorded(shown.rows[key, k], scored=index is not None) if (key, k) in shown.rows else {}),
        }
        for (key, k), index in zip(shown.keys, shown.index, strict=True)
    ]
    names = dict.fromkeys(name for row in table for name in row)
    columns: dict[str, list[object]] = {name: [row.get(name) for row in table] for name in names}
    return {name: column for name, column in columns.items() if any(value is not None for value in column)}


def _scored(forks: Forks, index: int, diverged: bool) -> dict[str, object]:
    prefork, outcomes = forks.prefork, forks.outcomes
    level = float(prefork.level[index])
    fork: dict[str, object] = {
        "step": int(prefork.step[index]),
        "level": None if math.isnan(level) else level,
        "r_hold": float(outcomes.r_hold[index]),
        "r_update": float(outcomes.r_update[index]),
        "delta": float(outcomes.delta[index]),
        "diverged": int(diverged),
    }
    if outcomes.hold is not None and outcomes.update is not None:
        hold, update = outcomes.hold[index], outcomes.update[index]
        paired = ~np.isnan(hold) | ~np.isnan(update)
        fork |= {
            "hold": rounded(hold[paired]),
            "update": rounded(update[paired]),
            "better": int((update > hold).sum()),
        }
    return fork


def _recorded(draws: Sequence[ForkRow], *, scored: bool) -> dict[str, object]:
    """What only a study's own rows have: of the first draw of the update, and what the others returned."""
    row = draws[0]
    fit = row.fit
    shown: dict[str, object] = {
        "env_step": row.env_step,
        "fit": [*_brief(fit.loss_before, fit.loss_after, fit.grad_norm, fit.param_shift), fit.transitions],
        "broken": _broken(row),
        "digest": row.digest[:DIGEST],
    }
    if len(draws) > 1:
        shown["draws"] = _brief(*(draw.r_update for draw in draws))
    if not scored:
        better = sum(u > h for h, u in zip(row.hold, row.update, strict=True) if h is not None and u is not None)
        shown |= {"step": row.step, "level": row.level, "r_hold": row.r_hold, "r_update": row.r_update}
        shown |= {"diverged": 0, "hold": _brief(*row.hold), "update": _brief(*row.update), "better": better}
    return shown


def _brief(*values: float | None) -> list[object]:
    return rounded(np.array([math.nan if value is None else value for value in values]))


def _broken(row: ForkRow) -> str | None:
    """Whatever was not finite or not stable, in words."""
    counts = {
        "non-finite parameters": {"UPDATE": row.fit.non_finite},
        "non-finite actions": {"HOLD": row.nonfinite_actions.hold, "UPDATE": row.nonfinite_actions.update},
        "non-finite returns": {"HOLD": row.nonfinite_returns.hold, "UPDATE": row.nonfinite_returns.update},
        "unstable episodes": {"HOLD": row.unstable_episodes.hold, "UPDATE": row.unstable_episodes.update},
    }
    counted = [
        f"{count} {what} in {branch}"
        for what, branches in counts.items()
        for branch, count in branches.items()
        if count
    ]
    return f"Counted: {'; '.join(counted)}." if counted else None


def _by_direction(key: CellKey) -> tuple[str, tuple[int, int, str], int]:
    return key.direction, natural(key.checkpoint), key.stream_seed
