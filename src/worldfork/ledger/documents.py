"""The JSON files of a study as strict records: whatever is read from disk is checked first."""

import json
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from worldfork.errors import WorldforkError
from worldfork.registration.schema import canonical, digest
from worldfork.validation import Record, explain

Checked = TypeVar("Checked", bound=BaseModel)


class Sealed(Record):
    """A record with the digest of its other fields."""

    digest: str = ""

    def payload(self) -> dict[str, Any]:
        """Return every field that the digest covers."""
        return self.model_dump(mode="json", by_alias=True, exclude={"digest"})

    @property
    def intact(self) -> bool:
        """Return whether the digest is that of the other fields."""
        return digest(self.payload()) == self.digest


Sealable = TypeVar("Sealable", bound=Sealed)


def seal(record: Sealable, **changes: Any) -> Sealable:
    """Return the record with these changes, and its digest."""
    changed = record.model_copy(update=changes)
    return changed.model_copy(update={"digest": digest(changed.payload())})


class Registered(Record):
    """registration.json: the registration in canonical form, and its digest."""

    digest: str
    registration: dict[str, Any]

    @property
    def intact(self) -> bool:
        """Return whether the digest is that of the stored registration."""
        return digest(self.registration) == self.digest


class Amendment(Sealed):
    """A line of amendments.jsonl: a registration that changed after rows existed, and why."""

    reason: str
    before: str  # digests of the two registrations
    after: str
    changes: tuple[str, ...]


def inside(place: str) -> str:
    """Return `place`, the path of a file within a study; raise ValueError if it leads out of the study."""
    path = PurePosixPath(place)
    if path.is_absolute() or ".." in path.parts or "\\" in place or "\0" in place or not path.name:
        raise ValueError(f"expected a place inside the study, got {place!r:.60}")
    return place


class Kept(Record):
    """kept.json: SHA-256 of every file beside the cells, by path, and the digest of that table."""

    digest: str
    files: dict[Annotated[str, AfterValidator(inside)], str]

    @property
    def intact(self) -> bool:
        """Return whether the digest is that of the stored table."""
        return digest(self.files) == self.digest


class OpenRecord(BaseModel):
    """A record that keeps unknown fields: a later version may add some."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow", allow_inf_nan=False)


class Coordinates(OpenRecord):
    """Position of a cell in the grid."""

    arm: str
    task: str
    checkpoint: int
    direction: str
    stream_seed: int
    update_seed: int


class Units(OpenRecord):
    """Length of an episode in control steps, and environment steps per control step."""

    episode_steps: int
    action_repeat: int


class ForkedCheckpoint(OpenRecord):
    """The deployed model: its digest, and its mean return in the clean world."""

    digest: str
    clean_return: float | None


class Shares(OpenRecord):
    """Ids of the cells from which the stream and the HOLD branch were taken; None where this cell ran its own."""

    stream: str | None
    hold: str | None


class ChainRecord(OpenRecord):
    """Fields of every cell.json: the settings and versions that determine the rows of one chain."""

    cell: str
    registration: str  # digest
    seed: int
    coordinates: Coordinates
    arm: dict[str, Any]  # as resolved
    task: dict[str, Any]
    signals: tuple[str, ...]
    units: Units
    checkpoint: ForkedCheckpoint
    block: dict[str, Any] | None  # batch shapes, for agents whose results depend on them
    precision: str
    device: str
    processor: str | None  # maker of the processor, where a CPU computes
    compiler_flags: tuple[str, ...]
    simulator: str
    packages: dict[str, str | None]
    code: dict[str, Any]  # origin of each plug-in that does not come with worldfork
    source: str  # digest of sources/<source>.json


class CellRecord(ChainRecord):
    """cell.json of a cell of forks."""

    schema_: Literal["worldfork.cell/2"] = Field(alias="schema")
    after_end: str | None = None  # after an early end of an episode: "reset" or "wait"
    shares: Shares


def as_file(value: Any) -> bytes:
    """Return the bytes of a JSON file of a study: canonical JSON and a line end."""
    return (canonical(value) + "\n").encode()


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object at `path`."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        digest(value)  # refuses numbers and texts that have no canonical form
    except FileNotFoundError as error:
        raise WorldforkError(f"There is no `{path}`.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise WorldforkError(f"`{path}` can not be read ({error}).") from error
    if not isinstance(value, dict):
        raise WorldforkError(f"`{path}` can not be read: expected a JSON object, got {value!r:.40}.")
    return value


def check(value: Any, model: type[Checked], *, where: str) -> Checked:
    """Return `value` as a record of that model; raise with the first mistake and where it is."""
    try:
        return model.model_validate_json(json.dumps(value))  # in JSON strict means strict, and lists become tuples
    except ValidationError as error:
        mistakes = explain(error, model)
        more = f" (and {len(mistakes) - 1} more)" if len(mistakes) > 1 else ""
        raise WorldforkError(f"{where} is not what worldfork writes: {mistakes[0]}{more}.") from error
