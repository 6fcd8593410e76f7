"""answers.json: what stands in for streams that a copy leaves out, whoever wrote it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiny import CELL, TWO_ARMS, findings, unpacked_copy, write

from worldfork.analysis.read.ledger import open_ledger
from worldfork.analysis.read.stream_answers import stream_answers
from worldfork.errors import WorldforkError
from worldfork.ledger import publish as stored
from worldfork.ledger.publish import AnsweredStream, Answers, AskedTrigger, as_letters
from worldfork.ledger.store import Study
from worldfork.ledger.verify import root, verify
from worldfork.registration import canonical, digest
from worldfork.triggers import Asked

FEW, MANY = (f"{arm}-linear_quadratic-c0-away-s0" for arm in ("few", "many"))


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy without streams of one cell with three forks."""
    return without_streams(write(tmp_path / "study"), tmp_path / "copy")


def without_streams(study: Study, folder: Path) -> Path:
    return unpacked_copy(study, folder, streams=False, answers=stream_answers(study)).path


def signed(copy: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the file as its publisher could: in its one spelling, with its digest."""
    content = json.loads((copy / "answers.json").read_text())
    del content["digest"]
    change(content)
    (copy / "answers.json").write_text(canonical({**content, "digest": digest(content)}) + "\n")


def refused(copy: Path) -> str:
    """What `verify` and whoever reads the forks say, which is the same; that it is one sentence of ours."""
    with pytest.raises(WorldforkError) as error:
        open_ledger(copy)
    assert findings(copy) == str(error.value)
    return str(error.value)


def series(place: int, value: Any) -> Callable[[dict[str, Any]], object]:
    return lambda content: content["streams"][CELL]["answers"].__setitem__(place, value)


def test_a_copy_has_the_answers_of_every_step_reader_at_every_decision_point(copy: Path) -> None:
    content = json.loads((copy / "answers.json").read_text())
    assert content["schema"] == "worldfork.answers/1"
    assert [one["trigger"] for one in content["triggers"]] == ["adwin", "page_hinkley", "kswin", "conformal"]
    assert content["streams"] == {
        CELL: {"stream": Study(copy).cell(CELL).rows()[0].stream, "answers": ["000", "000", "000", "000"]}
    }
    assert verify(copy).problems == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (series(0, "00"), f"does not fit {CELL}: 2 answers of `adwin` at 3 decision points"),
        (series(1, "0000"), "4 answers of `page_hinkley` at 3"),
        (series(3, "0"), "1 answer of `conformal`"),
        (series(0, "01x"), "answers.0: expected a text of 0, 1 and -; got '01x'"),
        (series(0, [True, False, True]), "answers.0: expected a text in quotes"),
        (series(0, [10**400, 1.0, 1.0]), "answers.0: expected a text in quotes"),
        (series(0, {"k": 1}), "answers.0: expected a text in quotes"),
        (series(0, 1), "answers.0: expected a text in quotes"),
        (lambda content: content["streams"][CELL]["answers"].pop(), "3 answered, and 4 triggers are listed"),
        (lambda content: content["streams"][CELL].update(stream="another"), "it was answered on another stream"),
        (
            lambda content: content["streams"].update(elsewhere=content["streams"][CELL]),
            "has answers on a stream of 'elsewhere', and no row here is of that stream",
        ),
        (
            lambda content: content["streams"].update({"../../thesis\x1b[2J": content["streams"][CELL]}),
            r"on a stream of '../../thesis\x1b[2J', and no row",
        ),
        (lambda content: content["triggers"].append(content["triggers"][0]), "lists a trigger twice"),
        (lambda content: content["triggers"][0].pop("seed"), "triggers.0.seed: it is missing"),
        (lambda content: content["triggers"][0].update(seed="0"), "triggers.0.seed: expected a whole number"),
        (lambda content: content["triggers"][0].update(settings=[]), "triggers.0.settings: expected a table"),
        (lambda content: content.update(more=1), "more: not a known setting"),
        (lambda content: content.update(schema="worldfork.answers/2"), "expected 'worldfork.answers/1'"),
        (lambda content: content.update(streams=[]), "streams: expected a table"),
        (lambda content: content.pop("triggers"), "triggers: it is missing"),
    ],
)
def test_what_a_stranger_signed_is_held_against_the_rows(
    copy: Path, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    signed(copy, change)
    assert message in refused(copy)


@pytest.mark.parametrize("content", [b"", b"\xff", b"[]", b"{}", b"null", b"[" * 100_000, b'{"a":1e999}'])
def test_what_is_no_record_is_one_sentence(copy: Path, content: bytes) -> None:
    (copy / "answers.json").write_bytes(content)
    assert "answers.json` " in refused(copy)


def test_a_file_that_is_too_large_is_not_read(copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (copy / "answers.json").open("wb") as file:
        file.truncate(2**36)  # a hole: it takes no room on the disk
    assert "has 68719.5 MB, which no study's answers take: it is not read" in refused(copy)
    (copy / "answers.json").write_bytes(b" " * (16 * 2**20 + 1))
    assert "it is not read" in refused(copy)
    (copy / "answers.json").write_bytes(b" " * (16 * 2**20))
    assert "it is not read" not in refused(copy)
    monkeypatch.setattr(stored, "ANSWERS_AT_MOST", 100)
    with pytest.raises(WorldforkError, match="more than a reader accepts"):
        without_streams(Study(tmp_path / "study"), tmp_path / "another")
    assert not (tmp_path / "another").exists()


def test_damage_is_found_in_every_byte(copy: Path) -> None:
    whole = (copy / "answers.json").read_bytes()
    assert len(whole) < 800
    for place in range(0, len(whole), 5):
        (copy / "answers.json").write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert "answers.json`" in findings(copy)
    for changed in (whole[:-1], whole + b"\n", whole.replace(b",", b", ", 1)):
        (copy / "answers.json").write_bytes(changed)
        assert "answers.json`" in findings(copy)


def test_answers_can_be_made_up(copy: Path, tmp_path: Path) -> None:
    """They are the publisher's word: neither the chains nor the root cover them."""
    signed(copy, series(0, "111"))
    assert verify(copy).problems == ()
    assert root(Study(copy)) == root(Study(tmp_path / "study"))


def test_nothing_but_a_copy_without_streams_has_such_a_file(copy: Path, tmp_path: Path) -> None:
    content = (copy / "answers.json").read_bytes()
    unpacked_copy(Study(tmp_path / "study"), tmp_path / "with-streams")
    for folder in (tmp_path / "study", tmp_path / "with-streams"):
        (folder / "answers.json").write_bytes(content)
        assert findings(folder) == (
            "answers.json is for copies that were published without streams, and this is none."
        )
        assert open_ledger(folder).table.arms["tiny"]["linear_quadratic"].prefork.answers == ()


def test_where_a_row_is_damaged_that_alone_is_named(copy: Path) -> None:
    path = copy / "cells" / CELL / "forks.jsonl"
    path.write_bytes(path.read_bytes()[:-1])
    (problem,) = verify(copy).problems
    assert "forks.jsonl, line 2: the last row has no digest for the rows to end at" in problem


def test_a_stream_that_cells_share_is_answered_once_under_the_cell_that_ran_it(tmp_path: Path) -> None:
    copy = without_streams(write(tmp_path / "study", authored=TWO_ARMS), tmp_path / "copy")
    assert list(json.loads((copy / "answers.json").read_text())["streams"]) == [FEW]
    assert verify(copy).problems == ()
    for arm in ("few", "many"):
        assert len(open_ledger(copy).table.arms[arm]["linear_quadratic"].prefork.answered(0)) == 4
    signed(copy, lambda content: content["streams"].update({MANY: content["streams"].pop(FEW)}))
    assert f"has answers on a stream of '{MANY}', and no row here" in refused(copy)


def test_streams_without_answers_are_counted(tmp_path: Path) -> None:
    authored = TWO_ARMS.replace("mechanism = {", "stream = { action_noise = 0.5 }\nmechanism = {")
    copy = without_streams(write(tmp_path / "study", authored=authored), tmp_path / "copy")
    signed(copy, lambda content: content["streams"].pop(MANY))
    verdict = verify(copy)
    assert verdict.problems == ()
    assert "answered on 1 of them is in answers.json" in " ".join(verdict.notes)


def test_answers_are_read_as_they_were_spelled() -> None:
    asked = [Asked(name, "{}", None) for name in ("alarms", "mute", "nobody")]
    said = [(True, None, False), (None, None, None)]
    record = Answers(
        triggers=tuple(AskedTrigger.of(one) for one in asked),
        streams={"cell": AnsweredStream(stream="s", answers=tuple(as_letters(one) for one in (*said, None)))},
    )
    again = Answers.model_validate_json(record.content())
    assert again.on("cell") == dict(zip(asked[:2], said, strict=True))
    assert again.on("another") == {}
    assert again.content() == record.content()
