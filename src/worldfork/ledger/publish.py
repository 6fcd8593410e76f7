"""A study to pass on: everything that scoring, the report and `verify` read, without models and windows.

Models and the transitions that UPDATE trained on are nearly all of a study's bytes. What leaves them out says so in
published.json; the rows and the manifests keep their digests. Of what is left, rows are compressed, and a stream
that several cells share is kept once, in the cell that ran it.
"""

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field

from worldfork.errors import WorldforkError
from worldfork.ledger import arrays, files, packed
from worldfork.ledger.deployment import DeploymentFolder
from worldfork.ledger.records import check, read_json
from worldfork.ledger.store import PUBLISHED, CellFolder, Study
from worldfork.records import Record
from worldfork.registration.canonical import canonical

__all__ = ["Published", "leaves_streams_out", "leaves_windows_out", "publish", "read_published"]

MODELS: Final = "checkpoints/*.safetensors"
WINDOWS: Final = "cells/*/window.npz"
STREAMS: Final = "cells/*/stream.parquet"
DEPLOYED: Final = "deployments/segments/*.npz"
ROWS: Final = (f"cells/*/{CellFolder.lines}", f"deployments/*/*/{DeploymentFolder.lines}")


class Published(Record):
    """published.json: which study this is a copy of, and what it leaves out."""

    schema_: Literal["worldfork.published/1"] = Field(default="worldfork.published/1", alias="schema")
    registration: str  # digest
    left_out: tuple[
        Annotated[
            str,
            Field(
                pattern=r"^(checkpoints/\*\.\w+|cells/\*/(window\.npz|stream\.parquet)|deployments/segments/\*\.npz)$"
            ),
        ],
        ...,
    ]


def publish(study: Study, folder: Path, *, streams: bool = True) -> int:
    """Copy the study into a new `folder`, less what is left out; returns the bytes written.

    Without `streams` the logs of every step are left out too: nothing but the detectors that read them needs them.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise WorldforkError(f"`{folder}` is there already. Remove it, or publish to another folder.")
    record = Published(registration=study.registration_digest, left_out=_left_out(study, streams=streams))
    for path in sorted(path for path in study.path.rglob("*") if path.is_file()):
        place = path.relative_to(study.path)
        if path.name.startswith(".") or any(place.match(pattern) for pattern in record.left_out):
            continue
        if place.match(STREAMS) and _is_its_owners(path):
            continue
        files.make_folders((folder / place).parent)
        if place.match(STREAMS):  # the same columns, packed as this version packs them
            arrays.write_parquet(folder / place, arrays.read_parquet(path))
        elif any(place.match(rows) for rows in ROWS) and (content := packed.pack(path.read_bytes())) is not None:
            files.replace(packed.beside(folder / place), content)
        else:
            files.replace(folder / place, path.read_bytes())
    files.replace(folder / PUBLISHED, (canonical(record.model_dump(mode="json", by_alias=True)) + "\n").encode())
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _left_out(study: Study, *, streams: bool) -> tuple[str, ...]:
    """What a copy is without; of a copy it is also without what that leaves out."""
    # An agent says itself what files its models are; whatever is no manifest is taken for a part of one.
    suffixes = {path.suffix for path in (study.path / "checkpoints").glob("*.*")} - {".json"}
    left_out = [*sorted({MODELS, *(f"checkpoints/*{suffix}" for suffix in suffixes)}), WINDOWS]
    if not streams:
        left_out.append(STREAMS)
    if study.deployments():
        left_out.append(DEPLOYED)
    published = read_published(study)
    return tuple(dict.fromkeys([*(published.left_out if published is not None else ()), *left_out]))


def _is_its_owners(log: Path) -> bool:
    """Whether a cell's log is, value for value, that of the cell which it says it took it from."""
    owner = CellFolder(log.parent).stream_owner()
    if owner is None or not (owner / log.name).exists():
        return False
    digests = (arrays.content_digest(arrays.read_parquet(path)) for path in (log, owner / log.name))
    return len(set(digests)) == 1


def leaves_streams_out(study: Study) -> bool:
    """Whether this copy says that it has no streams."""
    published = read_published(study)
    return published is not None and STREAMS in published.left_out


def leaves_windows_out(study: Study) -> bool:
    """Whether this copy says that it has no windows."""
    published = read_published(study)
    return published is not None and WINDOWS in published.left_out


def read_published(study: Study) -> Published | None:
    """What this copy says of itself; None for a study as it was run."""
    path = study.path / PUBLISHED
    if not path.exists():
        return None
    try:
        return check(read_json(path), Published, where=f"`{path}`")
    except WorldforkError as error:
        raise WorldforkError(f"`{path}` does not say what was left out. {error}") from error
