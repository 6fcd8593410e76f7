"""Is a study what was written? Every chain, every digest, every pair, and the registration they all point to."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from worldfork.errors import WorldforkError
from worldfork.ledger.arrays import content_digest
from worldfork.ledger.row import ForkRow, mean
from worldfork.ledger.store import CellFolder, Study
from worldfork.registration import Registration, canonical, cells, parse

__all__ = ["Verdict", "verify"]


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What was found. `problems` are damage; a study that is merely unfinished has none."""

    rows: int
    expected: int
    cells: int
    problems: tuple[str, ...]

    @property
    def complete(self) -> bool:
        return self.rows == self.expected


def verify(folder: Path | str, *, progress: Callable[[int, int], None] = lambda done, total: None) -> Verdict:
    """Check the whole study; the first problem of each cell is named with its row."""
    study = Study(folder)
    registration = study.registration
    problems = _registered(study, registration)
    grid = {cell.id: cell for cell in cells(registration)}
    points = {arm.name: arm.stream.decision_points for arm in registration.arms}
    begun = study.cells()
    known = {registration.digest, *(entry["before"] for entry in study.amendments())}
    rows: dict[str, list[ForkRow]] = {}
    for number, cell in enumerate(begun, start=1):
        try:
            if cell.id not in grid:
                raise WorldforkError(f"{cell.id} is not a cell of the registration.")
            rows[cell.id] = _checked(cell, points[grid[cell.id].arm], known)
        except WorldforkError as error:
            problems.append(str(error))
        progress(number, len(begun))
    problems += [line for cell in begun if cell.id in rows for line in _shared(cell, rows)]
    expected = sum(points[cell.arm] for cell in grid.values())
    return Verdict(sum(map(len, rows.values())), expected, len(begun), tuple(problems))


def _registered(study: Study, registration: Registration) -> list[str]:
    """registration.json says its own digest and is what registration.toml says."""
    record = (study.path / "registration.json").read_text(encoding="utf-8")
    if record != canonical(json.loads(record)) + "\n" or json.loads(record)["digest"] != registration.digest:
        return ["registration.json is not what was written: its digest does not match."]
    try:
        authored = parse((study.path / "registration.toml").read_text(encoding="utf-8"), name="registration.toml")
    except (OSError, UnicodeDecodeError, WorldforkError) as error:
        return [f"registration.toml can not be read: {error}"]
    return (
        [] if authored.digest == registration.digest else ["registration.toml is not the one that was registered."]
    )


def _checked(cell: CellFolder, points: int, known: set[str]) -> list[ForkRow]:
    configuration = cell.configuration
    if (cell.path / "cell.json").read_text(encoding="utf-8") != canonical(configuration) + "\n":
        raise WorldforkError(f"{cell.id}: cell.json is not in canonical form; it was edited.")
    if configuration.get("cell") != cell.id or configuration.get("registration") not in known:
        raise WorldforkError(f"{cell.id}: cell.json belongs to another cell or another registration.")
    rows = cell.rows()
    if len(rows) > points:
        raise WorldforkError(f"{cell.id}: {len(rows)} rows where {points} are registered.")
    if rows:
        stream, window = (content_digest(arrays) for arrays in cell.read_stream())
    for row in rows:
        where = f"{cell.id}, fork {row.k}"
        if (row.stream, row.window) != (stream, window):
            raise WorldforkError(f"{where}: stream.parquet or window.npz is not the one this row was made from.")
        if row.draws.hold != row.draws.update:
            raise WorldforkError(f"{where}: the branches received different random draws; the pair is no pair.")
        if (row.r_hold, row.r_update) != (mean(row.hold), mean(row.update)) or row.delta != _delta(row):
            raise WorldforkError(f"{where}: the means or their difference do not follow from the episodes.")
    return rows


def _delta(row: ForkRow) -> float | None:
    return None if row.r_hold is None or row.r_update is None else row.r_update - row.r_hold


def _shared(cell: CellFolder, rows: dict[str, list[ForkRow]]) -> list[str]:
    """A cell that took its HOLD branch from another has the other's returns and draws."""
    shares: dict[str, Any] = cell.configuration.get("shares", {})
    owner = shares.get("hold")
    if owner is None:
        return []
    for mine, theirs in zip(rows[cell.id], rows.get(owner, []), strict=False):
        if (mine.hold, mine.draws.hold, mine.stream) != (theirs.hold, theirs.draws.hold, theirs.stream):
            return [f"{cell.id}, fork {mine.k}: HOLD is not that of {owner}, from which it was taken."]
    return []
