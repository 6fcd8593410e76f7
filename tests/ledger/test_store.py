"""The ledger on disk: chained, resumable, refused when edited, and safe against what goes wrong while writing."""

import errno
import itertools
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from tiny import (
    AUTHORED,
    CELL,
    RECORDING,
    STREAM,
    TWO_ARMS,
    configuration,
    configurations,
    contents,
    fork,
    keep_modules,
    rechain,
    write,
)

from worldfork.errors import WorldforkError
from worldfork.ledger import arrays, files
from worldfork.ledger.documents import seal
from worldfork.ledger.row import ForkRow, finite, mean, read_row
from worldfork.ledger.store import Study, writing
from worldfork.ledger.verify import verify
from worldfork.registration import canonical, cells, digest, parse

STEPS = AUTHORED + "[mechanism]\nsteps = 100\n"  # 200 are the default: rows are not made so
OTHER_WORDS = AUTHORED.replace('name = "tiny"', 'name = "tiny"\nabout = "in other words"')


def test_what_is_written_is_read_back_and_verifies(tmp_path: Path) -> None:
    study = write(tmp_path / "study")
    assert [row.k for row in study.cell(CELL).rows()] == [1, 2, 3]
    log, recording = study.cell(CELL).read_stream()
    assert arrays.content_digest(log) == arrays.content_digest(STREAM)
    assert arrays.content_digest(recording) == arrays.content_digest(RECORDING)
    verdict = verify(tmp_path / "study")
    assert verdict.problems == ()
    assert verdict.complete
    assert study.registration == parse(AUTHORED)


def test_a_run_in_pieces_leaves_the_same_bytes_as_one_in_one_go(tmp_path: Path) -> None:
    write(tmp_path / "once")
    for rows in (1, 2, 3, 3):
        write(tmp_path / "pieces", rows=rows)
    assert contents(tmp_path / "once") == contents(tmp_path / "pieces")


def test_rows_are_chained_from_one_append_to_the_next(tmp_path: Path) -> None:
    registration = parse(AUTHORED)
    with writing(tmp_path / "study", registration, authored=AUTHORED) as study:
        study.begin(configurations(registration))
        keep_modules(study)
        study.cell(CELL).write_stream(STREAM, RECORDING)
        for k in (1, 2, 3):
            study.cell(CELL).append([fork(k)])
        assert study.cell(CELL).append([]) == []
    write(tmp_path / "once")
    assert contents(tmp_path / "study") == contents(tmp_path / "once")


def test_a_torn_line_is_cut_off_and_said(tmp_path: Path) -> None:
    write(tmp_path / "reference")
    study = write(tmp_path / "study", rows=2)
    path = study.cell(CELL).path / "forks.jsonl"
    path.write_bytes(path.read_bytes() + b'{"cell":"tiny')
    registration = parse(AUTHORED)
    with writing(tmp_path / "study", registration, authored=AUTHORED) as study:
        rows, notes = study.begin(configurations(registration))
    assert len(rows[CELL]) == 2
    assert notes == [f"{CELL}: cut off a torn line of 13 bytes after fork 2."]
    write(tmp_path / "study")
    assert path.read_bytes() == (tmp_path / "reference" / "cells" / CELL / "forks.jsonl").read_bytes()


# --- registrations that change


def test_an_edited_registration_is_refused_with_the_difference_or_amended_with_a_reason(tmp_path: Path) -> None:
    write(tmp_path / "study", rows=2)
    before = contents(tmp_path / "study")
    with pytest.raises(WorldforkError, match='about: "" -> "in other words"'):
        write(tmp_path / "study", authored=OTHER_WORDS)
    assert contents(tmp_path / "study") == before
    assert len(write(tmp_path / "study", rows=2).cell(CELL).rows()) == 2
    study = write(tmp_path / "study", rows=3, authored=OTHER_WORDS, amend="said better")
    (amendment,) = study.amendments()
    assert (amendment.reason, amendment.changes) == ("said better", ('about: "" -> "in other words"',))
    assert (amendment.before, amendment.after) == (parse(AUTHORED).digest, study.registration_digest)
    assert verify(tmp_path / "study").problems == ()
    assert study.registration.about == "in other words"


