"""Is a study what was written? Every chain, every digest, every pair, and the registration they all point to."""

import collections
import dataclasses
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from worldfork.errors import WorldforkError
from worldfork.ledger.arrays import content_digest
from worldfork.ledger.publish import leaves_windows_out
from worldfork.ledger.row import ForkRow, mean
from worldfork.ledger.store import CellFolder, Study
from worldfork.registration import Registration, canonical, cells, parse

__all__ = ["Verdict", "verify"]


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What was found. `problems` are damage; a study that is merely unfinished has none. `notes` say what is not
    here, and so could not be checked."""

    rows: int
    expected: int
    cells: int
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()

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
    known = {study.registration_digest, *(entry["before"] for entry in study.amendments())}
    rows: dict[str, list[ForkRow]] = {}
    windowless = leaves_windows_out(study)
    for number, cell in enumerate(begun, start=1):
        try:
            if cell.id not in grid:
                raise WorldforkError(f"{cell.id} is not a cell of the registration.")
            rows[cell.id] = _checked(cell, points[grid[cell.id].arm], known, windowless=windowless)
        except WorldforkError as error:
            problems.append(str(error))
        progress(number, len(begun))
    problems += [line for cell in begun if cell.id in rows for line in _shared(cell, rows)]
    damaged, notes = _models(study, [cell for cell in begun if cell.id in rows])
    absent = [cell for cell in begun if cell.id in rows and not (cell.path / "window.npz").exists()]
    if windowless and absent:
        notes.append(f"The windows of {len(absent)} cells are not here; their rows hold the digests.")
    expected = sum(points[cell.arm] for cell in grid.values())
    count = sum(map(len, rows.values()))
    return Verdict(count, expected, len(begun), (*problems, *damaged), tuple(notes))


def _registered(study: Study, registration: Registration) -> list[str]:
    """registration.json says its own digest and is what registration.toml says."""
    record = (study.path / "registration.json").read_text(encoding="utf-8")
    if record != canonical(json.loads(record)) + "\n" or json.loads(record)["digest"] != study.registration_digest:
        return ["registration.json is not what was written: its digest does not match."]
    try:
        authored = parse((study.path / "registration.toml").read_text(encoding="utf-8"), name="registration.toml")
    except (OSError, UnicodeDecodeError, WorldforkError) as error:
        return [f"registration.toml can not be read: {error}"]
    return [] if authored == registration else ["registration.toml is not the one that was registered."]


def _checked(cell: CellFolder, points: int, known: set[str], *, windowless: bool) -> list[ForkRow]:
    configuration = cell.configuration
    if (cell.path / "cell.json").read_text(encoding="utf-8") != canonical(configuration) + "\n":
        raise WorldforkError(f"{cell.id}: cell.json is not in canonical form; it was edited.")
    if configuration.get("cell") != cell.id or configuration.get("registration") not in known:
        raise WorldforkError(f"{cell.id}: cell.json belongs to another cell or another registration.")
    rows = cell.rows()
    if len(rows) > points:
        raise WorldforkError(f"{cell.id}: {len(rows)} rows where {points} are registered.")
    stream = content_digest(cell.read_log()) if rows else None
    here = rows and not (windowless and not (cell.path / "window.npz").exists())
    window = content_digest(cell.read_window()) if here else None
    for row in rows:
        where = f"{cell.id}, fork {row.k}"
        if row.stream != stream or (here and row.window != window):
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


def _models(study: Study, begun: list[CellFolder]) -> tuple[list[str], list[str]]:
    """Every model that the cells were made from: damage, and a note on those that are not here.

    A study that is passed on may leave its models behind; their manifests then stand for them.
    """
    wanted: dict[str, set[str]] = {}
    for cell in begun:
        made = cell.configuration
        if made.get("task", {}).get("checkpoints", "generated") != "generated":
            place = f"{made['coordinates']['task']}-{made['coordinates']['checkpoint']}"
            wanted.setdefault(place, set()).add(made["checkpoint"]["digest"])
    problems, absent = [], []
    for name, digests in wanted.items():
        model, manifest = (study.path / "checkpoints" / f"{name}{end}" for end in (".safetensors", ".json"))
        named = digests | ({_digest_said(manifest)} if manifest.exists() else set())
        if model.exists():
            named.add(hashlib.sha256(model.read_bytes()).hexdigest())
        else:
            absent.append("the digests in their manifests" if manifest.exists() else "the digests in the cells")
        if len(named) > 1:
            problems.append(f"checkpoint {name}: the model, its manifest and the cells do not name one digest.")
    return problems, [
        f"{count} of {len(wanted)} models are not here: there are {stand_in} alone."
        for stand_in, count in collections.Counter(absent).items()
    ]


def _digest_said(manifest: Path) -> str:
    try:
        return str(json.loads(manifest.read_text(encoding="utf-8"))["digest"])
    except (OSError, ValueError, KeyError, TypeError):
        return "unreadable"
