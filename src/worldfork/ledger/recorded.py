"""Recorded ledgers: chained forks of a loop that worldfork does not run (`worldfork.Recorder`).

    runs/mine/
      recorder.json   task, question, and the guarantees that are the recorder's word
      forks.jsonl     one line per fork in the order of recording, append-only

The chain begins at the digest of recorder.json. Several processes may record into one folder, one row at a time.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal

from pydantic import AfterValidator, Field

from worldfork.errors import WorldforkError, obeyed
from worldfork.ledger import files
from worldfork.ledger.documents import as_file, check, read_json
from worldfork.ledger.row import ChainedRow, Count, Number, Signals, gain, mean, read_chain
from worldfork.registration.schema import digest
from worldfork.validation import Record

SETTINGS: Final = "recorder.json"
ROWS: Final = "forks.jsonl"
GUARANTEES: Final = {"common_random_numbers": "common random numbers", "exact_restore": "exact restore"}


def _shown(text: str) -> str:
    if obeyed(text) or "\n" in text:
        raise ValueError(f"expected one line of text that can be shown, got {text!a:.60}")
    return text


Line = Annotated[str, AfterValidator(_shown)]
Identity = tuple[str, str, str, int, int, int]


class Guarantees(Record):
    """Properties of the recorded loop that a reader can not check; None where the recorder does not state them."""

    common_random_numbers: bool | None = None  # both branches meet the same random numbers
    exact_restore: bool | None = None  # both branches begin in exactly the same state


class RecorderSettings(Record):
    """recorder.json: the task, the question, and the meaning of the returns."""

    schema_: Literal["worldfork.recorder/1"] = Field(default="worldfork.recorder/1", alias="schema")
    task: Line = Field(min_length=1)
    question: Line = ""
    guarantees: Guarantees = Guarantees()
    higher_is_better: bool = True
    failure_return: float | None = None  # return that a failed branch counts as
    update_cost: float = Field(default=0.0, ge=0)  # price of an update in return units

    @property
    def digest(self) -> str:
        """Return the digest at which the chain begins."""
        return digest(self.model_dump(mode="json", by_alias=True))

    @property
    def statement(self) -> str:
        """Return the sentence on guarantees that no reader can check."""
        words = {True: "yes", False: "no", None: "not stated"}
        stated = self.guarantees.model_dump()
        statements = "; ".join(f"{GUARANTEES[name]}: {words[value]}" for name, value in stated.items())
        return f"Recorded by a loop of its own. On the recorder's word: {statements}."


class RecordedRow(ChainedRow):
    """A fork that was recorded by a loop of its own."""

    version: ClassVar = "worldfork.recorded/1"
    subject: ClassVar = "fork"

    schema_: Literal["worldfork.recorded/1"] = Field(default="worldfork.recorded/1", alias="schema")
    arm: Line = ""  # the way of updating, where several are compared
    checkpoint: Line = Field(min_length=1)
    direction: Line = ""  # the deployment, where a checkpoint has several
    stream_seed: Count = 0
    update_seed: Count = 0
    level: Number = None  # of the drift
    clean_return: Number = None  # of the checkpoint, without drift
    signals: Signals = {}  # known before the decision
    hold: tuple[Number, ...] = Field(min_length=1)  # return of each episode; None where it is not finite
    update: tuple[Number, ...] = Field(min_length=1)
    r_hold: Number  # mean of `hold`; None if one of them is
    r_update: Number
    delta: Number  # r_update - r_hold

    @property
    def place(self) -> str:
        """Return the deployment: arm, checkpoint, direction, and seeds other than 0."""
        seeds = (f"stream seed {self.stream_seed}", f"update seed {self.update_seed}")
        named = [seed for seed in seeds if not seed.endswith(" 0")]
        return ", ".join(filter(None, (self.arm, f"checkpoint {self.checkpoint}", self.direction, *named)))

    @property
    def identity(self) -> Identity:
        """Return the fields that no two forks have in common."""
        return (self.arm, self.checkpoint, self.direction, self.stream_seed, self.update_seed, self.k)


def is_recorded(path: Path) -> bool:
    """Return whether the folder `path` is a recorded ledger, also one whose recorder.json was lost."""
    try:
        return (path / SETTINGS).is_file() or _holds_recorded_rows(path)
    except OSError:  # a name that no file can have: opening it explains why
        return False


def _holds_recorded_rows(path: Path) -> bool:
    """Return whether the first line of forks.jsonl in the folder `path` is a recorder's."""
    if not (path / ROWS).is_file():
        return False
    with (path / ROWS).open("rb") as file:
        return f'"schema":"{RecordedRow.version}"'.encode() in file.readline()


class RecordedLedger:
    """A recorded ledger, for reading."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        files.refuse_what_is_not_plain(self.path)
        path = self.path / SETTINGS
        try:
            self.settings = check(read_json(path), RecorderSettings, where=f"`{path}`")
        except WorldforkError as error:
            raise WorldforkError(
                f"{error} `{self.path}` is a recorded ledger, and its rows are chained to {SETTINGS}: put that "
                "file back from a copy."
            ) from error

    def rows(self) -> list[RecordedRow]:
        """Return every fork, each checked against its digest and the row before.

        A line that a kill tore at the end of the file is no row: the recorder cuts it off.
        """
        return self.read()[0]

    def read(self) -> tuple[list[RecordedRow], int]:
        """Return the rows, and the number of bytes of a torn line after them."""
        path = self.path / ROWS
        content = path.read_bytes() if path.exists() else b""
        return read_chain(content, RecordedRow, genesis=self.settings.digest, path=path)

    def root(self) -> str:
        """Return one digest over settings and rows."""
        rows = self.rows()
        return digest({"recorder": self.settings.digest, "last": rows[-1].digest if rows else None})

    def findings(self) -> tuple[list[RecordedRow], list[str], list[str]]:
        """Return the rows, what is wrong with them and their settings, and notes: the recorder's statements, which
        no reader can check, and a torn line."""
        problems, notes = [], [self.settings.statement]
        if (self.path / SETTINGS).read_bytes() != as_file(self.settings.model_dump(mode="json", by_alias=True)):
            problems.append(f"{SETTINGS} is not in canonical form; it was edited.")
        if not (self.path / ROWS).exists():  # a recorder makes it before its first fork
            problems.append(f"{ROWS} is not there. Put it back from a copy.")
        try:
            rows, torn = self.read()
        except WorldforkError as error:
            return [], [*problems, str(error)], notes
        if torn:
            notes.append(f"{ROWS} ends in a torn line of {torn} bytes, which the next recording cuts off.")
        seen: set[Identity] = set()
        for row in rows:
            means = mean(row.hold), mean(row.update)
            if row.identity in seen:
                problems.append(f"fork {row.k} of {row.place} is recorded twice.")
            elif len(row.hold) != len(row.update):
                problems.append(f"fork {row.k} of {row.place}: its branches have different numbers of episodes.")
            elif (row.r_hold, row.r_update, row.delta) != (*means, gain(*means)):
                problems.append(f"fork {row.k} of {row.place}: the means or their difference do not follow.")
            seen.add(row.identity)
        return rows, problems, notes


def deployments_of(rows: Sequence[RecordedRow]) -> int:
    """Return the number of deployments that the forks are of."""
    return len({row.identity[:-1] for row in rows})