@pytest.mark.parametrize("drift", ["2.0", "3.0"])
def test_any_row_keeps_its_registration(tmp_path: Path, drift: str) -> None:
    """One row in one cell of two is enough."""
    registration = parse(TWO_ARMS)
    with writing(tmp_path / "study", registration, authored=TWO_ARMS) as study:
        study.begin(configurations(registration))
        for cell in map(study.cell, configurations(registration)):
            cell.write_stream(STREAM, RECORDING)
        cell.append([fork(1, cell=cell.id)])
    edited = TWO_ARMS.replace("drift_scale = 2.0", f"drift_scale = {drift}").replace("steps = 400", "steps = 401")
    with pytest.raises(WorldforkError, match=r"holds rows of another registration.[\s\S]*400 -> 401"):
        write(tmp_path / "study", authored=edited)


def test_a_registration_without_rows_may_still_change(tmp_path: Path) -> None:
    write(tmp_path / "study", rows=0)
    study = write(tmp_path / "study", rows=3, authored=AUTHORED.replace("drift_scale = 2.0", "drift_scale = 3.0"))
    assert study.amendments() == []
    assert verify(tmp_path / "study").problems == ()


def test_a_stream_of_another_configuration_is_not_kept(tmp_path: Path) -> None:
    study = write(tmp_path / "study", rows=0)
    assert study.cell(CELL).has_stream()
    registration = parse(AUTHORED)
    with writing(tmp_path / "study", registration, authored=AUTHORED) as study:
        study.begin(configurations(registration))
        assert study.cell(CELL).has_stream()  # nothing changed
        study.begin(configurations(registration, source="another version of the code"))
        assert not study.cell(CELL).has_stream()
        assert not (study.cell(CELL).path / "stream.parquet").exists()


def test_a_stream_that_no_configuration_stands_for_is_not_kept(tmp_path: Path) -> None:
    study = write(tmp_path / "study", rows=0)
    (study.cell(CELL).path / "cell.json").unlink()
    registration = parse(AUTHORED)
    with writing(tmp_path / "study", registration, authored=AUTHORED) as study:
        study.begin(configurations(registration))
        assert not study.cell(CELL).has_stream()


def test_cells_without_rows_that_are_registered_no_longer_go(tmp_path: Path) -> None:
    write(tmp_path / "study", rows=0, authored=TWO_ARMS)
    mine = tmp_path / "study" / "cells" / "many-linear_quadratic-c0-away-s0" / "notes.txt"
    mine.write_text("mine")
    registration = parse(AUTHORED)
    with writing(tmp_path / "study", registration, authored=AUTHORED) as study:
        _, notes = study.begin(configurations(registration))
    assert len(notes) == 2
    assert [cell.id for cell in study.cells()] == [CELL]
    assert mine.read_text() == "mine"
    write(tmp_path / "study")
    assert verify(tmp_path / "study").problems == ()


def test_cells_with_rows_stay_registered(tmp_path: Path) -> None:
    write(tmp_path / "study", authored=TWO_ARMS)
    fewer = TWO_ARMS[: TWO_ARMS.index('[[arms]]\nname = "many"')]
    before = contents(tmp_path / "study")
    with pytest.raises(WorldforkError, match=r"many-.* has rows, and the registration no longer has that cell"):
        write(tmp_path / "study", authored=fewer, amend="one arm is enough")
    assert contents(tmp_path / "study") == before


@pytest.mark.parametrize("name", ["registration.json", "amendments.jsonl"])
def test_a_study_whose_registration_was_edited_is_not_carried_on(tmp_path: Path, name: str) -> None:
    write(tmp_path / "study", rows=1)
    write(tmp_path / "study", rows=1, authored=OTHER_WORDS, amend="said better")
    if name == "registration.json":
        path = tmp_path / "study" / name
        path.write_text(path.read_text().replace("in other words", "in OTHER words"))
    else:
        write(tmp_path / "another", rows=1, authored=STEPS)
        other = STEPS.replace('name = "tiny"', 'name = "tiny"\nabout = "other"')
        write(tmp_path / "another", rows=1, authored=other, amend="elsewhere")
        shutil.copy(tmp_path / "another" / name, tmp_path / "study" / name)
    before = contents(tmp_path / "study")
    with pytest.raises(WorldforkError, match=r"is not what was written|do not lead to its registration"):
        write(tmp_path / "study", authored=OTHER_WORDS)
    assert contents(tmp_path / "study") == before


# --- decide first, write once


def test_rows_of_two_configurations_are_never_mixed(tmp_path: Path) -> None:
    write(tmp_path / "study", rows=2)
    before = contents(tmp_path / "study")
    with pytest.raises(WorldforkError, match='device: "cpu" -> "NVIDIA H200"'):
        write(tmp_path / "study", device="NVIDIA H200")
    assert contents(tmp_path / "study") == before


