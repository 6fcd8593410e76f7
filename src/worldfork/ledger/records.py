"""The small files of a study as records: what is read from disk is checked, and what is wrong with it is said."""

import json
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from worldfork.errors import WorldforkError
from worldfork.records import Record, explain
from worldfork.registration.records import digest

__all__ = ["Amendment", "CellRecord", "Kept", "OpenRecord", "Registered", "check", "inside", "read_json"]

Checked = TypeVar("Checked", bound=BaseModel)


class Registered(Record):
    """registration.json: what was registered, spelled out, and its digest."""

    digest: str
    registration: dict[str, Any]

    @property
    def intact(self) -> bool:
        """Whether the digest is that of what is stored, by whichever version it was stored."""
        return digest(self.registration) == self.digest


class Amendment(Record):
    """One line of amendments.jsonl: a registration that changed after rows existed, and why."""

    reason: str
    before: str  # digests of the two registrations
    after: str
    changes: tuple[str, ...]
    digest: str = ""  # of everything above

    def payload(self) -> dict[str, Any]:
        """Everything that the digest covers."""
        return self.model_dump(mode="json", exclude={"digest"})


def inside(place: str) -> str:
    """A place within the study: what lies elsewhere is not a study's to name."""
    path = PurePosixPath(place)
    if path.is_absolute() or ".." in path.parts or "\\" in place or "\0" in place or not path.name:
        raise ValueError(f"expected a place inside the study, got {place!r:.60}")
    return place


class Kept(Record):
    """kept.json: SHA-256 of every file that lies beside the cells, by its place, and the digest of all of it."""

    digest: str
    files: dict[Annotated[str, AfterValidator(inside)], str]

    @property
    def intact(self) -> bool:
        return digest(self.files) == self.digest


class OpenRecord(BaseModel):
    """A record of which later versions may say more."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow", allow_inf_nan=False)


class Coordinates(OpenRecord):
    """Where a cell is in the grid."""

    arm: str
    task: str
    checkpoint: int
    direction: str
    stream_seed: int
    update_seed: int = 0


class Units(OpenRecord):
    """How long an episode is."""

    episode_steps: int
    action_repeat: int


class ForkedCheckpoint(OpenRecord):
    """The model that was deployed."""

    digest: str
    clean_return: float | None


class Shares(OpenRecord):
    """The cells whose stream and HOLD branch were taken."""

    stream: str | None
    hold: str | None


class CellRecord(OpenRecord):
    """cell.json: what determines a cell's rows."""

    schema_: Literal["worldfork.cell/1", "worldfork.cell/2"] = Field(alias="schema")
    cell: str
    registration: str
    seed: int
    coordinates: Coordinates
    arm: dict[str, Any]  # as resolved
    task: dict[str, Any]
    units: Units
    after_end: str | None = None  # what an episode does once it has ended, in a world where it can end early
    checkpoint: ForkedCheckpoint
    shares: Shares
    block: dict[str, Any] | None
    precision: str
    device: str
    simulator: str
    packages: dict[str, str | None]
    source: str


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object at `path`."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        digest(value)  # a number or a text that has no canonical spelling is no record of ours
    except FileNotFoundError as error:
        raise WorldforkError(f"There is no `{path}`.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise WorldforkError(f"`{path}` can not be read ({error}).") from error
    if not isinstance(value, dict):
        raise WorldforkError(f"`{path}` can not be read: expected a JSON object, got {value!r:.40}.")
    return value


def check(value: Any, model: type[Checked], *, where: str) -> Checked:
    """`value` as a record, or one sentence that says what is wrong with it."""
    try:
        return model.model_validate_json(json.dumps(value))  # in JSON strict means strict, and lists become tuples
    except ValidationError as error:
        mistakes = explain(error, model)
        more = f" (and {len(mistakes) - 1} more)" if len(mistakes) > 1 else ""
        raise WorldforkError(f"{where} is not what worldfork writes: {mistakes[0]}{more}.") from error
