"""Published copies: a study in one file, with all that scoring, the report and `verify` read.

Models and the transitions that updates trained on are nearly all of a study's bytes. A copy leaves them out, and
says so in published.json; rows and manifests keep their digests. A stream that several cells share is kept once, in
the cell that ran it.

Streams can be left out too. Then answers.json has what detectors answered on them at every decision point, a few
bytes for each fork. Nobody can compute the answers again without the streams, and no row holds their digest: they
are the publisher's word. Their own digest finds damage, and no forgery.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Final, Literal

import numpy as np
from pydantic import AfterValidator, Field

from worldfork.counting import plural
from worldfork.errors import WorldforkError
from worldfork.ledger import archive, arrays, files
from worldfork.ledger.closed_loop import SEGMENTS, DeploymentFolder
from worldfork.ledger.documents import Sealed, as_file, check, read_json, seal
from worldfork.ledger.row import ForkRow, restore_digests, strip_digests
from worldfork.ledger.store import PUBLISHED, CellFolder, Study
from worldfork.registration.schema import digest
from worldfork.triggers import Answer, Asked
from worldfork.validation import Record

MODELS: Final = "checkpoints/*.safetensors"
RECORDINGS: Final = "cells/*/window.npz"
STREAMS: Final = "cells/*/stream.parquet"
DEPLOYED_RECORDINGS: Final = f"{SEGMENTS}/*.npz"
DEPLOYED_STREAMS: Final = f"{SEGMENTS}/*.parquet"
ANSWERS: Final = "answers.json"
ANSWERS_AT_MOST: Final = 16 * 2**20  # bytes; four detectors on 30 streams of 24 decision points take 7,501
ALARMS: Final[Mapping[str, Answer]] = {"0": False, "1": True, "-": None}
ROWS: Final = (f"cells/*/{CellFolder.lines}", f"deployments/*/*/{DeploymentFolder.lines}")
LEFT_OUT: Final = (
    r"^(checkpoints/\*\.\w+|cells/\*/(window\.npz|stream\.parquet)|deployments/segments/\*\.(npz|parquet))$"
)


class Published(Record):
    """published.json: the registration that a copy belongs to, and the patterns of the files that it leaves out."""

    schema_: Literal["worldfork.published/1"] = Field(default="worldfork.published/1", alias="schema")
    registration: str  # digest
    left_out: tuple[Annotated[str, Field(pattern=LEFT_OUT)], ...]


def _alarms(letters: str) -> str:
    if not set(letters) <= set(ALARMS):
        raise ValueError(f"expected a text of 0, 1 and -; got {letters!r:.40}")
    return letters


class AskedTrigger(Record):
    """A detector as it was run: all that its answers depend on, beside the stream."""

    trigger: str  # its name, which is part of the address of its draws
    settings: dict[str, Any]  # all of them, also those at their default
    seed: int | None  # of its draws; None for a detector that draws nothing

    @classmethod
    def of(cls, asked: Asked) -> "AskedTrigger":
        """Return the record of a lookup key."""
        return cls(trigger=asked.trigger, settings=json.loads(asked.settings), seed=asked.seed)

    @property
    def key(self) -> Asked:
        """Return the lookup key: trigger, settings, seed."""
        return Asked(self.trigger, json.dumps(self.settings, sort_keys=True), self.seed)


class AnsweredStream(Record):
    """The answers of every detector on one stream."""

    stream: str  # its content digest, as the rows have it
    # For each of `triggers` its answers at the decision points in order, "001-0": 1 is an alarm, 0 none and - no
    # answer. None where the stream lacks a column that this detector reads.
    answers: tuple[Annotated[str, AfterValidator(_alarms)] | None, ...]


class Answers(Sealed):
    """answers.json: the answers of detectors at every decision point of every stream."""

    schema_: Literal["worldfork.answers/1"] = Field(default="worldfork.answers/1", alias="schema")
    triggers: tuple[AskedTrigger, ...]
    streams: dict[str, AnsweredStream]  # by the cell that ran it, also for those that share it

    def content(self) -> bytes:
        """Return the bytes of the file, with its digest."""
        content = as_file(seal(self).model_dump(mode="json", by_alias=True))
        if len(content) > ANSWERS_AT_MOST:
            raise WorldforkError(
                f"The answers on the streams take {len(content) / 1e6:.1f} MB, more than a reader accepts. Publish "
                "with the streams."
            )
        return content

    def on(self, cell: str) -> dict[Asked, tuple[Answer, ...]]:
        """Return the answers on the stream that this cell ran, by detector."""
        if cell not in self.streams:
            return {}
        by_trigger = zip(self.triggers, self.streams[cell].answers, strict=True)
        return {
            asked.key: tuple(ALARMS[letter] for letter in alarms)
            for asked, alarms in by_trigger
            if alarms is not None
        }


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
    yield PUBLISHED, as_file(record.model_dump(mode="json", by_alias=True))


def _matches(place: str, patterns: Iterable[str]) -> bool:
    return any(PurePosixPath(place).match(pattern) for pattern in patterns)


def _left_out(study: Study, *, streams: bool) -> tuple[str, ...]:
    """Return the patterns of the files that a copy leaves out, with those that `study` lacks as a copy itself."""
    # An agent chooses the files of its models; whatever is no manifest is taken for a part of one.
    suffixes = {path.suffix for path in (study.path / "checkpoints").glob("*.*")} - {".json"}
    patterns = [*sorted({MODELS, *(f"checkpoints/*{suffix}" for suffix in suffixes)}), RECORDINGS]
    if not streams:
        patterns.append(STREAMS)
    if study.deployments():
        patterns += [DEPLOYED_RECORDINGS] if streams else [DEPLOYED_RECORDINGS, DEPLOYED_STREAMS]
    return tuple(dict.fromkeys([*left_out(study), *patterns]))


def _is_its_owners(log: Path) -> bool:
    """Return whether a cell's log has the values of the log that it was taken from."""
    owner = CellFolder(log.parent).stream_owner()
    if owner is None or not (owner / log.name).exists():
        return False
    digests = (arrays.content_digest(arrays.read_parquet(path)) for path in (log, owner / log.name))
    return len(set(digests)) == 1


