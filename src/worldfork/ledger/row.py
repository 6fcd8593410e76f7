"""A fork row: what was known at a decision point, and what both branches then earned.

Strict: an unknown field or another version is refused. Non-finite numbers are stored as null, with a count beside
them; `seal` and `read_line` are each other's inverse, byte for byte.
"""

import hashlib
import json
import math
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import AfterValidator, AliasChoices, ConfigDict, Field, ValidationError

from worldfork.errors import WorldforkError
from worldfork.records import Record
from worldfork.registration.records import canonical, digest

__all__ = [
    "ChainedRow",
    "Count",
    "Counts",
    "Digests",
    "FitRecord",
    "ForkRow",
    "Number",
    "Signals",
    "finite",
    "gain",
    "has_one_spelling",
    "mean",
    "read_line",
    "read_row",
    "seal",
]

SCHEMA = "worldfork.row/1"
Number = float | None
Count = Annotated[int, Field(ge=0, lt=2**63)]  # that an array of the analysis can hold


def _plain(name: str) -> str:
    if not name.isprintable():
        raise ValueError(f"{name!a:.60} has characters that can not be shown")
    return name


Signals = dict[Annotated[str, AfterValidator(_plain)], Number]  # their names are printed as they are


def _on_disk(name: str) -> Any:
    """A field whose name in the ledger, which version 1 fixed, says less than its name here."""
    return Field(validation_alias=AliasChoices(name), serialization_alias=name)


class ChainedRow(Record):
    """What every row of a chain has, whatever it says."""

    version: ClassVar[str]  # its schema
    subject: ClassVar[str]  # what one row is about, in words

    cell: str
    k: int = Field(ge=1)
    prev: str
    digest: str

    def payload(self) -> dict[str, object]:
        """Everything that the digest covers."""
        return self.model_dump(mode="json", by_alias=True, exclude={"digest"})


Row = TypeVar("Row", bound=ChainedRow)


class Counts(Record):
    """Something counted in each branch."""

    hold: Count
    update: Count


class Digests(Record):
    """SHA-256 of the random arrays each branch received: equal, or the pair is no pair."""

    hold: str
    update: str


class FitRecord(Record):
    """What the mechanism did."""

    model_config = ConfigDict(populate_by_name=True)

    loss_before: Number
    loss_after: Number
    grad_norm: Number  # of the last step
    param_shift: Number  # Euclidean norm of the change
    transitions: Count = _on_disk("window")  # that it could see
    non_finite: Count  # parameters that are not finite afterwards


class ForkRow(ChainedRow):
    """One fork (paper, "Paired labels"). Steps count from the start of the stream."""

    model_config = ConfigDict(populate_by_name=True)
    version: ClassVar = SCHEMA
    subject: ClassVar = "fork"

    schema_: Literal["worldfork.row/1"] = Field(default="worldfork.row/1", alias="schema")
    step: Count  # control steps before the fork
    env_step: Count
    level: float  # drift level at the fork
    drift_rate: float = _on_disk("rate")  # its change over the last control step
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
    recording: str = _on_disk("window")  # content digest of window.npz, which holds the recording


def seal(row: Row, *, prev: str) -> Row:
    """The row chained to `prev`, with its digest."""
    chained = row.model_copy(update={"prev": prev})
    return chained.model_copy(update={"digest": digest(chained.payload())})


def read_line(line: str, *, where: str) -> ForkRow:
    """The row on one line of forks.jsonl, after checking it against its digest."""
    return read_row(line, ForkRow, where=where)


def read_row(line: str, kind: type[Row], *, where: str) -> Row:
    """A row of that kind on one line, after checking that every byte of the line is what its digest was taken of.

    That the line is also the row's canonical spelling takes five times as long to see, and nothing but a line whose
    digest was taken of another spelling could differ in it: `has_one_spelling` is for whoever verifies a study.
    """
    try:
        row = kind.model_validate_json(line)
    except (ValueError, ValidationError, RecursionError) as error:
        _require_version(line, kind, where=where)
        raise WorldforkError(f"{where}: not a {kind.subject} row ({error}).") from error
    # The payload is spelled as the row is, less the digest, which is never a row's last field (`prev` follows it).
    before, _, after = line.partition(f'"digest":"{row.digest}",')
    covered = hashlib.sha256(f"{before}{after}".encode()).hexdigest() == row.digest
    if not covered and not has_one_spelling(line, row):
        raise WorldforkError(
            f"{where}: {kind.subject} {row.k} of {row.cell} is not what was written: its digest does not match."
        )
    return row


def has_one_spelling(line: str, row: ChainedRow) -> bool:
    """Whether the line is the row's canonical spelling, and the digest that of its payload."""
    return canonical(row.model_dump(mode="json", by_alias=True)) == line and digest(row.payload()) == row.digest


def _require_version(line: str, kind: type[ChainedRow], *, where: str) -> None:
    """Say so where a line that could not be read is a row of another version."""
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
    """Non-finite values as null."""
    return tuple(float(value) if math.isfinite(value) else None for value in values)


def mean(values: tuple[Number, ...]) -> Number:
    """The mean, correctly rounded whatever the order; undefined where one of them is, or where their sum overflows.

    >>> mean((1.0, 2.0)), mean((1.0, None)), mean((1e308, 1e308))
    (1.5, None, None)
    """
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    try:
        return math.fsum(known) / len(known)
    except OverflowError:
        return None


def gain(r_hold: Number, r_update: Number) -> Number:
    """Return what UPDATE returned more than HOLD: r_update - r_hold, undefined where one of them is, or where their
    difference overflows.

    >>> gain(1.0, 1.5), gain(None, 1.5), gain(-1e308, 1e308)
    (0.5, None, None)
    """
    if r_hold is None or r_update is None:
        return None
    return finite([r_update - r_hold])[0]
