"""The folder of a cell: its configuration, its stream and its chained rows.

A cell is begun in two steps, so that a study can ask all of its cells before it writes to any: `plan` reads and
refuses, `open` writes.
"""

import dataclasses
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from worldfork.errors import WorldforkError
from worldfork.ledger import arrays, files
from worldfork.ledger.documents import CellRecord, ChainRecord, as_file, check, read_json, seal
from worldfork.ledger.row import CellRow, ForkRow, read_chain
from worldfork.registration import Cell, Registration, canonical, difference, digest, restore

Row = TypeVar("Row", bound=CellRow)
STREAM = ("stream.parquet", "window.npz")  # the recording is written last
FILES = ("cell.json", "execution.json", *STREAM, "timings.jsonl", "forks.jsonl", "episodes.jsonl")  # of a chain


class Refused(WorldforkError):
    """Refusal of a cell whose rows were made under another configuration; `changes` are the differences."""

    def __init__(self, cell: str, changes: tuple[str, ...]) -> None:
        lines = "\n  ".join(changes)
        super().__init__(
            f"{cell} has rows made under another configuration:\n  {lines}\n"
            "Rows of two configurations are never mixed: run it as before, or start a new study folder."
        )
        self.changes = changes


@dataclasses.dataclass(frozen=True)
class CellPlan(Generic[Row]):
    """Configuration and rows with which a cell would be opened."""

    configuration: dict[str, Any]
    rows: list[Row]
    torn: int  # bytes of a line that a kill interrupted
    fresh: bool  # cell.json is to be written, and a stream of another configuration removed


