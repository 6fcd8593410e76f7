"""`verify`: every way in which a study is not what was written or not what was registered has a name."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from published import RESULTS, STUDIES
from tiny import (
    AUTHORED,
    CELL,
    MODULES,
    RECORDING,
    STREAM,
    TWO_ARMS,
    configuration,
    configurations,
    findings,
    fork,
    keep_modules,
    rechain,
    write,
)
from typer.testing import CliRunner

from worldfork.cli.main import app
from worldfork.ledger import arrays
from worldfork.ledger.row import Digests
from worldfork.ledger.store import Study, writing
from worldfork.ledger.verify import _digests_in, root, verify
from worldfork.registration import canonical, cells, digest, parse

OTHER_STREAM = {**STREAM, "spread": STREAM["error"]}
OTHER_WORDS = AUTHORED.replace('name = "tiny"', 'name = "tiny"\nabout = "in other words"')


BY_DAY = ("demo", "deployment-demo", "stop-cartpole")  # one of each kind; the roots of all are read by day


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in BY_DAY else pytest.mark.nightly) for name in STUDIES]
)
def test_published_studies_verify(name: str) -> None:
    verdict = verify(RESULTS / name)
    assert verdict.problems == ()
    assert verdict.complete


@pytest.mark.parametrize("name", STUDIES)
def test_the_published_roots_are_those_of_the_ledgers(name: str) -> None:
    """results/README.md prints what `worldfork verify results/NAME --root` prints."""
    study = Study(RESULTS / name)
    line = f"{study.registration.name}  registration {study.registration_digest}  root {root(study)}\n"
    assert line in (RESULTS / "README.md").read_text()


# --- damage


def test_every_changed_byte_of_a_row_is_found_and_the_row_is_named(tmp_path: Path) -> None:
    write(tmp_path / "study")
    path = tmp_path / "study" / "cells" / CELL / "forks.jsonl"
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    start = len(lines[0])
    for offset in range(start, start + len(lines[1]), 4):  # one in four; benchmarks/attacks/flips.py draws from all
        damaged = bytearray(whole)
        damaged[offset] ^= 1
        path.write_bytes(bytes(damaged))
        problems = verify(tmp_path / "study").problems
        assert len(problems) == 1, offset
        assert "line 2" in problems[0] or "fork 2" in problems[0] or "line 3" in problems[0], problems
    path.write_bytes(whole)
    assert verify(tmp_path / "study").problems == ()


RECORDS = ["registration.json", "registration.toml", "kept.json", "amendments.jsonl", f"cells/{CELL}/cell.json"]


@pytest.mark.parametrize("name", [*RECORDS, "checkpoints/x.json", "pretraining/r.json"])
def test_every_changed_byte_of_the_records_is_found(tmp_path: Path, name: str) -> None:
    write(tmp_path / "study", rows=1)
    write(tmp_path / "study", rows=1, authored=OTHER_WORDS, amend="said better")
    with writing(tmp_path / "study", parse(OTHER_WORDS), authored=OTHER_WORDS) as study:
        study.begin(configurations(parse(OTHER_WORDS)))
        study.keep("checkpoints/x.json", b'{"seed": 7}')
        study.keep("pretraining/r.json", b'{"seeds": []}')
    path = tmp_path / "study" / name
    whole = path.read_bytes()
    for offset in range(0, len(whole), 7):
        path.write_bytes(whole[:offset] + bytes([whole[offset] ^ 1]) + whole[offset + 1 :])
        assert findings(tmp_path / "study"), (offset, whole[offset : offset + 20])
    path.write_bytes(whole)
    assert not findings(tmp_path / "study")


def test_a_kept_file_that_is_missing_is_found(tmp_path: Path) -> None:
    write(tmp_path / "study")
    (tmp_path / "study" / "registration.toml").unlink()
    assert "registration.toml is missing." in verify(tmp_path / "study").problems


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


def test_a_row_that_was_chained_in_another_spelling_is_found(tmp_path: Path) -> None:
    """Its digest covers its bytes, and it is not as worldfork writes it."""
    write(tmp_path / "study")
    path = tmp_path / "study" / "cells" / CELL / "forks.jsonl"
    *earlier, last = path.read_text().splitlines()
    fields = json.loads(last)
    spelled = canonical({name: value for name, value in fields.items() if name != "digest"}).replace("0.5", "5e-1")
    assert "5e-1" in spelled
    written = hashlib.sha256(spelled.encode()).hexdigest()
    before, prev, after = spelled.partition('"draws":')
    forged = f'{before}"digest":"{written}",{prev}{after}'
    path.write_text("".join(line + "\n" for line in (*earlier, forged)))
    assert "canonical form" in findings(tmp_path / "study")


def test_missing_last_rows_are_incomplete_not_damage(tmp_path: Path) -> None:
    write(tmp_path / "study", rows=2)
    verdict = verify(tmp_path / "study")
    assert verdict.problems == ()
    assert not verdict.complete


def test_a_row_of_another_cell_is_found(tmp_path: Path) -> None:
    write(tmp_path / "study", change={2: {"cell": "another"}})
    assert "line 2: expected fork 2 of" in verify(tmp_path / "study").problems[0]


@pytest.mark.parametrize("name", ["stream.parquet", "window.npz"])
def test_changed_streams_are_found(tmp_path: Path, name: str) -> None:
    study = write(tmp_path / "study")
    path = study.cell(CELL).path / name
    other = {**(STREAM if "stream" in name else RECORDING)}
    key = "error" if "stream" in name else "observation"
    other[key] = other[key] + 1
    (arrays.write_parquet if "stream" in name else arrays.write_npz)(path, other)
    assert "fork 1: stream.parquet or window.npz" in verify(tmp_path / "study").problems[0]
    path.write_bytes(path.read_bytes()[:40])
    assert "damaged" in verify(tmp_path / "study").problems[0]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"delta": 7.0}, "the means or their difference"),
        ({"r_hold": 7.0}, "the means or their difference"),
        ({"r_hold": 7.0, "delta": 2.875 - 7.0}, "the means or their difference"),
        ({"draws": Digests(hold="a", update="b")}, "different random draws"),
        ({"hold": (1.0, 2.0, 1.5)}, "3 episodes of HOLD and 2 of UPDATE where 2 are registered"),
    ],
)
def test_the_means_and_the_pairing_are_checked(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    write(tmp_path / "study", change={2: change})
    (problem,) = verify(tmp_path / "study").problems
    assert f"{CELL}, fork 2: " in problem
    assert told in problem


# --- as registered?


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda made: made["arm"]["mechanism"].update(steps=100), r"arm.mechanism.steps: 200 -> 100"),
        (lambda made: made["arm"]["mechanism"].update(window=99), r"arm.mechanism.window: 10000 -> 99"),
        (lambda made: made["arm"]["mechanism"].update(scope="model+value"), r'arm.mechanism.scope: "model" -> "m'),
        (lambda made: made["arm"]["stream"].update(action_noise=0.3), r"arm.stream.action_noise: 0.0 -> 0.3"),
        (lambda made: made["arm"]["evaluation"].update(mode="forward"), r'arm.evaluation.mode: "pinned" -> "for'),
        (lambda made: made["arm"].update(settings={"rate": 2}), r"arm.settings.rate: null -> 2"),
        (lambda made: made["task"].update(drift_scale=1.5), r"task.drift_scale: 2.0 -> 1.5"),
        (lambda made: made["task"].update(settings={"size": "tiny"}), r'task.settings.size: null -> "tiny"'),
        (lambda made: made.update(precision="bf16"), r'precision: "float32" -> "bf16"'),
        (lambda made: made.update(seed=1), r"seed: 0 -> 1"),
        (lambda made: made.update(signals=["residual"]), r"signals: "),
        (lambda made: made["coordinates"].update(checkpoint=3), r"coordinates.checkpoint: 0 -> 3"),
        (lambda made: made["coordinates"].update(direction="toward"), r'coordinates.direction: "away" -> "toward"'),
        (
            lambda made: made.update(block={"forks_per_block": 3, "streams_per_batch": 10, "halves": 1}),
            r"execution.forks_per_block: 20 -> 3",
        ),
        (lambda made: made["arm"].update(mechanism="none"), r"mechanism"),
    ],
)
def test_a_cell_that_was_not_made_as_registered_is_found(tmp_path: Path, change: Any, told: str) -> None:
    study = write(tmp_path / "study")
    rechain(study, CELL, change)
    (problem,) = verify(study.path).problems
    assert f"{CELL}: its rows were not made as registered: " in problem
    assert told in problem


def test_an_amendment_does_not_cover_rows_that_were_made_otherwise(tmp_path: Path) -> None:
    """As a refused amendment used to leave a study: 100 steps are registered, the rows were made with 200."""
    study = write(tmp_path / "study")
    registration = parse(AUTHORED)
    spelled = parse(AUTHORED + "[mechanism]\nsteps = 100\n").model_dump(mode="json", by_alias=True)
    entry: dict[str, Any] = {
        "reason": "fewer steps",
        "before": registration.digest,
        "after": digest(spelled),
        "changes": ["arms[0].mechanism.steps: 200 -> 100"],
    }
    (study.path / "amendments.jsonl").write_text(canonical({**entry, "digest": digest(entry)}) + "\n")
    record = {"digest": digest(spelled), "registration": spelled}
    (study.path / "registration.json").write_text(canonical(record) + "\n")
    (study.path / "registration.toml").write_text(AUTHORED + "[mechanism]\nsteps = 100\n")
    (study.path / "kept.json").unlink()
    (problem,) = verify(study.path).problems
    assert "not made as registered: arm.mechanism.steps: 100 -> 200" in problem


def test_a_cell_of_another_registration_is_found_unless_an_amendment_names_it(tmp_path: Path) -> None:
    study = write(tmp_path / "study")
    rechain(study, CELL, lambda made: made.update(registration="f" * 64))
    assert verify(study.path).problems == (
        f"{CELL}: cell.json belongs to another registration, ffffffffffff, which no amendment names.",
    )
    amended = write(tmp_path / "amended", rows=2)
    write(tmp_path / "amended", authored=OTHER_WORDS, amend="said better")
    assert verify(amended.path).problems == ()


def test_a_cell_of_another_cell_is_found(tmp_path: Path) -> None:
    study = write(tmp_path / "study")
    rechain(study, CELL, lambda made: made.update(cell="another"))
    assert verify(study.path).problems == (f"{CELL}: cell.json belongs to another cell, another.",)
    (study.path / "cells" / CELL).rename(study.path / "cells" / "moved")
    assert verify(study.path).problems == ("moved is not a cell of the registration.",)


def test_more_rows_than_registered_are_found(tmp_path: Path) -> None:
    study = write(tmp_path / "study", rows=4)
    assert verify(study.path).problems == (f"{CELL}: 4 rows where 3 are registered.",)


@pytest.mark.parametrize(
    "change",
    [
        {"draws": Digests(hold="others", update="others")},
        {"hold": (2.0, 1.0), "r_hold": 1.5},
        {"stream": arrays.content_digest(OTHER_STREAM)},
    ],
)
def test_a_shared_hold_is_its_owners(tmp_path: Path, change: dict[str, Any]) -> None:
    registration = parse(TWO_ARMS)
    owner, sharer = cells(registration)
    with writing(tmp_path / "study", registration, authored=TWO_ARMS) as study:
        study.begin(configurations(registration))
        keep_modules(study)
        study.cell(owner.id).write_stream(STREAM, RECORDING)
        study.cell(sharer.id).write_stream(OTHER_STREAM if "stream" in change else STREAM, RECORDING)
        study.cell(owner.id).append([fork(1, cell=owner.id)])
        study.cell(sharer.id).append([fork(1, cell=sharer.id, **change)])
    assert configuration(registration, sharer)["shares"]["hold"] == owner.id
    assert verify(study.path).problems == (
        f"{sharer.id}, fork 1: HOLD is not that of {owner.id}, from which it was taken.",
    )


def test_the_modules_that_rows_were_computed_with_are_listed(tmp_path: Path) -> None:
    study = write(tmp_path / "study")
    path = study.path / "sources" / f"{digest(MODULES)}.json"
    path.write_text(canonical({**MODULES, "another": "b" * 64}))
    assert any(
        "is not the list of modules that the cells name" in problem for problem in verify(study.path).problems
    )
    path.unlink()
    assert f"There is no `{path}`." in verify(study.path).problems


def test_amendments_that_do_not_lead_to_the_registration_are_found(tmp_path: Path) -> None:
    study = write(tmp_path / "study", rows=1)
    for number in (1, 2):
        words = AUTHORED.replace('name = "tiny"', f'name = "tiny"\nabout = "{number}"')
        write(study.path, rows=1, authored=words, amend=f"{number}")
    path = study.path / "amendments.jsonl"
    first, second = path.read_text().splitlines(keepends=True)
    assert verify(study.path).problems == ()
    for lines, told in ((second, "another registration"), (first, "line 1"), (second + first, "line 1")):
        path.write_text(lines)
        assert told in findings(study.path)


# --- malformed records


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("amendments.jsonl", "{}\n", "line 1 is not what worldfork writes: reason"),
        ("amendments.jsonl", '{"reason":1}\n', "reason"),
        ("amendments.jsonl", "[]\n", "is not what worldfork writes"),
        ("amendments.jsonl", "{", "can not be read"),
        ("registration.json", "{}\n", "digest"),
        ("registration.json", "[]\n", "expected a JSON object"),
        ("registration.json", '{"digest":"d","registration":{}}\n', "is not what was written"),
        ("registration.json", '{"digest":"d","registration":[]}\n', "registration"),
        ("registration.json", "[" * 100_000, "can not be read"),
        ("registration.json", "\udcff", "can not be read"),
        ("registration.toml", "=", "registration.toml can not be read"),
        ("published.json", "{}\n", "does not say what was left out"),
        (
            "published.json",
            '{"left_out":[],"registration":"d","schema":"worldfork.published/1"}\n',
            "another study",
        ),
        (f"cells/{CELL}/cell.json", "{}\n", "is not what worldfork writes"),
        (f"cells/{CELL}/cell.json", "[]\n", "expected a JSON object"),
        (f"cells/{CELL}/cell.json", '{"seed":1e999}\n', "can not be read"),
        (f"cells/{CELL}/cell.json", '{"seed":NaN}\n', "can not be read"),
        (f"cells/{CELL}/cell.json", '{"cell":"\\ud800"}\n', "can not be read"),
        (f"cells/{CELL}/forks.jsonl", "{}\n", "line 1: a row of schema None"),
        (f"cells/{CELL}/forks.jsonl", "[]\n", "line 1: a row of schema None"),
    ],
)
def test_records_without_their_fields_are_one_sentence(tmp_path: Path, name: str, content: str, told: str) -> None:
    study = write(tmp_path / "study")
    (study.path / name).write_bytes(content.encode(errors="surrogateescape"))
    assert told in findings(study.path)


FIELDS = sorted(configuration(parse(AUTHORED), cells(parse(AUTHORED))[0]))


@pytest.mark.parametrize("field", FIELDS)
def test_a_well_chained_cell_without_a_field_is_one_sentence(tmp_path: Path, field: str) -> None:
    study = write(tmp_path / "study")
    rechain(study, CELL, lambda made: made.pop(field))
    (problem,) = verify(study.path).problems
    assert "cell.json` is not what worldfork writes: " in problem
    assert field in problem


# --- the root


def test_the_root_is_one_digest_over_the_whole_ledger(tmp_path: Path) -> None:
    first, again = (root(write(tmp_path / name, authored=TWO_ARMS)) for name in ("first", "again"))
    assert first == again
    longer = write(tmp_path / "shorter", rows=2, authored=TWO_ARMS)
    assert root(longer) != first
    changed = write(tmp_path / "changed", authored=TWO_ARMS)
    rechain(changed, cells(parse(TWO_ARMS))[1].id, lambda made: made.update(device="another"))
    assert verify(changed.path).problems == ()  # every digest was computed anew
    assert root(changed) != first
    amended = write(
        tmp_path / "again",
        authored=TWO_ARMS + "[guess.linear_quadratic]\ncheckpoint=1.0\nfork=1.0\nepisode=1.0\n",
        amend="a guess",
    )
    assert root(amended) != first


def test_the_verb_prints_the_root_and_compares_it(tmp_path: Path) -> None:
    study = write(tmp_path / "study")

    def run(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["verify", str(study.path), *arguments])
        return done.exit_code, done.stdout

    line = f"tiny  registration {study.registration_digest}  root {root(study)}\n"
    assert run("--root") == (0, line)
    assert run("--expect", root(study)) == (0, line)
    code, output = run("--expect", "f" * 64)
    assert code == 1
    assert output == line + f"NOT THE SAME  expected the root {'f' * 64}\n"
    path = study.path / "cells" / CELL / "forks.jsonl"
    path.write_bytes(path.read_bytes().replace(b"residual", b"residuaL"))
    code, output = run("--expect", root(write(tmp_path / "other")))
    assert code == 1
    assert "NOT AS WRITTEN" in output
    assert "  root " not in output


def test_a_json_file_of_somebody_elses_checkpoint_is_no_manifest(tmp_path: Path) -> None:
    """An agent from elsewhere may keep its own settings in a .json: only one that names a digest is compared."""
    manifest = tmp_path / "tank-0.json"
    assert _digests_in(manifest) == set()
    manifest.write_text('{"clean_return": -5.0}')
    assert _digests_in(manifest) == set()
    manifest.write_text('{"digest": "abc"}')
    assert _digests_in(manifest) == {"abc"}
    manifest.write_text("{")
    assert _digests_in(manifest) == {"unreadable"}
