"""Studies with [stopping], written by hand: as many checkpoints as their looks ask for."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import tiny

from worldfork.ledger.looks import follow
from worldfork.ledger.row import ForkRow, finite, mean
from worldfork.ledger.store import Study, writing
from worldfork.registration import Cell, parse

CHECKPOINTS = 14
AUTHORED = (
    tiny.TWO_ARMS.replace("checkpoints = [0]", f"checkpoints = {list(reversed(range(CHECKPOINTS)))}")
    + """
[[arms]]
name = "spare"
mechanism = { steps = 7 }
[stopping]
questions = [
    { task = "linear_quadratic", arm = "few" },
    { task = "linear_quadratic", arm = "many", against = "few" },
]
"""
)


def gained(cell: Cell, k: int) -> tuple[float, float]:
    """The two episodes' dR of a fork: `few` gains clearly, `many` more than that, and `spare` nothing."""
    spread = ((7 * cell.checkpoint) % 11) / 5 - 1.0
    base = {"few": 2.0 + spread, "many": 2.7 + 1.9 * spread, "spare": 0.3 * spread}[cell.arm]
    return base + 0.1 * k, base - 0.2


def write(
    folder: Path, authored: str = AUTHORED, of_fork: Callable[[Cell, int], tuple[float, float]] = gained
) -> Study:
    """The study as `worldfork run` would leave it, had its forks come out so."""
    registration = parse(authored)
    rows: dict[Cell, list[ForkRow]] = {}
    with writing(folder, registration, authored=authored) as study:
        while due := [cell for cell in follow(registration, rows).due if cell not in rows]:
            study.begin({cell.id: tiny.configuration(registration, cell) for cell in due})
            tiny.keep_modules(study)
            for cell in due:
                study.cell(cell.id).write_stream(tiny.STREAM, tiny.RECORDING)
                rows[cell] = study.cell(cell.id).append([_fork(cell, k, of_fork(cell, k)) for k in (1, 2, 3)])
            study.record_looks(follow(registration, rows).looks)
    return study


def _fork(cell: Cell, k: int, deltas: tuple[float, float]) -> ForkRow:
    hold = finite([20.0 + cell.checkpoint + k, 21.0 - k])
    update = finite([before + delta for before, delta in zip(hold, deltas, strict=True)])  # type: ignore[operator]
    means: Any = mean(hold), mean(update)
    return tiny.fork(
        k,
        cell=cell.id,
        hold=hold,
        update=update,
        r_hold=means[0],
        r_update=means[1],
        delta=means[1] - means[0],
    )
