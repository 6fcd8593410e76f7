"""A study on disk: append-only, hash-chained, resumable, with one writer at a time.

    with writing("study", registration, authored=toml_text) as study:
        cell = study.cell("corrected-cartpole-c0-away-s0")
        rows = cell.begin(configuration)     # what is there already, after cutting off a torn line
        cell.append(new_rows)                # chained to what is there, written whole, flushed and fsynced

docs/ledger.md describes every file.
"""

import contextlib
import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from worldfork.errors import WorldforkError
from worldfork.ledger import arrays, files
from worldfork.ledger.row import ForkRow, read_line, seal
from worldfork.registration import Registration, canonical, difference, digest, restore

__all__ = ["CellFolder", "Study", "writing"]


class Study:
    """A study folder, for reading; `writing` opens one to write."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._cells: dict[str, CellFolder] = {}

    @property
    def registration(self) -> Registration:
        """What was registered, as last amended."""
        return restore(canonical(self._registered()["registration"]), name=str(self.path / "registration.json"))

    @property
    def registration_digest(self) -> str:
        """What the rows point to: the digest of the registration as it is stored."""
        return digest(self._registered()["registration"])

    def amendments(self) -> list[dict[str, Any]]:
        """Every change to the registration after rows existed: reason, difference, digests before and after."""
        path = self.path / "amendments.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def cell(self, cell_id: str) -> "CellFolder":
        """The folder of one cell, whether or not it exists yet."""
        return self._cells.setdefault(cell_id, CellFolder(self.path / "cells" / cell_id))

    def cells(self) -> list["CellFolder"]:
        """The cells that have begun, by name."""
        return [CellFolder(path.parent) for path in sorted(self.path.glob("cells/*/cell.json"))]

    def _registered(self) -> dict[str, Any]:
        path = self.path / "registration.json"
        try:
            registered: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise WorldforkError(
                f"`{self.path}` is not a study: no readable registration.json ({error})."
            ) from error
        return registered


class CellFolder:
    """One cell's files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._last: str | None = None  # digest of the last row, once begun

    @property
    def id(self) -> str:
        return self.path.name

    @property
    def configuration(self) -> dict[str, Any]:
        """cell.json: what determines the rows."""
        try:
            given: dict[str, Any] = json.loads((self.path / "cell.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise WorldforkError(f"`{self.path}` has no readable cell.json ({error}).") from error
        return given

    def rows(self) -> list[ForkRow]:
        """The rows, in order of k, each checked against its digest and the one before."""
        path = self.path / "forks.jsonl"
        if not path.exists():
            return []
        lines = path.read_bytes().decode("utf-8", errors="replace").split("\n")
        if lines.pop():
            raise WorldforkError(f"{path} ends in a torn line. Run the study again: it cuts it off and carries on.")
        rows: list[ForkRow] = []
        previous = digest(self.configuration)
        for number, line in enumerate(lines, start=1):
            row = read_line(line, where=f"{path}, line {number}")
            if (row.cell, row.k, row.prev) != (self.id, number, previous):
                raise WorldforkError(
                    f"{path}, line {number}: expected fork {number} of {self.id} chained to {previous[:12]}, "
                    f"got fork {row.k} of {row.cell} chained to {row.prev[:12]}. A row was lost, doubled or moved."
                )
            rows.append(row)
            previous = row.digest
        return rows

    def has_rows(self) -> bool:
        """Whether anything points to this cell's configuration."""
        path = self.path / "forks.jsonl"
        return path.exists() and path.stat().st_size > 0

    def begin(
        self, configuration: Mapping[str, Any], *, amended: Collection[str] = ()
    ) -> tuple[list[ForkRow], str | None]:
        """Open the cell for writing: its rows so far, and a note where a torn line was cut off.

        Refuses a cell whose rows were made under another configuration, and says what differs. Rows may go on under
        a registration since `amended` (digests), as long as nothing else that determines them changed.
        """
        wanted = dict(configuration)
        self.path.mkdir(parents=True, exist_ok=True)
        torn = files.cut_torn_line(self.path / "forks.jsonl")
        has_rows = self.has_rows()
        current = self.configuration if (self.path / "cell.json").exists() else None
        if current is not None and has_rows and current.get("registration") in amended:
            wanted["registration"] = current["registration"]
        if current is not None and current != wanted:
            if has_rows:
                lines = "\n  ".join(difference(current, wanted))
                raise WorldforkError(
                    f"{self.id} has rows made under another configuration:\n  {lines}\n"
                    "Rows of two configurations are never mixed: run it as before, or start a new study folder."
                )
            for name in ("stream.parquet", "window.npz"):  # of the other configuration, and no row points to them
                (self.path / name).unlink(missing_ok=True)
            current = None
        if current is None:
            files.replace(self.path / "cell.json", (canonical(wanted) + "\n").encode())
        rows = self.rows()
        self._last = rows[-1].digest if rows else digest(wanted)
        note = f"{self.id}: cut off a torn line of {torn} bytes after fork {len(rows)}." if torn else None
        return rows, note

    def append(self, rows: Sequence[ForkRow]) -> list[ForkRow]:
        """Chain the rows to what is there and write them; returns them sealed."""
        assert self._last is not None, "`begin` comes before `append`"
        if not rows:
            return []
        sealed: list[ForkRow] = []
        last = self._last
        for row in rows:
            sealed.append(seal(row, prev=last))
            last = sealed[-1].digest
        lines = "".join(canonical(row.model_dump(mode="json", by_alias=True)) + "\n" for row in sealed)
        files.append(self.path / "forks.jsonl", lines.encode())
        self._last = last
        return sealed

    def has_stream(self) -> bool:
        """Whether the stream is complete on disk: the window is written last."""
        return (self.path / "window.npz").exists() and (self.path / "stream.parquet").exists()

    def write_stream(self, stream: arrays.Columns, window: arrays.Columns) -> None:
        """Store a finished stream."""
        arrays.write_parquet(self.path / "stream.parquet", stream)
        arrays.write_npz(self.path / "window.npz", window)

    def share_stream(self, owner: "CellFolder") -> None:
        """Take the stream of a cell that has the same one: a hard link, or a copy where there are none."""
        for name in ("stream.parquet", "window.npz"):
            target = self.path / name
            if not target.exists():
                partial = target.with_name(f".{name}.partial")
                partial.unlink(missing_ok=True)
                try:
                    os.link(owner.path / name, partial)
                    os.replace(partial, target)
                except OSError:
                    files.replace(target, (owner.path / name).read_bytes())

    def read_stream(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What was logged, and what UPDATE needs."""
        return self.read_log(), self.read_window()

    def read_log(self) -> dict[str, Any]:
        """What was logged at every control step."""
        return arrays.read_parquet(self.path / "stream.parquet")

    def read_window(self) -> dict[str, Any]:
        """What UPDATE needs."""
        return arrays.read_npz(self.path / "window.npz")

    def note(self, name: str, entry: Mapping[str, Any]) -> None:
        """Add a line to a file that no digest covers (timings, host)."""
        files.append(self.path / name, (canonical(dict(entry)) + "\n").encode())


@contextlib.contextmanager
def writing(
    folder: Path | str, registration: Registration, *, authored: str, amend: str | None = None
) -> Iterator[Study]:
    """Open `folder` for this registration, alone. A registration that rows already point to is not edited in
    silence: it is refused with the difference, or amended for a reason (`amend`) that stays in the study."""
    study = Study(folder)
    _refuse_other_folders(study.path)
    with files.exclusive(study.path / ".lock"):
        files.cut_torn_line(study.path / "amendments.jsonl")
        spelled = registration.model_dump(mode="json", by_alias=True)
        path = study.path / "registration.json"
        if path.exists():
            before = study.registration
            if before.digest != registration.digest and _has_rows(study):
                changes = difference(before.model_dump(mode="json", by_alias=True), spelled)
                if amend is None:
                    raise WorldforkError(
                        f"`{folder}` holds rows of another registration. The difference:\n  "
                        + "\n  ".join(changes)
                        + "\nUse a new study folder, or say why with --amend REASON: the report will print it."
                    )
                entry = {"reason": amend, "before": before.digest, "after": registration.digest, "changes": changes}
                files.append(study.path / "amendments.jsonl", (canonical(entry) + "\n").encode())
        record = canonical({"digest": registration.digest, "registration": spelled}) + "\n"
        if not path.exists() or path.read_text(encoding="utf-8") != record:
            files.replace(study.path / "registration.toml", authored.encode())
            files.replace(path, record.encode())
        yield study


def _has_rows(study: Study) -> bool:
    return any(cell.has_rows() for cell in study.cells())


def _refuse_other_folders(path: Path) -> None:
    """A study is written to a folder of its own."""
    if path.exists() and not path.is_dir():
        raise WorldforkError(f"A study is a folder; `{path}` is a file. Choose another with -o.")
    strangers = [item.name for item in path.iterdir()] if path.exists() else []
    ours = {
        "registration.json",
        "registration.toml",
        ".lock",
        ".registration.toml.partial",
        ".registration.json.partial",
    }
    if strangers and not ours & set(strangers):
        raise WorldforkError(
            f"`{path}` is not empty and is not a study (it holds {sorted(strangers)[0]}). Choose another."
        )
