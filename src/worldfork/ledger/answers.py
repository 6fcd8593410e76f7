"""answers.json: the answers of detectors on streams that a published copy leaves out.

Detectors read every step of a stream. Their answers at every decision point, a few bytes for each fork, stand in
for the streams. Nobody can compute them again without the streams, and no row holds their digest: they are the
publisher's word. Their own digest finds damage, and no forgery.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

import numpy as np
from pydantic import AfterValidator, Field

from worldfork.counting import plural
from worldfork.errors import WorldforkError
from worldfork.ledger.cell import CellFolder
from worldfork.ledger.documents import check, read_json
from worldfork.ledger.row import ForkRow
from worldfork.ledger.store import Study
from worldfork.registration.schema import canonical, digest
from worldfork.triggers import Answer, Asked
from worldfork.validation import Record

ANSWERS: Final = "answers.json"
AT_MOST: Final = 16 * 2**20  # bytes; four detectors on 30 streams of 24 decision points take 7,501
ALARMS: Final[Mapping[str, Answer]] = {"0": False, "1": True, "-": None}


def _alarms(letters: str) -> str:
    if not set(letters) <= set(ALARMS):
        raise ValueError(f"expected a text of 0, 1 and -; got {letters!r:.40}")
    return letters


Alarms = Annotated[str, AfterValidator(_alarms)]


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
    answers: tuple[Alarms | None, ...]


class Answers(Record):
    """answers.json: the answers of detectors at every decision point of every stream."""

    schema_: Literal["worldfork.answers/1"] = Field(default="worldfork.answers/1", alias="schema")
    digest: str = ""  # of all other fields
    triggers: tuple[AskedTrigger, ...]
    streams: dict[str, AnsweredStream]  # by the cell that ran it, also for those that share it

    def content(self) -> bytes:
        """Return the bytes of the file, with its digest."""
        payload = self.model_dump(mode="json", by_alias=True, exclude={"digest"})
        content = (canonical({**payload, "digest": digest(payload)}) + "\n").encode()
        if len(content) > AT_MOST:
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
    if (size := path.stat().st_size) > AT_MOST:
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
