"""A study to pass on: everything that scoring, the report and `verify` read, without models and windows.

Models and the transitions that UPDATE trained on are nearly all of a study's bytes. What leaves them out says so in
published.json; the rows and the manifests keep their digests.
"""

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field

from worldfork.errors import WorldforkError
from worldfork.ledger import arrays, files
from worldfork.ledger.records import check, read_json
from worldfork.ledger.store import CellFolder, Study
from worldfork.records import Record
from worldfork.registration.canonical import canonical

__all__ = ["Published", "leaves_windows_out", "publish", "read_published"]

NAME: Final = "published.json"
MODELS: Final = "checkpoints/*.safetensors"
WINDOWS: Final = "cells/*/window.npz"
DEPLOYED: Final = "deployments/segments/*.npz"


class Published(Record):
    """published.json: which study this is a copy of, and what it leaves out."""

    schema_: Literal["worldfork.published/1"] = Field(default="worldfork.published/1", alias="schema")
    registration: str  # digest
    left_out: tuple[
        Annotated[str, Field(pattern=r"^(checkpoints/\*\.\w+|cells/\*/window\.npz|deployments/segments/\*\.npz)$")],
        ...,
    ]


def publish(study: Study, folder: Path) -> int:
    """Copy the study into a new `folder`, less what is left out; returns the bytes written."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise WorldforkError(f"`{folder}` is there already. Remove it, or publish to another folder.")
    # An agent says itself what files its models are; whatever is no manifest is taken for a part of one.
    suffixes = {path.suffix for path in (study.path / "checkpoints").glob("*.*")} - {".json"}
    left_out = (*sorted({MODELS, *(f"checkpoints/*{suffix}" for suffix in suffixes)}), WINDOWS)
    left_out += (DEPLOYED,) if study.deployments() else ()
    record = Published(registration=study.registration_digest, left_out=left_out)
    for path in sorted(path for path in study.path.rglob("*") if path.is_file()):
        place = path.relative_to(study.path)
        if path.name.startswith(".") or any(place.match(pattern) for pattern in left_out):
            continue
        files.make_folders((folder / place).parent)
        if path.name == "stream.parquet":  # the same columns, packed as this version packs them
            arrays.write_parquet(folder / place, CellFolder(path.parent).read_log())
        else:
            files.replace(folder / place, path.read_bytes())
    files.replace(folder / NAME, (canonical(record.model_dump(mode="json", by_alias=True)) + "\n").encode())
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def leaves_windows_out(study: Study) -> bool:
    """Whether this copy says that it has no windows."""
    published = read_published(study)
    return published is not None and WINDOWS in published.left_out


def read_published(study: Study) -> Published | None:
    """What this copy says of itself; None for a study as it was run."""
    path = study.path / NAME
    if not path.exists():
        return None
    try:
        return check(read_json(path), Published, where=f"`{path}`")
    except WorldforkError as error:
        raise WorldforkError(f"`{path}` does not say what was left out. {error}") from error
