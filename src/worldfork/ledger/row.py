"""Rows of a ledger and the chain that they form: what was known at a decision point, and what both branches earned.

Rows are strict: an unknown field or another version is refused. Non-finite numbers are stored as null, with a count
beside them. Every row holds the digest of the row before it; `seal` writes what `read_row` checks, byte for byte.

A field that is added later has `exclude_if` at its default: rows written before then keep their bytes and digests.
What stands in a row must come out again when the fork is computed again; times go into timings.jsonl.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal, TypeVar

from pydantic import AfterValidator, Field, ValidationError

from worldfork.errors import WorldforkError
from worldfork.ledger.documents import Sealed
from worldfork.registration import Cell
from worldfork.registration.schema import canonical
from worldfork.validation import Record, explain

Number = float | None
Count = Annotated[int, Field(ge=0, lt=2**63)]  # that an array of the analysis can hold


def _printable(name: str) -> str:
    if not name.isprintable():
        raise ValueError(f"{name!a:.60} has characters that can not be shown")
    return name


Signals = dict[Annotated[str, AfterValidator(_printable)], Number]  # tables and pages print the names as they are


class ChainedRow(Sealed):
    """A row of any chain, with the digests that chain it; `k` is its decision point or episode."""

    version: ClassVar[str]  # the row's schema
    subject: ClassVar[str]  # the noun for one row in messages

    k: int = Field(ge=1)
    prev: str

    @property
    def place(self) -> str:
        """Return the name of the deployment that the row is of, for messages."""
        raise NotImplementedError


class CellRow(ChainedRow):
    """A row in the folder of a cell."""

    cell: str

    @property
    def place(self) -> str:
        """Return the cell's id."""
        return self.cell


Row = TypeVar("Row", bound=ChainedRow)


class Counts(Record):
    """A count for each branch."""

    hold: Count
    update: Count


class Digests(Record):
    """SHA-256 of the random arrays that each branch received; unequal ones break common random numbers."""

    hold: str
    update: str


class FitRecord(Record):
    """Record of one update: losses, gradient, movement of the parameters."""

    loss_before: Number
    loss_after: Number
    grad_norm: Number  # of the last step
    param_shift: Number  # Euclidean norm of the change
    window: Count  # transitions that the mechanism could see
    non_finite: Count  # parameters that are not finite afterwards


class ForkRow(CellRow):
    """A fork (paper, "Paired labels"). Steps count from the start of the stream."""

    version: ClassVar = "worldfork.row/1"
    subject: ClassVar = "fork"

    schema_: Literal["worldfork.row/1"] = Field(default="worldfork.row/1", alias="schema")
    step: Count  # control steps before the fork
    env_step: Count
    level: float  # drift level at the fork
    rate: float  # change of the level over the last control step
    signals: Signals  # from the stream before the fork alone
    hold: tuple[Number, ...]  # return of each episode
    update: tuple[Number, ...]
    r_hold: Number  # their means; null where an episode's return, or the sum of all, is not finite
    r_update: Number
    delta: Number  # r_update - r_hold; null where it is not finite
    fit: FitRecord
    nonfinite_actions: Counts  # planned actions that were not finite, replaced by zero
    nonfinite_returns: Counts  # episodes whose return is not finite: the nulls in `hold` and `update`
    unstable_episodes: Counts  # episodes in which the simulator warned of divergence
    draws: Digests
    stream: str  # content digest of stream.parquet
    window: str  # content digest of window.npz


Rows = dict[Cell, list[ForkRow]]  # of every cell, in order


def read_row(line: str, kind: type[Row], *, where: str) -> Row:
    """Return the row on one line, after checking its digest, and that the line is its canonical JSON."""
    try:
        row = kind.model_validate_json(line)
    except (ValueError, ValidationError, RecursionError) as error:
        _require_version(line, kind, where=where)
        reason = "; ".join(explain(error, kind)) if isinstance(error, ValidationError) else str(error)
        raise WorldforkError(f"{where}: not a {kind.subject} row ({reason}).") from None
    if canonical(row.model_dump(mode="json", by_alias=True)) != line or not row.intact:
        raise WorldforkError(
            f"{where}: {kind.subject} {row.k} of {row.place} is not what was written: its digest does not match, "
            "or it is not in canonical form."
        )
    return row