def test_rows_of_a_registration_that_no_amendment_names_are_not_carried_on(tmp_path: Path) -> None:
    study = write(tmp_path / "study", rows=2)
    rechain(study, CELL, lambda stored: stored.update(registration="f" * 64))
    with pytest.raises(WorldforkError, match='registration: "ffff'):
        write(tmp_path / "study")


def test_rows_that_no_configuration_stands_for_are_not_carried_on(tmp_path: Path) -> None:
    study = write(tmp_path / "study", rows=2)
    (study.cell(CELL).path / "cell.json").unlink()
    before = contents(study.path)
    with pytest.raises(WorldforkError, match=r"has rows and no cell\.json"):
        write(tmp_path / "study")
    assert contents(study.path) == before


def test_a_refused_amendment_changes_nothing(tmp_path: Path) -> None:
    write(tmp_path / "study", rows=2)
    before = contents(tmp_path / "study")
    with pytest.raises(WorldforkError, match=r"arm\.mechanism\.steps: 200 -> 100"):
        write(tmp_path / "study", authored=STEPS, amend="fewer steps")
    assert contents(tmp_path / "study") == before
    write(tmp_path / "study")  # "run it as before"
    assert verify(tmp_path / "study").complete


def test_every_cell_is_asked_before_anything_is_written(tmp_path: Path) -> None:
    """The last cell refuses; the first has no rows and would have been begun anew."""
    registration = parse(TWO_ARMS)
    with writing(tmp_path / "study", registration, authored=TWO_ARMS) as study:
        study.begin(configurations(registration))
        last = study.cell(cells(registration)[-1].id)
        for cell in study.cells():
            cell.write_stream(STREAM, RECORDING)
        last.append([fork(1, cell=last.id)])
    before = contents(tmp_path / "study")
    with pytest.raises(WorldforkError, match=r"many-.* has rows made under another configuration:\n  source: "):
        write(tmp_path / "study", authored=TWO_ARMS, source="another version of the code")
    assert contents(tmp_path / "study") == before


def test_no_registration_is_changed_behind_the_back_of_a_cell_with_rows(tmp_path: Path) -> None:
    write(tmp_path / "study", rows=1)
    before = contents(tmp_path / "study")
    with (
        writing(tmp_path / "study", parse(STEPS), authored=STEPS, amend="fewer steps") as study,
        pytest.raises(WorldforkError, match="has rows and was not asked"),
    ):
        study.begin({})
    assert contents(tmp_path / "study") == before


def test_refusals_that_are_alike_are_told_once(tmp_path: Path) -> None:
    write(tmp_path / "study", authored=TWO_ARMS)
    with pytest.raises(WorldforkError) as refused:
        write(tmp_path / "study", authored=TWO_ARMS, source="another version of the code")
    assert str(refused.value).count("source:") == 1
    assert "(Likewise in 1 more cell.)" in str(refused.value)


@pytest.mark.parametrize("exists", [False, True])
def test_a_run_that_never_began_leaves_no_folder_behind(tmp_path: Path, exists: bool) -> None:
    folder = tmp_path / "runs" / "study"
    if exists:
        folder.mkdir(parents=True)
    with (
        pytest.raises(WorldforkError, match="jax is not installed"),
        writing(folder, parse(AUTHORED), authored=AUTHORED),
    ):
        raise WorldforkError("jax is not installed")
    assert folder.exists() == exists
    assert (tmp_path / "runs").exists() == exists
    assert not exists or list(folder.iterdir()) == []


def test_a_refusal_does_not_take_the_lock_of_others_away(tmp_path: Path) -> None:
    registration = parse(AUTHORED)
    write(tmp_path / "study", rows=2)
    with (
        writing(tmp_path / "study", registration, authored=AUTHORED),
        pytest.raises(WorldforkError, match="one writer at a time"),
    ):
        write(tmp_path / "study")
    assert (tmp_path / "study" / ".lock").exists()
    assert len(write(tmp_path / "study").cell(CELL).rows()) == 3


class Killed(BaseException):
    """A kill, as far as files are concerned: nothing after it happens."""


