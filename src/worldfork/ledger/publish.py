"""Published copies: a study in one file, with all that scoring, the report and `verify` read.

Models and the transitions that updates trained on are nearly all of a study's bytes. A copy leaves them out, and
says so in published.json; rows and manifests keep their digests. A stream that several cells share is kept once, in
the cell that ran it. Streams can be left out too; `ledger.answers` then stands in for them.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Annotated, Final, Literal

from pydantic import Field

from worldfork.errors import WorldforkError
from worldfork.ledger import archive, arrays, files
from worldfork.ledger.answers import ANSWERS, Answers
from worldfork.ledger.closed_loop import SEGMENTS, DeploymentFolder
from worldfork.ledger.documents import check, read_json
from worldfork.ledger.row import restore_digests, strip_digests
from worldfork.ledger.store import PUBLISHED, CellFolder, Study
from worldfork.registration.schema import canonical, digest
from worldfork.validation import Record

MODELS: Final = "checkpoints/*.safetensors"
WINDOWS: Final = "cells/*/window.npz"
STREAMS: Final = "cells/*/stream.parquet"
DEPLOYED_WINDOWS: Final = f"{SEGMENTS}/*.npz"
DEPLOYED_STREAMS: Final = f"{SEGMENTS}/*.parquet"
ROWS: Final = (f"cells/*/{CellFolder.lines}", f"deployments/*/*/{DeploymentFolder.lines}")
LEFT_OUT: Final = (
    r"^(checkpoints/\*\.\w+|cells/\*/(window\.npz|stream\.parquet)|deployments/segments/\*\.(npz|parquet))$"
)


class Published(Record):
    """published.json: the registration that a copy belongs to, and the patterns of the files that it leaves out."""

    schema_: Literal["worldfork.published/1"] = Field(default="worldfork.published/1", alias="schema")
    registration: str  # digest
    left_out: tuple[Annotated[str, Field(pattern=LEFT_OUT)], ...]


def publish(study: Study, target: Path, *, streams: bool = True, answers: Answers | None = None) -> int:
    """Write a copy of the study to the file `target`, NAME.tar.xz; return its size in bytes.

    Without `streams` the logs of every step are left out too, and `answers` are kept instead: those of the
    detectors that read the logs. A copy of a copy keeps the answers that the first has.

    >>> import tempfile
    >>> publish(Study("results/draws"), Path(tempfile.mkdtemp(), "draws.tar.xz")) > 10_000
    True
    """
    assert not streams or answers is None, "answers stand in for streams that are left out"
    if not archive.is_archive(target):
        raise WorldforkError(f"A published study is one file, NAME{archive.SUFFIX}; got `{target}`.")
    if target.exists():
        raise WorldforkError(f"`{target}` is there already. Remove it, or publish to another place.")
    record = Published(registration=study.registration_digest, left_out=_left_out(study, streams=streams))
    copied = dict(_copied(study, record, None if answers is None else answers.content()))
    content = archive.pack(copied, name=archive.name_of(target))
    files.make_folders(target.parent)
    files.replace(target, content)
    return len(content)


def _copied(study: Study, record: Published, answers: bytes | None) -> Iterator[tuple[str, bytes]]:
    """Yield every file of the copy by its path in the study."""
    written_anew = (PUBLISHED,) if answers is None else (PUBLISHED, ANSWERS)
    for path in sorted(path for path in study.path.rglob("*") if path.is_file()):
        place = path.relative_to(study.path).as_posix()
        if path.name.startswith(".") or place in written_anew or _matches(place, record.left_out):
            continue
        if _matches(place, (STREAMS,)):
            if not _is_its_owners(path):  # the same columns, encoded as this version encodes them
                yield place, arrays.parquet_bytes(arrays.read_parquet(path))
        elif _matches(place, ROWS):
            genesis = digest(read_json(path.parent / "cell.json"))
            whole = restore_digests(path.read_bytes(), genesis=genesis, where=str(path))
            yield place, strip_digests(whole, genesis=genesis)
        else:
            yield place, path.read_bytes()
    if answers is not None:
        yield ANSWERS, answers
    yield PUBLISHED, (canonical(record.model_dump(mode="json", by_alias=True)) + "\n").encode()


def _matches(place: str, patterns: Iterable[str]) -> bool:
    return any(PurePosixPath(place).match(pattern) for pattern in patterns)


def _left_out(study: Study, *, streams: bool) -> tuple[str, ...]:
    """Return the patterns of the files that a copy leaves out, with those that `study` lacks as a copy itself."""
    # An agent chooses the files of its models; whatever is no manifest is taken for a part of one.
    suffixes = {path.suffix for path in (study.path / "checkpoints").glob("*.*")} - {".json"}
    left_out = [*sorted({MODELS, *(f"checkpoints/*{suffix}" for suffix in suffixes)}), WINDOWS]
    if not streams:
        left_out.append(STREAMS)
    if study.deployments():
        left_out += [DEPLOYED_WINDOWS] if streams else [DEPLOYED_WINDOWS, DEPLOYED_STREAMS]
    published = read_published(study)
    return tuple(dict.fromkeys([*(published.left_out if published is not None else ()), *left_out]))


def _is_its_owners(log: Path) -> bool:
    """Return whether a cell's log has the values of the log that it was taken from."""
    owner = CellFolder(log.parent).stream_owner()
    if owner is None or not (owner / log.name).exists():
        return False
    digests = (arrays.content_digest(arrays.read_parquet(path)) for path in (log, owner / log.name))
    return len(set(digests)) == 1


def leaves_streams_out(study: Study) -> bool:
    """Return whether this is a copy without streams."""
    published = read_published(study)
    return published is not None and STREAMS in published.left_out


def leaves_windows_out(study: Study) -> bool:
    """Return whether this is a copy without windows."""
    published = read_published(study)
    return published is not None and WINDOWS in published.left_out


def read_published(study: Study) -> Published | None:
    """Return published.json of a copy; None for a study as it was run."""
    path = study.path / PUBLISHED
    if not path.exists():
        return None
    try:
        return check(read_json(path), Published, where=f"`{path}`")
    except WorldforkError as error:
        raise WorldforkError(f"`{path}` does not say what was left out. {error}") from error
