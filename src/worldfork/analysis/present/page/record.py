"""Registration, execution, and every way in which the two differ (paper, "Design corrections").

A deviation is found by comparing, not declared: cell.json says what determined the rows, the rows say what was
evaluated, and both are held against the registration that they point to.
"""

import collections
import dataclasses
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from pydantic import Field

from worldfork.analysis.present.page.material import Material
from worldfork.analysis.present.table import Table
from worldfork.analysis.present.text.formatting import DASH, unsigned
from worldfork.counting import plural
from worldfork.ledger.cell import departures
from worldfork.ledger.documents import Amendment, CellRecord, OpenRecord, check, read_json
from worldfork.ledger.looks import follow
from worldfork.ledger.pretraining import Seed, read_seeds
from worldfork.ledger.row import ForkRow, Rows
from worldfork.ledger.store import Study
from worldfork.registration import Cell, Registration
from worldfork.registration.advice import idle_settings

ALIKE: Final = ("device", "simulator", "packages")  # what one study should have one of
COUNTED: Final = {
    "nonfinite_actions": "non-finite action",
    "nonfinite_returns": "non-finite return",
    "unstable_episodes": "unstable episode",
}


@dataclasses.dataclass(frozen=True)
class Deviation:
    """A way in which what was executed differs from what is registered, and where."""

    what: str
    cells: Sequence[str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class StudyRecord:
    """Everything the page prints about how the ledger came about."""

    digest: str
    toml: str
    forks: int
    registered_forks: int  # without those that a study did not need because it stopped
    stopped: str  # as registered, and how many forks were not needed; empty where none were left out so
    draws: int  # of each update's minibatches, at most
    deviations: Sequence[Deviation]
    failed: Sequence[str]
    notes: Sequence[str]
    amendments: Sequence[Amendment]
    made_with: Sequence[tuple[str, list[str]]]
    checkpoints: Table
    trained: bool  # a checkpoint at least was not generated
    seeds: Sequence[Seed]


class _Execution(OpenRecord):
    """execution.json, as far as it is shown."""

    machine: str = ""
    python: str = ""


class _Returns(OpenRecord):
    gate: tuple[float, ...] = ()


class _Manifest(OpenRecord):
    """A checkpoint's manifest, as far as it is shown."""

    seed: int | None = None
    hardware: str | None = None
    returns: _Returns = Field(default_factory=_Returns)


def record(material: Material) -> StudyRecord | None:
    """Return how the ledger came about; None for a flat table."""
    study = material.study
    if study is None:
        return None
    registration = study.registration
    begun = {cell: _cell_record(study, cell) for cell, rows in material.rows.items() if rows}
    manifests, (needed, stopped) = _manifests(study), _needed(study, material.rows)
    return StudyRecord(
        digest=study.registration_digest,
        toml=(study.path / "registration.toml").read_text(encoding="utf-8"),
        forks=sum(map(len, material.rows.values())),
        registered_forks=_registered_forks(registration, needed),
        stopped=stopped,
        draws=max(len(arm.update_seeds) for arm in registration.arms),
        deviations=_deviations(study, begun, {cell: material.rows[cell] for cell in needed}),
        failed=material.ledger.table.failed,
        notes=_notes(registration, begun),
        amendments=study.amendments(),
        made_with=_made_with(study, begun),
        checkpoints=_checkpoints(manifests, begun),
        trained=any(manifest.hardware for manifest in manifests.values()),
        seeds=read_seeds(study),
    )


def _needed(study: Study, rows: Rows) -> tuple[list[Cell], str]:
    """Return the cells that the study has to have, of one that stops those of the checkpoints it looked at; and the
    words that it stopped as registered, with the forks that it did not need."""
    if study.registration.stopping is None:
        return list(rows), ""
    looked = follow(study.registration, rows)
    due = set(looked.due)
    needed = [cell for cell, inside in rows.items() if inside or cell in due]
    if not looked.ended:
        return needed, ""
    left = _registered_forks(study.registration, rows) - _registered_forks(study.registration, needed)
    unneeded = f"; {plural(left, 'fork')} {'was' if left == 1 else 'were'} not needed" if left else ""
    return needed, f"stopped as registered{unneeded}"


def _registered_forks(registration: Registration, cells: Iterable[Cell]) -> int:
    return sum(registration.arm(cell.arm).stream.decision_points for cell in cells)


def _cell_record(study: Study, cell: Cell) -> CellRecord:
    return check(study.cell(cell.id).configuration, CellRecord, where=f"cell.json of {cell.id}")


def _deviations(
    study: Study, begun: Mapping[Cell, CellRecord], rows: Mapping[Cell, Sequence[ForkRow]]
) -> list[Deviation]:
    registration, stored = study.registration, study.registered().registration
    differing: dict[str, list[str]] = collections.defaultdict(list)
    for cell, inside in rows.items():
        points = registration.arm(cell.arm).stream.decision_points
        if len(inside) != points:
            differing[f"{len(inside)} of {points} registered forks are in the ledger"].append(cell.id)
        if not inside:
            continue
        if begun[cell].registration != study.registration_digest:
            earlier = f"made under an earlier registration, {begun[cell].registration[:12]} (see the amendments)"
            differing[earlier].append(cell.id)
        for line in departures(study.cell(cell.id).configuration, cell, stored):
            differing[f"registered -> executed: {line}"].append(cell.id)
        for line in _counted(inside, episodes=registration.arm(cell.arm).evaluation.episodes):
            differing[line].append(cell.id)
    for key in ALIKE:
        kinds = collections.Counter(_readable(getattr(cell, key)) for cell in begun.values())
        if len(kinds) > 1:
            each = [f"{value} in {plural(count, 'cell')}" for value, count in sorted(kinds.items())]
            differing[f"cells differ in their {key}: {'; '.join(each)}"] = []
    if words := _source_words(study, {cell.source for cell in begun.values()}):
        differing[words] = []
    return [Deviation(what, cells) for what, cells in differing.items()]


def _source_words(study: Study, digests: Collection[str]) -> str:
    """Return which modules cells were computed with in several versions; empty where there is none.

    Another task or mechanism has other modules: that is no deviation.
    """
    if len(digests) < 2:
        return ""
    versions: dict[str, set[str]] = collections.defaultdict(set)
    for digest in digests:
        path = study.path / "sources" / f"{digest}.json"
        recorded = re.fullmatch("[0-9a-f]{64}", digest) and path.is_file()
        modules = read_json(path) if recorded else None
        if not isinstance(modules, dict):
            return f"cells differ in their source: {', '.join(sorted(digests))}"
        for module, source in modules.items():
            versions[module].add(str(source))
    changed = sorted(module for module, found in versions.items() if len(found) > 1)
    return f"cells were computed with several versions of {', '.join(changed)}" if changed else ""


def _readable(value: object) -> str:
    """Return a value of a record as people read it."""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _counted(rows: Sequence[ForkRow], *, episodes: int) -> Iterable[str]:
    """Yield what the rows themselves say went otherwise."""
    for length, count in collections.Counter(len(row.hold) for row in rows).items():
        if length != episodes:
            yield f"{plural(count, 'fork')} with {plural(length, 'episode')} per branch; {episodes} are registered"
    if unequal := sum(row.draws.hold != row.draws.update for row in rows):
        yield f"in {plural(unequal, 'fork')} the branches received different random draws"
    yield from counted(rows)
    if broken := sum(row.fit.non_finite > 0 for row in rows):
        yield f"{plural(broken, 'update')} left parameters that are not finite"


def counted(rows: Sequence[ForkRow]) -> Iterable[str]:
    """Yield how often anything was not finite or not stable in these rows, by branch."""
    for name, noun in COUNTED.items():
        for branch in ("hold", "update"):
            if count := sum(getattr(getattr(row, name), branch) for row in rows):
                yield f"{plural(count, noun)} in {branch.upper()}"


def _notes(registration: Registration, begun: Mapping[Cell, CellRecord]) -> list[str]:
    """Return settings without effect here. How long an episode is, the cells say: every task must have begun."""
    units = {cell.task: executed.units for cell, executed in begun.items()}
    if any(task not in units for arm in registration.arms for task in arm.tasks):
        return []
    steps = {task: (unit.episode_steps, unit.episode_steps * unit.action_repeat) for task, unit in units.items()}
    places: dict[str, list[str]] = {}
    for line in idle_settings(registration, steps):
        where, between, finding = line.partition(": ")
        places.setdefault(between + finding, []).append(where)
    return ["; ".join(inside) + finding for finding, inside in places.items()]


def _made_with(study: Study, begun: Mapping[Cell, CellRecord]) -> list[tuple[str, list[str]]]:
    """Return hardware, versions and digests, each with every value that occurs."""
    executed = begun.values()
    hosts = [_execution(study, cell) for cell in begun]
    packages = [f"{name} {version}" for cell in executed for name, version in cell.packages.items()]
    listed: dict[str, list[str]] = {
        "device": [cell.device for cell in executed],
        "machine": [host.machine for host in hosts],
        "python": [host.python for host in hosts],
        "simulator": [cell.simulator for cell in executed],
        "packages": packages,
        "precision": [cell.precision for cell in executed],
        "block shape": [
            ", ".join(f"{name} {size}" for name, size in (cell.block or {}).items()) for cell in executed
        ],
        "source digest": [cell.source for cell in executed],
    }
    return [(name, sorted({value for value in values if value})) for name, values in listed.items()]


def _execution(study: Study, cell: Cell) -> _Execution:
    path = study.cell(cell.id).path / "execution.json"
    return check(read_json(path), _Execution, where=f"`{path}`") if path.exists() else _Execution()


def _manifests(study: Study) -> dict[str, _Manifest]:
    """Return what came with each checkpoint that was trained, by its name."""
    paths = sorted((study.path / "checkpoints").glob("*.json"))
    return {path.stem: check(read_json(path), _Manifest, where=f"`{path}`") for path in paths}


def _checkpoints(manifests: Mapping[str, _Manifest], begun: Mapping[Cell, CellRecord]) -> Table:
    """Return every checkpoint that was forked; where it was trained, with its seed and its gate."""
    rows = {}
    for cell, executed in begun.items():
        manifest = manifests.get(f"{cell.task}-{cell.checkpoint}", _Manifest())
        gate, floor = manifest.returns.gate, executed.task.get("competence_floor")
        rows[cell.task, str(cell.checkpoint)] = (
            unsigned(executed.checkpoint.clean_return),
            unsigned(sum(gate) / len(gate) if gate else None),
            "none" if floor is None else str(floor),
            DASH if manifest.seed is None else str(manifest.seed),
            manifest.hardware or "generated",
            executed.checkpoint.digest[:8],
        )
    heads = ("Task", "no.", "clean", "gate", "registered floor", "seed", "trained on", "digest")
    return Table("checkpoints", "Checkpoints.", heads, [(*key, *cells) for key, cells in rows.items()], keys=2)