@pytest.mark.parametrize("amended", [False, True])
def test_a_kill_between_any_two_writes_of_a_beginning_is_carried_on_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, amended: bool
) -> None:
    """With and without an amendment on its way, by the same command and, with no row lost, by the one before."""
    start = tmp_path / "start"
    write(start, rows=1 if amended else 0)
    wanted: dict[str, Any] = {"authored": OTHER_WORDS, "amend": "said better"} if amended else {"authored": STEPS}
    shutil.copytree(start, tmp_path / "whole")
    write(tmp_path / "whole", **wanted)
    for name, moment in itertools.product(("replace", "fsync", "write"), range(12)):
        study = tmp_path / f"{name}-{moment}"
        shutil.copytree(start, study)
        real, calls = getattr(os, name), iter(range(10**6))

        def dying(*arguments: Any, real: Any = real, calls: Any = calls, moment: int = moment) -> Any:
            if next(calls) == moment:
                raise Killed
            return real(*arguments)

        monkeypatch.setattr(files.os, name, dying)
        try:
            write(study, **wanted)
        except Killed:
            pass
        finally:
            monkeypatch.setattr(files.os, name, real)
        back = tmp_path / f"{name}-{moment}-back"
        shutil.copytree(study, back)
        write(study, **wanted)
        assert contents(study) == contents(tmp_path / "whole")
        if amended and not Study(back).amendments():
            write(back)  # as before: the amendment never came
            assert verify(back).complete
    assert (tmp_path / "whole" / "amendments.jsonl").exists() == amended


def test_an_amendment_whose_registration_never_came_does_not_count(tmp_path: Path) -> None:
    write(tmp_path / "study", rows=2)
    write(tmp_path / "amended", rows=2)
    write(tmp_path / "amended", rows=2, authored=OTHER_WORDS, amend="said better")
    shutil.copy(tmp_path / "amended" / "amendments.jsonl", tmp_path / "study" / "amendments.jsonl")
    assert "run the same command again" in verify(tmp_path / "study").problems[0]
    write(tmp_path / "study", rows=2)
    assert not (tmp_path / "study" / "amendments.jsonl").exists()
    assert verify(tmp_path / "study").problems == ()


def test_a_text_that_a_kill_left_beside_another_registration_is_put_right(tmp_path: Path) -> None:
    write(tmp_path / "study", rows=2)
    (tmp_path / "study" / "registration.toml").write_text(OTHER_WORDS)
    assert "registration.toml is not the one" in verify(tmp_path / "study").problems[0]
    write(tmp_path / "study")
    assert verify(tmp_path / "study").problems == ()


def test_a_registration_of_a_version_with_fewer_settings_keeps_its_digest(tmp_path: Path) -> None:
    """What an older version stored lacks the settings that came later. Here the setting is `guess`."""
    study = write(tmp_path / "study", rows=0)
    path = study.path / "registration.json"
    older = json.loads(path.read_text())["registration"]
    del older["guess"]
    path.write_text(canonical({"digest": digest(older), "registration": older}) + "\n")
    assert study.registration_digest == digest(older) != parse(AUTHORED).digest
    assert study.registration == parse(AUTHORED)
    write(tmp_path / "study")
    assert json.loads(path.read_text())["registration"] == older  # the same registration: not written anew
    assert study.cell(CELL).configuration["registration"] == digest(older)
    assert verify(tmp_path / "study").problems == ()
    write(tmp_path / "study", authored=OTHER_WORDS, amend="said better")
    assert study.amendments()[0].before == digest(older)
    assert verify(tmp_path / "study").problems == ()


def test_what_is_kept_is_listed_once_and_not_overwritten(tmp_path: Path) -> None:
    registration = parse(AUTHORED)
    (tmp_path / "model").write_bytes(b"model")
    for content in (b"first", b"second"):
        with writing(tmp_path / "study", registration, authored=AUTHORED) as study:
            study.begin(configurations(registration))
            study.keep("checkpoints/x.json", content)
            study.keep("checkpoints/x.safetensors", tmp_path / "model")
    assert (study.path / "checkpoints" / "x.json").read_bytes() == b"first"
    assert sorted(study.kept().files) == ["checkpoints/x.json", "checkpoints/x.safetensors", "registration.toml"]
    whole = (study.path / "kept.json").read_bytes()
    (study.path / "kept.json").unlink()  # as if killed before it came
    with writing(tmp_path / "study", registration, authored=AUTHORED) as study:
        study.begin(configurations(registration))
        study.keep("checkpoints/x.json", b"third")
        study.keep("checkpoints/x.safetensors", b"third")
    assert (study.path / "kept.json").read_bytes() == whole


