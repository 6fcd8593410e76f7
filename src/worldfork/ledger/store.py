"""A study on disk: append-only, hash-chained, resumable, with one writer at a time.

    with writing("study", registration, authored=toml_text) as study:
        rows, notes = study.begin(configurations)    # every cell is asked before anything is written
        study.cell("corrected-cartpole-c0-away-s0").append(new_rows)    # chained, flushed and fsynced

A refused run has written nothing. docs/ledger.md describes every file.
"""

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from worldfork.counting import plural
from worldfork.errors import WorldforkError
from worldfork.ledger import archive, files
from worldfork.ledger.cell import FILES, CellFolder, CellPlan, ChainFolder, Refused, Row
from worldfork.ledger.closed_loop import DeploymentFolder, DeploymentRow
from worldfork.ledger.documents import Amendment, Kept, Registered, as_file, check, read_json, seal
from worldfork.ledger.looks import LOOKS, Look, as_lines, extend, read_looks
from worldfork.ledger.provenance import changed_modules
from worldfork.ledger.row import ForkRow
from worldfork.registration import Registration, canonical, cells, deployments, difference, digest, parse, restore

__all__ = ["PUBLISHED", "CellFolder", "Deployed", "Study", "StudyWriter", "writing"]

PUBLISHED = "published.json"  # of published copies (`ledger.publish`)
Deployed = tuple[str, str]  # a policy and the id of a cell
Key = TypeVar("Key", str, Deployed)  # of a cell or of a deployment

# Files that a killed run may leave before registration.json.
BEGUN = {"registration.toml", ".lock", ".registration.toml.partial", ".registration.json.partial"}


class Study:
    """A study for reading, in a folder or in one file NAME.tar.xz (`ledger.archive`).

    `origin` is the path that was opened and `path` the folder that is read; for a file, that is a temporary folder.
    NAME stands for the file NAME.tar.xz if there is no folder NAME.
    """

    def __init__(self, path: Path | str) -> None:
        self.origin = archive.locate(Path(path))
        self.path = archive.unpack(self.origin) if archive.is_archive(self.origin) else self.origin
        self._cells: dict[str, CellFolder] = {}
        self._deployments: dict[Deployed, DeploymentFolder] = {}
        self._seen_to_be_plain = False

    @property
    def packed(self) -> bool:
        """Return whether this is a study in one file, into which nothing is written."""
        return self.path != self.origin

    @property
    def registration(self) -> Registration:
        """Return the registration, as last amended."""
        return restore(canonical(self.registered().registration), name=str(self.path / "registration.json"))

    @property
    def registration_digest(self) -> str:
        """Return the digest of the stored registration, to which every cell points.

        It is taken of the file: a version with more settings would write the same registration at greater length.
        """
        return digest(self.registered().registration)

    def registered(self) -> Registered:
        """Return registration.json."""
        path = self.path / "registration.json"
        if not os.path.lexists(path):
            raise WorldforkError(archive.no_study(self.path))
        if not self._seen_to_be_plain:  # every reader of a study comes by here first
            files.refuse_what_is_not_plain(self.path)
            self._seen_to_be_plain = True
        try:
            return check(read_json(path), Registered, where=f"`{path}`")
        except WorldforkError as error:
            raise WorldforkError(f"`{self.path}` is not a study. {error}") from error

    def amendments(self) -> list[Amendment]:
        """Return every change to the registration after rows existed, in order."""
        path = self.path / "amendments.jsonl"
        if not path.exists():
            return []
        content = path.read_text(encoding="utf-8", errors="replace")
        lines = content.removesuffix("\n").split("\n") if content else []
        return [_amendment(line, where=f"`{path}`, line {number}") for number, line in enumerate(lines, start=1)]

    def looks(self) -> tuple[Look, ...]:
        """Return the looks that were recorded of a study with [stopping]."""
        return read_looks(self.path / LOOKS)

    def kept(self) -> Kept:
        """Return the digests of the files beside the cells; none before the first file is there."""
        path = self.path / "kept.json"
        if not path.exists():
            return Kept(digest=digest({}), files={})
        return check(read_json(path), Kept, where=f"`{path}`")

    def cell(self, cell_id: str) -> CellFolder:
        """Return the folder of one cell, which need not exist yet."""
        _require_folder_names(cell_id)
        return self._cells.setdefault(cell_id, CellFolder(self.path / "cells" / cell_id))

    def cells(self) -> list[CellFolder]:
        """Return the cells that have begun, by name."""
        return [CellFolder(path.parent) for path in sorted(self.path.glob("cells/*/cell.json"))]

    def deployment(self, policy: str, cell_id: str) -> DeploymentFolder:
        """Return the folder of one policy on one cell, which need not exist yet."""
        _require_folder_names(policy, cell_id)
        path = self.path / "deployments" / policy / cell_id
        return self._deployments.setdefault((policy, cell_id), DeploymentFolder(path))

    def deployments(self) -> list[DeploymentFolder]:
        """Return the closed-loop deployments that have begun, by policy and cell."""
        return [DeploymentFolder(path.parent) for path in sorted(self.path.glob("deployments/*/*/cell.json"))]