def read_chain(content: bytes, kind: type[Row], *, genesis: str, path: Path) -> tuple[list[Row], int]:
    """Return the rows of a file, each checked against its digest and the row before, and the bytes of a torn line.

    Args:
        content: the bytes of the file.
        kind: record of its rows.
        genesis: the digest that the first row is chained to.
        path: the file's name in errors.
    """
    whole = content.rfind(b"\n") + 1
    complete = restore_digests(content[:whole], genesis=genesis, where=str(path))
    rows: list[Row] = []
    previous = genesis
    for number, line in enumerate(complete.decode("utf-8", errors="replace").split("\n")[:-1], start=1):
        where = f"{path}, line {number}"
        row = read_row(line, kind, where=where)
        if row.prev != previous:
            raise WorldforkError(
                f"{where}: expected a row chained to {previous[:12]}, got {kind.subject} {row.k} of {row.place} "
                f"chained to {row.prev[:12]}. A row was lost, doubled or moved."
            )
        rows.append(row)
        previous = row.digest
    return rows, len(content) - whole


def _require_version(line: str, kind: type[ChainedRow], *, where: str) -> None:
    """Raise if the line has another schema version."""
    try:
        given = json.loads(line)
    except (ValueError, RecursionError):
        return
    version = given.get("schema") if isinstance(given, dict) else None
    if version != kind.version:
        raise WorldforkError(
            f"{where}: a row of schema {version!r}; this version of worldfork reads {kind.version!r}. "
            "Read it with the version that wrote it, or export it there to a flat table."
        )


def finite(values: Iterable[float]) -> tuple[Number, ...]:
    """Return the values with None in place of those that are not finite."""
    return tuple(float(value) if math.isfinite(value) else None for value in values)


def mean(values: tuple[Number, ...]) -> Number:
    """Return the mean, correctly rounded in any order; None if a value is None or the sum overflows.

    >>> mean((1.0, 2.0)), mean((1.0, None)), mean((1e308, 1e308))
    (1.5, None, None)
    """
    numbers = [value for value in values if value is not None]
    if not numbers or len(numbers) < len(values):
        return None
    try:
        return math.fsum(numbers) / len(numbers)
    except OverflowError:
        return None


def gain(r_hold: Number, r_update: Number) -> Number:
    """Return r_update - r_hold; None if either is None or the difference overflows.

    >>> gain(1.0, 1.5), gain(None, 1.5), gain(-1e308, 1e308)
    (0.5, None, None)
    """
    if r_hold is None or r_update is None:
        return None
    return finite([r_update - r_hold])[0]


DIGEST: Final = re.compile(rb'"digest":"[0-9a-f]{64}",')
PREVIOUS: Final = re.compile(rb'"prev":"[0-9a-f]{64}"')
NO_DIGEST: Final = b'"digest":"",'
NO_PREVIOUS: Final = b'"prev":""'


def strip_digests(lines: bytes, *, genesis: str) -> bytes:
    """Return the rows with every digest blank but the last, for a published copy; `genesis` chains the first row.

    Digests do not compress, and the last one determines the others. Rows that could not be restored stay as they
    are, so that a reader of the copy sees where the chain is broken.
    """
    *before, last = lines.splitlines(keepends=True) or [b""]
    blank = [PREVIOUS.sub(NO_PREVIOUS, DIGEST.sub(NO_DIGEST, line, count=1), count=1) for line in before]
    stripped = b"".join([*blank, PREVIOUS.sub(NO_PREVIOUS, last, count=1)])
    try:
        return stripped if restore_digests(stripped, genesis=genesis, where="") == lines else lines
    except WorldforkError:
        return lines


def restore_digests(lines: bytes, *, genesis: str, where: str) -> bytes:
    """Return the rows with the digests that `strip_digests` left out; whole rows are returned unchanged."""
    if NO_PREVIOUS not in lines and NO_DIGEST not in lines:
        return lines
    whole: list[bytes] = []
    previous = genesis.encode()
    row = b""
    for row in lines.splitlines(keepends=True):
        chained = row.replace(NO_PREVIOUS, b'"prev":"%b"' % previous, 1)
        blank = NO_DIGEST in chained
        payload = chained.replace(NO_DIGEST, b"", 1) if blank else DIGEST.sub(b"", chained, count=1)
        previous = hashlib.sha256(payload.rstrip(b"\n")).hexdigest().encode()
        whole.append(chained.replace(NO_DIGEST, b'"digest":"%b",' % previous, 1))
    if NO_DIGEST in row:
        raise WorldforkError(f"{where}, line {len(whole)}: the last row has no digest for the rows to end at.")
    if b'"digest":"%b",' % previous not in row:
        raise WorldforkError(
            f"{where}: a row is not what was written. Which of the {len(whole)} can not be said: a published copy "
            "keeps one digest for all of them."
        )
    return b"".join(whole)
