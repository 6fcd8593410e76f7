"""A study to pass on: everything that scoring, the report and `verify` read, without models and windows.

Models and the transitions that UPDATE trained on are nearly all of a study's bytes. What leaves them out says so in
published.json; the rows and the manifests keep their digests. A stream that several cells share is kept once, in
the cell that ran it. A copy is one file, compressed as a whole, or a folder in which rows are compressed.

Without streams too, what triggers answered on them can stand in for them (`ledger.answers`). Triggers are run by
whoever publishes, and not here: `worldfork.analysis.score.stream_answers`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated, Final, Literal

from pydantic import Field

from worldfork.errors import WorldforkError
from worldfork.ledger import archive, arrays, compact, files
from worldfork.ledger.answers import ANSWERS, Answers
from worldfork.ledger.compact import restored, without_digests
from worldfork.ledger.deployments import SEGMENTS, DeploymentFolder
from worldfork.ledger.records import check, read_json
from worldfork.ledger.store import PUBLISHED, CellFolder, Study
from worldfork.records import Record
from worldfork.registration.records import canonical, digest

__all__ = ["Published", "leaves_streams_out", "leaves_windows_out", "publish", "read_published"]

MODELS: Final = "checkpoints/*.safetensors"
WINDOWS: Final = "cells/*/window.npz"
STREAMS: Final = "cells/*/stream.parquet"
DEPLOYED_WINDOWS: Final = f"{SEGMENTS}/*.npz"
DEPLOYED_STREAMS: Final = f"{SEGMENTS}/*.parquet"
ROWS: Final = (f"cells/*/{CellFolder.lines}", f"deployments/*/*/{DeploymentFolder.lines}")


class Published(Record):
    """published.json: which study this is a copy of, and what it leaves out."""

    schema_: Literal["worldfork.published/1"] = Field(default="worldfork.published/1", alias="schema")
    registration: str  # digest
    left_out: tuple[
        Annotated[
            str,
            Field(
                pattern=r"^(checkpoints/\*\.\w+|cells/\*/(window\.npz|stream\.parquet)"
                r"|deployments/segments/\*\.(npz|parquet))$"
            ),
        ],
        ...,
    ]


def publish(study: Study, target: Path, *, streams: bool = True, answers: Answers | None = None) -> int:
    """Copy the study, less what is left out, into a new folder, or into one file where `target` is NAME.tar.xz;
    returns the bytes written.

    Without `streams` the logs of every step are left out too: nothing but the detectors that read them needs them.
    `answers` are what these said, to be kept instead. A copy of a copy keeps what that has.
    """
    assert not streams or answers is None, "answers stand in for streams that are left out"
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise WorldforkError(f"`{target}` is there already. Remove it, or publish to another place.")
    record = Published(registration=study.registration_digest, left_out=_left_out(study, streams=streams))
    copied = _copied(study, record, None if answers is None else answers.content())
    if archive.is_archive(target):
        content = archive.pack(_short(dict(copied)), name=archive.name_of(target))
        files.make_folders(target.parent)
        files.replace(target, content)
        return len(content)
    written = 0
    for place, content in copied:
        compressed = compact.pack(content) if _matches(place, ROWS) else None
        path = target / place if compressed is None else compact.beside(target / place)
        files.make_folders(path.parent)
        files.replace(path, content if compressed is None else compressed)
        written += path.stat().st_size
    return written


def _copied(study: Study, record: Published, answers: bytes | None) -> Iterator[tuple[str, bytes]]:
    """Every file of the copy by its place, rows as plain lines; last, what the copy says of itself."""
    written_anew = (PUBLISHED,) if answers is None else (PUBLISHED, ANSWERS)
    for path in sorted(path for path in study.path.rglob("*") if path.is_file()):
        place = path.relative_to(study.path).as_posix()
        if path.name.startswith(".") or place in written_anew or _matches(place, record.left_out):
            continue
        if _matches(place, (STREAMS,)):
            if not _is_its_owners(path):  # the same columns, packed as this version packs them
                yield place, arrays.parquet_bytes(arrays.read_parquet(path))
        elif _matches(place.removesuffix(compact.SUFFIX), ROWS):
            genesis = digest(read_json(path.parent / "cell.json"))
            lines = restored(compact.read_lines(path), genesis=genesis, where=str(path))
            yield place.removesuffix(compact.SUFFIX), lines
        else:
            yield place, path.read_bytes()
    if answers is not None:
        yield ANSWERS, answers
    yield PUBLISHED, (canonical(record.model_dump(mode="json", by_alias=True)) + "\n").encode()


def _short(contents: Mapping[str, bytes]) -> dict[str, bytes]:
    """The same files, rows without the digests that follow from them."""
    short = dict(contents)
    for place, lines in contents.items():
        if _matches(place, ROWS):
            configuration = json.loads(contents[str(PurePosixPath(place).with_name("cell.json"))])
            short[place] = without_digests(lines, genesis=digest(configuration))
    return short


def _matches(place: str, patterns: Iterable[str]) -> bool:
    return any(PurePosixPath(place).match(pattern) for pattern in patterns)


def _left_out(study: Study, *, streams: bool) -> tuple[str, ...]:
    """What a copy is without; of a copy it is also without what that leaves out."""
    # An agent says itself what files its models are; whatever is no manifest is taken for a part of one.
    suffixes = {path.suffix for path in (study.path / "checkpoints").glob("*.*")} - {".json"}
    left_out = [*sorted({MODELS, *(f"checkpoints/*{suffix}" for suffix in suffixes)}), WINDOWS]
    if not streams:
        left_out.append(STREAMS)
    if study.deployments():
        left_out += [DEPLOYED_WINDOWS] if streams else [DEPLOYED_WINDOWS, DEPLOYED_STREAMS]
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