class StudyWriter(Study):
    """A study that this process may write to, for as long as `writing` holds its lock."""

    def __init__(self, path: Path, registration: Registration, *, authored: str, reason: str | None) -> None:
        super().__init__(path)
        self.begun = False
        self.deployed_rows: dict[Deployed, list[DeploymentRow]] = {}
        self._wanted = registration
        self._authored = authored
        self._new, self._amendments = self._decide(reason)

    def begin(
        self,
        configurations: Mapping[str, Mapping[str, Any]],
        *,
        deployed: Mapping[Deployed, Mapping[str, Any]] | None = None,
        sources: Mapping[str, Mapping[str, str]] | None = None,
    ) -> tuple[dict[str, list[ForkRow]], list[str]]:
        """Open the cells under these configurations; return the rows of each so far, and notes on repairs.

        First every cell is checked against its rows; if any refuses, nothing has been written. Then the amendment,
        the registration and the cells are written, each file whole, in an order from which the same call carries on
        wherever it was killed.

        Args:
            configurations: cell.json of each cell, by id.
            deployed: cell.json of each closed-loop deployment, by policy and cell; `deployed_rows` has their rows.
            sources: the modules behind each digest of source, so that a refusal can name those that changed.
        """
        abandoned = self._abandoned()
        self._require_all_asked(configurations)
        plans = self._plan(configurations, self.cell, sources or {})
        followed = self._plan(deployed or {}, lambda place: self.deployment(*place), sources or {})
        self.begun = True
        self._write_registration()
        notes = [_remove(cell) for cell in abandoned]
        notes += [note for cell_id, plan in plans.items() if (note := self.cell(cell_id).open(plan))]
        notes += [note for place, planned in followed.items() if (note := self.deployment(*place).open(planned))]
        self.deployed_rows = {place: planned.rows for place, planned in followed.items()}
        self._list("registration.toml")
        return {cell_id: plan.rows for cell_id, plan in plans.items()}, notes

    def keep(self, name: str, content: bytes | Path) -> None:
        """Write a file, or copy one, beside the cells (`checkpoints/walker-walk-0.json`), unless it is there."""
        assert self.begun, "`begin` comes before `keep`: a study that is refused writes nothing"
        path = self.path / name
        if not path.exists():
            files.make_folders(path.parent)
            files.replace(path, content if isinstance(content, bytes) else content.read_bytes())
            self._list(name)
        elif name not in self.kept().files:  # a run was killed before it could list it
            self._list(name)

    def record_looks(self, looks: Sequence[Look]) -> None:
        """Add the looks that are new to looks.jsonl; raise where one that is there came out otherwise."""
        assert self.begun, "`begin` comes before `record_looks`: a study that is refused writes nothing"
        recorded = self.looks()
        genesis = recorded[0].prev if recorded else self.registration_digest
        _replace_if_other(self.path / LOOKS, as_lines(extend(recorded, looks, genesis=genesis)))

    def _list(self, name: str) -> None:
        listed = {**self.kept().files, name: hashlib.sha256((self.path / name).read_bytes()).hexdigest()}
        _replace_if_other(self.path / "kept.json", as_file({"digest": digest(listed), "files": listed}))

    def _decide(self, reason: str | None) -> tuple[Registered, list[Amendment]]:
        """Return registration and amendments as they will be on disk; refuse a change that was given no reason."""
        tables = self._wanted.model_dump(mode="json", by_alias=True)
        wanted = Registered(digest=digest(tables), registration=tables)
        if not (self.path / "registration.json").exists():
            return wanted, []
        stored = self.registered()
        if not stored.intact:
            raise WorldforkError(f"`{self.path / 'registration.json'}` is not what was written. Use a new folder.")
        amendments = self._amendments_in_force(stored.digest)
        if self.registration == self._wanted:
            return stored, amendments
        if not any(cell.has_rows() for cell in self.cells()):
            return wanted, []
        changes = difference(stored.registration, tables)
        if settled := _settled(self.registration, self._wanted):
            raise WorldforkError(
                f"`{self.path}` has rows, and may stop by what they say: its {settled} can not be changed any "
                "more. Use a new study folder."
            )
        if reason is None:
            raise WorldforkError(
                f"`{self.path}` holds rows of another registration. The difference:\n  "
                + "\n  ".join(changes)
                + "\nUse a new study folder, or say why with --amend REASON: the report will print it."
            )
        entry = Amendment(reason=reason, before=stored.digest, after=wanted.digest, changes=tuple(changes))
        return wanted, [*amendments, seal(entry)]

    def _amendments_in_force(self, current: str) -> list[Amendment]:
        """Return the amendments that lead to the stored registration.

        A run that was killed between the two files left a last one that leads from it: it does not count.
        """
        amendments = self.amendments()
        if amendments and amendments[-1].before == current:
            amendments.pop()
        if amendments and amendments[-1].after != current:
            raise WorldforkError(
                f"The amendments of `{self.path}` do not lead to its registration. Use a new folder."
            )
        return amendments

    def _plan(
        self,
        configurations: Mapping[Key, Mapping[str, Any]],
        folder: Callable[[Key], ChainFolder[Row]],
        sources: Mapping[str, Mapping[str, str]],
    ) -> dict[Key, CellPlan[Row]]:
        """Return the plan of every cell, or of every deployment; one refusal refuses the run."""
        earlier = {amendment.before for amendment in self._amendments}
        plans, refusals = {}, []
        for key, configuration in configurations.items():
            wanted = {**configuration, "registration": self._new.digest}
            try:
                plans[key] = folder(key).plan(wanted, earlier=earlier)
            except Refused as error:
                modules = self._changed_modules(folder(key), sources.get(str(configuration.get("source"))))
                refusals.append(Refused(folder(key).title, _naming(modules, error.changes)))
        if refusals:
            others = f"\n(Likewise in {plural(len(refusals) - 1, 'more cell')}.)" if len(refusals) > 1 else ""
            raise WorldforkError(f"{refusals[0]}{others}") from refusals[0]
        return plans

    def _require_all_asked(self, configurations: Mapping[str, Mapping[str, Any]]) -> None:
        """Raise if the registration changes and a cell with rows was not asked."""
        unasked = [cell.id for cell in self.cells() if cell.has_rows() and cell.id not in configurations]
        if unasked and self._new != self.registered():
            raise WorldforkError(
                f"{unasked[0]} has rows and was not asked whether they allow another registration."
            )

    def _changed_modules(self, cell: ChainFolder[Any], sources: Mapping[str, str] | None) -> list[str]:
        """Return a line per module that changed since this cell's rows, as far as the study kept the list."""
        stored = str(cell.configuration.get("source"))
        path = self.path / "sources" / f"{stored}.json"
        if sources is None or not re.fullmatch("[0-9a-f]{64}", stored) or not path.is_file():
            return []
        return changed_modules(read_json(path), sources)

    def _abandoned(self) -> list[CellFolder | DeploymentFolder]:
        """Return the cells without rows that are registered no longer; cells with rows must stay registered."""
        registered = {cell.id for cell in cells(self._wanted)}
        followed = {(policy, cell.id) for policy, cell in deployments(self._wanted)}
        others: list[CellFolder | DeploymentFolder] = [cell for cell in self.cells() if cell.id not in registered]
        others += [folder for folder in self.deployments() if (folder.policy, folder.id) not in followed]
        for cell in others:
            if cell.has_rows():
                raise WorldforkError(
                    f"{cell.id} has rows, and the registration no longer has that cell. Rows are never left out: "
                    "register it too, or start a new study folder."
                )
        return others

    def _write_registration(self) -> None:
        lines = b"".join(as_file(entry.model_dump(mode="json")) for entry in self._amendments)
        _replace_if_other(self.path / "amendments.jsonl", lines)
        if not _is_text_of(self.path / "registration.toml", self._wanted):
            files.replace(self.path / "registration.toml", self._authored.encode())
        _replace_if_other(self.path / "registration.json", as_file(self._new.model_dump(mode="json")))