class ChainFolder(Generic[Row]):
    """A folder with a configuration, a stream, and rows that are chained to the configuration."""

    lines: ClassVar[str]  # name of the file of rows
    configured: ClassVar[type[ChainRecord]]  # record of cell.json
    kind: type[Row]  # record of its rows

    def __init__(self, path: Path) -> None:
        self.path = path
        self._last: str | None = None  # digest of the last row, once opened

    @property
    def id(self) -> str:
        """Return the cell's id, which is the folder's name."""
        return self.path.name

    @property
    def title(self) -> str:
        """Return the name for messages."""
        return self.id

    @property
    def configuration(self) -> dict[str, Any]:
        """Return cell.json: the settings and versions that determine the rows."""
        stored = read_json(self.path / "cell.json")
        check(stored, self.configured, where=f"`{self.path / 'cell.json'}`")
        return stored

    def rows(self) -> list[Row]:
        """Return the rows in order of k, each checked against its digest and the row before."""
        rows, torn = self._read_rows()
        if torn:
            path = self.path / self.lines
            raise WorldforkError(f"{path} ends in a torn line. Run the study again: it cuts it off and carries on.")
        return rows

    def last_digest(self) -> str:
        """Return the digest at the end of the chain, which covers every row and cell.json."""
        rows = self.rows()
        return rows[-1].digest if rows else digest(read_json(self.path / "cell.json"))

    def has_rows(self) -> bool:
        """Return whether any row points to this cell's configuration."""
        path = self.path / self.lines
        return path.exists() and path.stat().st_size > 0

    def plan(self, configuration: Mapping[str, Any], *, earlier: Collection[str] = ()) -> CellPlan[Row]:
        """Return the plan that `open` carries out; nothing is written yet.

        Rows made under another configuration are refused with the differences. They may go on under a registration
        that was amended since (`earlier`: the digests before), as long as nothing else changed.
        """
        wanted = dict(configuration)
        if not (self.path / "cell.json").exists():
            if self.has_rows():
                raise WorldforkError(
                    f"{self.id} has rows and no cell.json to say what made them. Use a new study folder."
                )
            return CellPlan(wanted, [], 0, fresh=True)
        stored = read_json(self.path / "cell.json")
        rows, torn = self._read_rows()
        if rows and stored.get("registration") in earlier:
            wanted["registration"] = stored["registration"]
        if rows and stored != wanted:
            raise Refused(self.id, tuple(difference(stored, wanted)))
        return CellPlan(wanted, rows, torn, fresh=stored != wanted)

    def open(self, plan: CellPlan[Row]) -> str | None:
        """Carry the plan out; return a note if a torn line was cut off."""
        files.make_folders(self.path)
        if plan.torn:
            files.cut_torn_line(self.path / self.lines)
        if plan.fresh:
            for name in STREAM:  # of another configuration, and no row points to them
                (self.path / name).unlink(missing_ok=True)
            files.replace(self.path / "cell.json", as_file(plan.configuration))
        self._last = plan.rows[-1].digest if plan.rows else digest(plan.configuration)
        if not plan.torn:
            return None
        return f"{self.id}: cut off a torn line of {plan.torn} bytes after {self.kind.subject} {len(plan.rows)}."

    def append(self, rows: Sequence[Row]) -> list[Row]:
        """Chain the rows to those on disk, write them, and return them with their digests."""
        assert self._last is not None, "`open` comes before `append`"
        if not rows:
            return []
        sealed: list[Row] = []
        last = self._last
        for row in rows:
            sealed.append(seal(row, prev=last))
            last = sealed[-1].digest
        lines = b"".join(as_file(row.model_dump(mode="json", by_alias=True)) for row in sealed)
        files.append(self.path / self.lines, lines)
        self._last = last
        return sealed

    def has_stream(self) -> bool:
        """Return whether the stream is complete on disk."""
        return all((self.path / name).exists() for name in STREAM)

    def write_stream(self, log: arrays.Columns, recording: arrays.Columns) -> None:
        """Write the log and the recording of a finished stream."""
        arrays.write_parquet(self.path / "stream.parquet", log)
        arrays.write_npz(self.path / "window.npz", recording)

    def share_stream(self, owner: "ChainFolder[Row]") -> None:
        """Take the stream of a cell that has the same one: by hard link, or by copy on disks without links."""
        for name in STREAM:
            target = self.path / name
            if not target.exists():
                partial = target.with_name(f".{name}.partial")
                partial.unlink(missing_ok=True)
                try:
                    os.link(owner.path / name, partial)
                    os.replace(partial, target)
                except OSError:
                    files.replace(target, (owner.path / name).read_bytes())

    def stream_files(self) -> tuple[Path, Path]:
        """Return the paths of the log and the recording; a published copy keeps a shared log with its owner."""
        log, recording = (self.path / name for name in STREAM)
        if not log.exists() and (owner := self.stream_owner()) is not None and (owner / log.name).exists():
            log = owner / log.name
        return log, recording

    def stream_owner(self) -> Path | None:
        """Return the folder of the cell that this one took its stream from; None if it ran its own."""
        if not (self.path / "cell.json").exists():
            return None
        name = self.configuration.get("shares", {}).get("stream")
        if name is None:
            return None
        if Path(name).name != name or name in ("", ".."):  # a study may come from a stranger
            raise WorldforkError(f"{self.id}: its stream is that of a cell of this study; got `{name}`.")
        return self.path.parent / str(name)

    def read_stream(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the log and the recording."""
        return self.read_log(), self.read_recording()

    def read_log(self) -> dict[str, Any]:
        """Return the log of every control step, by column."""
        log, _ = self.stream_files()
        return arrays.read_parquet(log)

    def read_recording(self) -> dict[str, Any]:
        """Return the transitions that an update may see, by name."""
        return arrays.read_npz(self.path / "window.npz")

    def note(self, name: str, entry: Mapping[str, Any]) -> None:
        """Add a line to a file that no digest covers, such as timings.jsonl."""
        files.append(self.path / name, as_file(dict(entry)))

    def write_execution(self, entry: Mapping[str, Any]) -> None:
        """Write host and time of the computation to execution.json, which no digest covers."""
        files.replace(self.path / "execution.json", as_file(dict(entry)))

    def _read_rows(self) -> tuple[list[Row], int]:
        """Return the whole rows, and the number of bytes of a line that was not finished."""
        path = self.path / self.lines
        if not path.exists():
            return [], 0
        genesis = digest(read_json(self.path / "cell.json"))
        rows, torn = read_chain(path.read_bytes(), self.kind, genesis=genesis, path=path)
        for number, row in enumerate(rows, start=1):
            if (row.cell, row.k) != (self.id, number):
                raise WorldforkError(
                    f"{path}, line {number}: expected {self.kind.subject} {number} of {self.id}, got "
                    f"{self.kind.subject} {row.k} of {row.cell}."
                )
        return rows, torn


class CellFolder(ChainFolder[ForkRow]):
    """The folder of one cell of forks."""

    lines = "forks.jsonl"
    configured = CellRecord
    kind = ForkRow


def departures(configuration: Mapping[str, Any], cell: Cell, registered: Mapping[str, Any]) -> list[str]:
    """Return each setting of cell.json that differs from the registered one, as `setting: registered -> executed`.

    Both sides are completed with the defaults of this version: a setting that is younger than the ledger is at its
    default in both.
    """
    resolved = {
        **registered,
        "seed": configuration["seed"],
        "arms": [
            {**configuration["arm"], "name": cell.arm, "tasks": [cell.task], "stream_seeds": [cell.stream_seed]}
        ],
        "tasks": {cell.task: configuration["task"]},
        "signals": configuration["signals"],
        "predictions": [],
        "deployment": None,  # it names arms that are left out here
        "stopping": None,  # and so does this
    }
    if configuration["block"] is not None:
        resolved["execution"] = configuration["block"]
    try:
        wanted = _decisive(restore(canonical(dict(registered))), cell)
        executed = _decisive(restore(canonical(resolved)), cell)
    except WorldforkError as error:
        return [" ".join(str(error).split())]
    wanted |= {
        "coordinates": cell.coordinates,
        "precision": wanted["arm"]["precision"] or wanted["task"]["precision"],
        "after_end": wanted["task"].get("after_end", configuration.get("after_end") and "reset"),
    }
    executed |= {name: configuration.get(name) for name in ("coordinates", "precision", "after_end")}
    return difference(wanted, executed)


def _decisive(registration: Registration, cell: Cell) -> dict[str, Any]:
    """Return the part of a registration that determines a cell's rows."""
    return {
        "seed": registration.seed,
        "arm": registration.arm(cell.arm).decisive(),
        "task": registration.tasks[cell.task].model_dump(mode="json"),
        "signals": list(registration.signals),
        "execution": registration.execution.model_dump(mode="json"),
    }
