"""The ledger on disk: chained, resumable, refused when edited, and safe against what goes wrong while writing."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from worldfork.errors import WorldforkError
from worldfork.ledger import arrays, files
from worldfork.ledger.row import Counts, Digests, FitRecord, ForkRow, finite, mean, read_line, seal
from worldfork.ledger.store import Study, writing
from worldfork.ledger.verify import verify
from worldfork.registration import parse

AUTHORED = """
schema = "worldfork.registration/1"
name = "tiny"
[grid]
tasks = ["linear_quadratic"]
checkpoints = [0]
directions = ["away"]
[stream]
decision_points = 3
[tasks.linear_quadratic]
agent = "linear_quadratic"
drift_scale = 2.0
"""
CELL = "tiny-linear_quadratic-c0-away-s0"
STREAM = {"step": np.arange(4), "error": np.array([0.1, 0.2, np.nan, 0.4])}
WINDOW = {"observation": np.ones((4, 2)), "first": np.array([True, False, False, False])}


def fork(k: int, **changes: Any) -> ForkRow:
    hold, update = finite([1.0, 2.0]), finite([1.5, 2.25 + k])
    fields: dict[str, Any] = {
        "cell": CELL,
        "k": k,
        "step": 50 * k,
        "env_step": 50 * k,
        "level": 0.1 * k,
        "rate": 0.1,
        "signals": {"residual": 0.3, "kl": None},
        "hold": hold,
        "update": update,
        "r_hold": mean(hold),
        "r_update": mean(update),
        "delta": (mean(update) or 0) - (mean(hold) or 0),
        "fit": FitRecord(
            loss_before=1.0, loss_after=0.5, grad_norm=0.1, param_shift=0.2, window=50 * k, non_finite=0
        ),
        "nonfinite_actions": Counts(hold=0, update=0),
        "nonfinite_returns": Counts(hold=0, update=0),
        "unstable_episodes": Counts(hold=0, update=0),
        "draws": Digests(hold="d", update="d"),
        "stream": arrays.content_digest(STREAM),
        "window": arrays.content_digest(WINDOW),
        "prev": "",
        "digest": "",
    }
    return ForkRow(**{**fields, **changes})


def configuration(digest: str) -> dict[str, Any]:
    return {"cell": CELL, "registration": digest, "precision": "float64"}


def write(folder: Path, *, rows: int = 3, authored: str = AUTHORED, amend: str | None = None) -> Study:
    registration = parse(authored)
    with writing(folder, registration, authored=authored, amend=amend) as study:
        cell = study.cell(CELL)
        amended = [entry["before"] for entry in study.amendments()]
        known, _ = cell.begin(configuration(registration.digest), amended=amended)
        if not cell.has_stream():
            cell.write_stream(STREAM, WINDOW)
        cell.append([fork(k) for k in range(len(known) + 1, rows + 1)])
    return study


def test_what_is_written_is_read_back_and_verifies(tmp_path: Path) -> None:
    study = write(tmp_path / "study")
    assert [row.k for row in study.cell(CELL).rows()] == [1, 2, 3]
    stream, window = study.cell(CELL).read_stream()
    assert arrays.content_digest(stream) == arrays.content_digest(STREAM)
    assert arrays.content_digest(window) == arrays.content_digest(WINDOW)
    verdict = verify(tmp_path / "study")
    assert verdict.problems == ()
    assert verdict.complete
    assert study.registration == parse(AUTHORED)


def test_a_run_in_pieces_leaves_the_same_bytes_as_one_in_one_go(tmp_path: Path) -> None:
    write(tmp_path / "once")
    for rows in (1, 2, 3, 3):
        write(tmp_path / "pieces", rows=rows)
    files_of = [
        {p.relative_to(root): p.read_bytes() for p in root.rglob("*") if p.is_file()}
        for root in (tmp_path / "once", tmp_path / "pieces")
    ]
    assert files_of[0] == files_of[1]


def test_every_changed_byte_of_a_row_is_found_and_the_row_is_named(tmp_path: Path) -> None:
    write(tmp_path / "study")
    path = tmp_path / "study" / "cells" / CELL / "forks.jsonl"
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    start = len(lines[0])
    for offset in range(start, start + len(lines[1])):
        damaged = bytearray(whole)
        damaged[offset] ^= 1
        path.write_bytes(bytes(damaged))
        problems = verify(tmp_path / "study").problems
        assert len(problems) == 1, offset
        assert "line 2" in problems[0] or "fork 2" in problems[0] or "line 3" in problems[0], problems
    path.write_bytes(whole)
    assert verify(tmp_path / "study").problems == ()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda lines: lines[1:], "line 1"),
        (lambda lines: [lines[0], lines[2]], "line 2"),
        (lambda lines: [lines[0], lines[0], *lines[1:]], "line 2"),
        (lambda lines: [lines[1], lines[0], lines[2]], "line 1"),
        (lambda lines: [*lines[:2], lines[2][:-9]], "torn"),
    ],
)
def test_a_lost_doubled_moved_or_torn_row_is_found(tmp_path: Path, change: Any, told: str) -> None:
    write(tmp_path / "study")
    path = tmp_path / "study" / "cells" / CELL / "forks.jsonl"
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))
    assert told in verify(tmp_path / "study").problems[0]


def test_missing_last_rows_are_incomplete_not_damage(tmp_path: Path) -> None:
    write(tmp_path / "study", rows=2)
    verdict = verify(tmp_path / "study")
    assert verdict.problems == ()
    assert not verdict.complete


@pytest.mark.parametrize("name", ["registration.json", "registration.toml", "cells/CELL/cell.json"])
def test_other_files_are_covered_too(tmp_path: Path, name: str) -> None:
    write(tmp_path / "study")
    path = tmp_path / "study" / name.replace("CELL", CELL)
    path.write_text(path.read_text().replace("linear_quadratic", "linear_quadratik"))
    with_damage = verify_or_error(tmp_path / "study")
    assert with_damage


@pytest.mark.parametrize("name", ["stream.parquet", "window.npz"])
def test_changed_streams_are_found(tmp_path: Path, name: str) -> None:
    study = write(tmp_path / "study")
    path = study.cell(CELL).path / name
    other = {**(STREAM if "stream" in name else WINDOW)}
    key = "error" if "stream" in name else "observation"
    other[key] = other[key] + 1
    (arrays.write_parquet if "stream" in name else arrays.write_npz)(path, other)
    assert "fork 1: stream.parquet or window.npz" in verify(tmp_path / "study").problems[0]
    path.write_bytes(path.read_bytes()[:40])
    assert "damaged" in verify(tmp_path / "study").problems[0]


def verify_or_error(folder: Path) -> str:
    try:
        return "\n".join(verify(folder).problems)
    except WorldforkError as error:
        return str(error)


def test_the_means_and_the_pairing_are_checked(tmp_path: Path) -> None:
    registration = parse(AUTHORED)
    wrong = {"delta": {"delta": 7.0}, "draws": {"draws": Digests(hold="a", update="b")}}
    for name, change in wrong.items():
        with writing(tmp_path / name, registration, authored=AUTHORED) as study:
            cell = study.cell(CELL)
            cell.begin(configuration(registration.digest))
            cell.write_stream(STREAM, WINDOW)
            cell.append([fork(1, **change)])
        assert "fork 1" in verify(tmp_path / name).problems[0]


def test_a_torn_line_is_cut_off_and_said(tmp_path: Path) -> None:
    write(tmp_path / "reference")
    study = write(tmp_path / "study", rows=2)
    path = study.cell(CELL).path / "forks.jsonl"
    path.write_bytes(path.read_bytes() + b'{"cell":"tiny')
    registration = parse(AUTHORED)
    with writing(tmp_path / "study", registration, authored=AUTHORED) as study:
        rows, note = study.cell(CELL).begin(configuration(registration.digest))
    assert len(rows) == 2
    assert note is not None
    assert "torn line of 13 bytes after fork 2" in note
    write(tmp_path / "study")
    assert path.read_bytes() == (tmp_path / "reference" / "cells" / CELL / "forks.jsonl").read_bytes()


def test_an_edited_registration_is_refused_with_the_difference_or_amended_with_a_reason(tmp_path: Path) -> None:
    write(tmp_path / "study", rows=2)
    edited = AUTHORED.replace("drift_scale = 2.0", 'drift_scale = 2.0\ncheckpoints = "bundled"')
    with pytest.raises(WorldforkError, match=r'tasks\.linear_quadratic\.checkpoints: "generated" -> "bundled"'):
        write(tmp_path / "study", authored=edited)
    assert len(write(tmp_path / "study", rows=2).cell(CELL).rows()) == 2
    study = write(tmp_path / "study", rows=3, authored=edited, amend="the files moved")
    assert study.amendments()[0]["reason"] == "the files moved"
    assert verify(tmp_path / "study").problems == ()


def test_a_registration_without_rows_may_still_change(tmp_path: Path) -> None:
    write(tmp_path / "study", rows=0)
    study = write(tmp_path / "study", rows=3, authored=AUTHORED.replace("drift_scale = 2.0", "drift_scale = 3.0"))
    assert study.amendments() == []
    assert verify(tmp_path / "study").problems == ()


def test_rows_of_two_configurations_are_never_mixed(tmp_path: Path) -> None:
    write(tmp_path / "study", rows=2)
    registration = parse(AUTHORED)
    with (
        writing(tmp_path / "study", registration, authored=AUTHORED) as study,
        pytest.raises(WorldforkError, match='precision: "float64" -> "bf16"'),
    ):
        study.cell(CELL).begin({**configuration(registration.digest), "precision": "bf16"})


def test_two_writers_at_once_are_refused_and_nothing_is_lost(tmp_path: Path) -> None:
    registration = parse(AUTHORED)
    write(tmp_path / "study", rows=2)
    with (
        writing(tmp_path / "study", registration, authored=AUTHORED),
        pytest.raises(WorldforkError, match="one writer at a time"),
    ):
        write(tmp_path / "study")
    assert len(write(tmp_path / "study").cell(CELL).rows()) == 3


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


def test_another_version_or_field_is_refused_with_what_to_do() -> None:
    line = json.dumps(seal(fork(1), prev="p").model_dump(mode="json", by_alias=True))
    with pytest.raises(WorldforkError, match="version that wrote it"):
        read_line(line.replace("worldfork.row/1", "worldfork.row/2"), where="here")
    with pytest.raises(WorldforkError, match="extra"):
        read_line(line[:-1] + ',"more":1}', where="here")