@contextlib.contextmanager
def writing(
    folder: Path | str, registration: Registration, *, authored: str, amend: str | None = None
) -> Iterator[StudyWriter]:
    """Open `folder` to write under this registration, as its only writer.

    Nothing is written before `begin`, and a folder that was made for a run that never began is removed again.

    Args:
        folder: the study's folder; made if there is none.
        registration: the registration to run. If rows point to another, it is refused with the difference.
        authored: the registration's text, complete in itself.
        amend: reason for changing a registration that has rows; it stays in the study.
    """
    path = Path(folder)
    _refuse_other_folders(path)
    created = files.make_folders(path)
    lock = path / ".lock"
    locked_before = lock.exists()
    study: StudyWriter | None = None
    try:
        with files.exclusive(lock):
            try:
                study = StudyWriter(path, registration, authored=authored, reason=amend)
                yield study
            finally:
                if not locked_before and not (study and study.begun):
                    lock.unlink(missing_ok=True)
    finally:
        if not (study and study.begun):
            with contextlib.suppress(OSError):
                for empty in reversed(created):
                    empty.rmdir()


def _settled(before: Registration, after: Registration) -> str | None:
    """Return what changed that the looks of a study with [stopping] rest on; None where nothing did."""
    if before.stopping is None and after.stopping is None:
        return None
    if before.stopping != after.stopping:
        return "[stopping]"
    if cells(before) != cells(after):
        return "grid of cells"
    rules = [
        (registration.scoring.update_cost, registration.scoring.failure_return) for registration in (before, after)
    ]
    return None if rules[0] == rules[1] else "update_cost and failure_return"