def left_out(study: Study) -> tuple[str, ...]:
    """Return the patterns of the files that a copy leaves out; none for a study as it was run."""
    published = read_published(study)
    return () if published is None else published.left_out


def read_published(study: Study) -> Published | None:
    """Return published.json of a copy; None for a study as it was run."""
    path = study.path / PUBLISHED
    if not path.exists():
        return None
    try:
        return check(read_json(path), Published, where=f"`{path}`")
    except WorldforkError as error:
        raise WorldforkError(f"`{path}` does not say what was left out. {error}") from error


def as_letters(answers: Sequence[Answer] | None) -> str | None:
    """Return one detector's alarms on one stream as the file has them; None if it has none to store.

    >>> as_letters([False, True, None])
    '01-'
    """
    if answers is None or any(not isinstance(answer, bool | np.bool_) for answer in answers if answer is not None):
        return None
    return "".join("-" if answer is None else str(int(answer)) for answer in answers)


def ran_by(cell: CellFolder) -> str:
    """Return the name of the cell that ran this cell's stream: itself, or the cell that it took it from."""
    return (cell.stream_owner() or cell.path).name


def read_answers(study: Study, rows: Mapping[str, Sequence[ForkRow]]) -> Answers | None:
    """Return the answers of a copy, checked against the rows of its cells; None if it has none."""
    path = study.path / ANSWERS
    if not path.exists():
        return None
    if (size := path.stat().st_size) > ANSWERS_AT_MOST:
        raise WorldforkError(f"`{path}` has {size / 1e6:.1f} MB, which no study's answers take: it is not read.")
    answers = check(read_json(path), Answers, where=f"`{path}`")
    if path.read_bytes() != answers.content():
        raise WorldforkError(f"`{path}` is not what was written: its digest does not match.")
    if len({asked.key for asked in answers.triggers}) < len(answers.triggers):
        raise WorldforkError(f"`{path}` lists a trigger twice, with the same settings and seed.")
    sharing: dict[str, list[Sequence[ForkRow]]] = {}
    for cell, of_cell in rows.items():
        if of_cell:
            sharing.setdefault(ran_by(study.cell(cell)), []).append(of_cell)
    for owner, answered in answers.streams.items():
        if owner not in sharing:
            raise WorldforkError(
                f"`{path}` has answers on a stream of {owner!r:.80}, and no row here is of that stream."
            )
        if wrong := _misfit(answered, sharing[owner], answers.triggers):
            raise WorldforkError(f"`{path}` does not fit {owner}: {wrong}.")
    return answers


def _misfit(
    answered: AnsweredStream, sharing: Sequence[Sequence[ForkRow]], triggers: Sequence[AskedTrigger]
) -> str | None:
    """Describe the first mismatch between answers and the rows of the cells on that stream; None if they agree."""
    if any(row.stream != answered.stream for of_cell in sharing for row in of_cell[:1]):
        return "it was answered on another stream"
    if len(answered.answers) != len(triggers):
        return f"{len(answered.answers)} answered, and {plural(len(triggers), 'trigger')} are listed"
    points = max(map(len, sharing))  # an arm may not have reached the last decision point yet
    for trigger, series in zip(triggers, answered.answers, strict=True):
        if series is not None and len(series) != points:
            answers = plural(len(series), "answer")
            return f"{answers} of `{trigger.trigger}` at {plural(points, 'decision point')}"
    return None