def test_nothing_is_kept_before_it_is_decided(tmp_path: Path) -> None:
    with (
        writing(tmp_path / "study", parse(AUTHORED), authored=AUTHORED) as study,
        pytest.raises(AssertionError, match="`begin` comes before `keep`"),
    ):
        study.keep("checkpoints/x.json", b"{}")
    assert not (tmp_path / "study").exists()


# --- what goes wrong while writing


@pytest.mark.parametrize("failing", ["write", "fsync", "replace"])
@pytest.mark.parametrize(
    ("number", "told"), [(errno.ENOSPC, "the disk is full"), (errno.EROFS, "can not be written")]
)
def test_a_full_or_read_only_disk_is_told_clearly_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str, number: int, told: str
) -> None:
    write(tmp_path / "reference")
    real = getattr(os, failing)
    for moment in range(30):
        calls = iter(range(10**6))

        def break_down(*arguments: Any, calls: Any = calls, moment: int = moment) -> Any:
            if next(calls) == moment:
                if failing == "write":
                    real(arguments[0], arguments[1][:5])  # a part may reach the disk
                raise OSError(number, os.strerror(number))
            return real(*arguments)

        study = tmp_path / f"study{moment}"
        monkeypatch.setattr(files.os, failing, break_down)
        try:
            write(study)
        except WorldforkError as error:
            assert told in str(error)  # noqa: PT017
        else:
            break
        finally:
            monkeypatch.setattr(files.os, failing, real)
        write(study)
        assert verify(study).problems == ()
        rows = "cells/" + CELL + "/forks.jsonl"
        assert (study / rows).read_bytes() == (tmp_path / "reference" / rows).read_bytes()
    assert 2 < moment < 29


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("!")
    with pytest.raises(WorldforkError, match="not a study"):
        write(tmp_path)
    with pytest.raises(WorldforkError, match="is a file"):
        write(tmp_path / "thesis.tex")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["thesis.tex"]
    (tmp_path / "recorded").mkdir()
    for name in (".lock", "recorder.json"):
        (tmp_path / "recorded" / name).touch()
    with pytest.raises(WorldforkError, match=r"not a study \(it holds recorder\.json and no reg"):
        write(tmp_path / "recorded")


# --- a study from a stranger


def test_a_cell_is_named_like_a_folder(tmp_path: Path) -> None:
    for name in ("../elsewhere", "/etc", "a/b", "..", ""):
        with pytest.raises(WorldforkError, match="A cell's name"):
            Study(tmp_path).cell(name)


# --- rows


def test_another_version_or_field_is_refused_with_what_to_do() -> None:
    line = json.dumps(seal(fork(1), prev="p").model_dump(mode="json", by_alias=True))
    with pytest.raises(WorldforkError, match="version that wrote it"):
        read_row(line.replace("worldfork.row/1", "worldfork.row/2"), ForkRow, where="here")
    with pytest.raises(WorldforkError, match="more: not a known setting"):
        read_row(line[:-1] + ',"more":1}', ForkRow, where="here")
    with pytest.raises(WorldforkError, match="not a fork row"):
        read_row("[" * 100_000, ForkRow, where="here")


def test_a_row_has_one_spelling() -> None:
    fields = seal(fork(1), prev="p").model_dump(mode="json", by_alias=True)
    assert read_row(canonical(fields), ForkRow, where="here").k == 1
    for other in (json.dumps(fields), canonical(fields).replace("0.5", "5e-1"), canonical(fields) + " "):
        with pytest.raises(WorldforkError, match="not what was written"):
            read_row(other, ForkRow, where="here")


def test_a_mean_over_a_missing_return_is_missing() -> None:
    assert mean(finite([1.0, float("nan")])) is None
    assert mean(finite([float("inf")])) is None
    assert mean(()) is None
    assert mean(finite([0.1] * 10)) == 0.1  # correctly rounded


def test_a_cell_alone_can_be_carried_on_with(tmp_path: Path) -> None:
    study = write(tmp_path / "study", rows=1)
    cell = Study(study.path).cell(CELL)
    plan = cell.plan(cell.configuration)
    assert (len(plan.rows), cell.open(plan)) == (1, None)
    cell.append([fork(2)])
    with pytest.raises(WorldforkError, match=r'source: "[0-9a-f]{64}" -> "other"'):
        cell.plan(configuration(parse(AUTHORED), cells(parse(AUTHORED))[0], source="other"))
    assert len(cell.rows()) == 2