def _require_folder_names(*names: str) -> None:
    """Raise for a name of a cell or policy that would lead to another folder."""
    for name in names:
        if Path(name).name != name or name in ("", ".."):
            raise WorldforkError(f"A cell's name, or a policy's, is that of a folder; got `{name}`.")


def _naming(modules: Sequence[str], changes: Sequence[str]) -> tuple[str, ...]:
    """Return the changes, with changed modules by name in place of their common digest."""
    if not modules:
        return tuple(changes)
    return (*modules, *(change for change in changes if not change.startswith("source: ")))


def _amendment(line: str, *, where: str) -> Amendment:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise WorldforkError(f"{where} can not be read ({error}).") from error
    entry = check(value, Amendment, where=where)
    if not entry.intact:
        raise WorldforkError(f"{where} is not what was written: its digest does not match.")
    return entry


def _is_text_of(path: Path, registration: Registration) -> bool:
    """Return whether the TOML at `path` reads as this registration."""
    try:
        return parse(path.read_text(encoding="utf-8"), name=path.name) == registration
    except (OSError, UnicodeDecodeError, WorldforkError):
        return False


def _replace_if_other(path: Path, data: bytes) -> None:
    """Make `path` hold `data`; remove it if `data` is empty."""
    stored = path.read_bytes() if path.exists() else b""
    if stored != data and data:
        files.replace(path, data)
    elif stored != data:
        path.unlink()


def _remove(cell: CellFolder | DeploymentFolder) -> str:
    """Remove the files of a cell without rows, and nothing else."""
    for name in FILES:
        (cell.path / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        cell.path.rmdir()
    return f"{cell.id}: removed; it has no rows and is no longer registered."


def _refuse_other_folders(path: Path) -> None:
    """Raise if `path` is neither new, nor empty, nor a study that can be written to."""
    if archive.is_archive(packed := archive.locate(path)) and packed.exists():
        raise WorldforkError(
            f"`{packed}` is a study in one file, to be read: nothing is run into it. Use a new folder; "
            f"`tar -xf {packed}` makes one of what is in it."
        )
    files.refuse_other_folders(path, kind="study", record="registration.json", begun=BEGUN)
    if (path / PUBLISHED).exists():
        raise WorldforkError(
            f"`{path}` is a published copy: it leaves out what a run needs, and is to be read. Use a new folder."
        )
