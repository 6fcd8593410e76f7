"""A recorded ledger is chained, resumed and read like any other, whatever happens to the loop that writes it."""

import hashlib
import json
import multiprocessing
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tiny import forge
from typer.testing import CliRunner

import worldfork as wf
from worldfork.cli.main import app
from worldfork.errors import WorldforkError
from worldfork.ledger.recorded import RecordedLedger
from worldfork.ledger.verify import identity, verify

TASK = {"task": "churn model", "question": "Does weekly retraining pay?"}


class WithGradient:
    """A stand-in for a tensor that some library does not give out as it is."""

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad.")

    def __float__(self) -> float:
        raise RuntimeError("a Tensor with 2 elements cannot be converted to Scalar")


def recorded(folder: Path, *, checkpoints: int = 8, points: int = 4, **settings: Any) -> wf.Recorder:
    """A ledger in which an update earns as much more as its checkpoint's number, and its signal says so."""
    recorder = wf.Recorder(folder, **{**TASK, **settings})
    for checkpoint in range(checkpoints):
        for k in range(1, points + 1):
            signals = {"error": float(k), "lost": None}
            hold, update = [1.0, 2.0], [2.0 + checkpoint, 3.0 + k]
            recorder.fork(checkpoint=checkpoint, k=k, hold=hold, update=update, signals=signals, level=k / points)
    return recorder


def test_what_is_recorded_is_what_is_scored(tmp_path: Path) -> None:
    recorded(tmp_path / "mine")
    rows = [
        {"checkpoint": checkpoint, "k": k, "r_hold": 1.5, "r_update": (5.0 + checkpoint + k) / 2, "signal_error": k}
        for checkpoint in range(8)
        for k in range(1, 5)
    ]
    by_table = wf.score(pl.DataFrame(rows), permutations=50)["table"]
    by_recorder = wf.score(tmp_path / "mine", permutations=50)
    assert by_recorder.name == "mine"
    effect = by_recorder["churn model"].effect.all_attempted
    assert effect == by_table.effect.all_attempted
    assert effect.by_checkpoint["3"] == pytest.approx(3.75)
    of_both = [task.triggers.retained["error"].auc for task in (by_recorder["churn model"], by_table)]
    assert of_both[0] == of_both[1]


def test_every_verb_takes_it(tmp_path: Path) -> None:
    recorded(tmp_path / "mine", common_random_numbers=True)

    def invoke(*arguments: object) -> str:
        done = CliRunner().invoke(app, list(map(str, arguments)))
        assert done.exit_code == 0, done.exception
        return done.output

    name, _, root = identity(tmp_path / "mine")
    passed = f"As far as it goes: 32 forks in 8 cells; root {root}; 0 problems."
    assert passed in invoke("verify", tmp_path / "mine")
    assert f"root {root}" in invoke("verify", tmp_path / "mine", "--root")
    invoke("verify", tmp_path / "mine", "--expect", root)
    stated = "On the recorder's word: common random numbers: yes; exact restore: not stated."
    assert stated in invoke("verify", tmp_path / "mine")
    assert stated in " ".join(invoke("score", tmp_path / "mine", "--permutations", 50).split())
    invoke("export", tmp_path / "mine", "-o", tmp_path / "forks.parquet")
    assert (
        wf.score(tmp_path / "forks.parquet", permutations=50)["churn model"]
        == (wf.score(tmp_path / "mine", permutations=50)["churn model"])
    )
    invoke("report", tmp_path / "mine", "--permutations", 50)
    page = (tmp_path / "mine" / "report" / "index.html").read_text()
    assert "<h2>Does weekly retraining pay?</h2>" in page
    assert stated in page.replace("&#39;", "'")
    assert verify(tmp_path / "mine").problems == ()
    assert name == "mine"


def test_a_loop_that_is_run_again_goes_on_and_records_nothing_twice(tmp_path: Path) -> None:
    recorded(tmp_path / "once")
    recorded(tmp_path / "twice", checkpoints=3)
    again = wf.Recorder(tmp_path / "twice", **TASK)
    assert (len(again), again.has(checkpoint=2, k=4), again.has(checkpoint=3, k=1)) == (12, True, False)
    with pytest.raises(WorldforkError, match=r"Fork 2 of checkpoint 1 is in .* already"):
        again.fork(checkpoint="1", k=2, hold=1.0, update=2.0)
    for checkpoint in range(3, 8):
        for k in range(1, 5):
            again.fork(
                checkpoint=checkpoint,
                k=k,
                hold=[1.0, 2.0],
                update=[2.0 + checkpoint, 3.0 + k],
                signals={"error": float(k), "lost": None},
                level=k / 4,
            )
    assert identity(tmp_path / "twice")[1:] == identity(tmp_path / "once")[1:]


@pytest.mark.parametrize(
    "other", [{"direction": "away"}, {"stream_seed": 1}, {"update_seed": 1}, {"arm": "gentle"}, {"k": 2}]
)
def test_forks_that_differ_in_any_coordinate_are_two(tmp_path: Path, other: dict[str, Any]) -> None:
    recorder = wf.Recorder(tmp_path / "mine", **TASK)
    recorder.fork(checkpoint="a", k=1, hold=1.0, update=2.0)
    recorder.fork(**{"checkpoint": "a", "k": 1, "hold": 1.0, "update": 2.0, **other})
    assert len(recorder) == 2
    assert verify(tmp_path / "mine").problems == ()
    assert (
        len(wf.read_table(pl.DataFrame({"checkpoint": ["a"], "k": [1], "r_hold": [1.0], "r_update": [2.0]}))) == 1
    )
    assert wf.score(tmp_path / "mine", permutations=5).arms


def test_several_processes_record_into_one_folder(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_record, args=(tmp_path / "mine", name)) for name in "abc"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    verdict = verify(tmp_path / "mine")
    assert (verdict.rows, verdict.cells, verdict.problems) == (60, 3, ())


def _record(folder: Path, checkpoint: str) -> None:
    recorder = wf.Recorder(folder, **TASK)
    for k in range(1, 21):
        recorder.fork(checkpoint=checkpoint, k=k, hold=1.0, update=float(k))


def test_two_processes_that_run_one_loop_are_told_to_split_it(tmp_path: Path) -> None:
    one, other = (wf.Recorder(tmp_path / "mine", **TASK) for _ in range(2))
    assert (one.has(checkpoint=0, k=1), other.has(checkpoint=0, k=1)) == (False, False)
    one.fork(checkpoint=0, k=1, hold=1.0, update=2.0)
    with pytest.raises(WorldforkError, match="give each of several processes checkpoints of its own"):
        other.fork(checkpoint=0, k=1, hold=1.0, update=2.0)


def test_a_torn_line_is_cut_off_and_named(tmp_path: Path) -> None:
    recorded(tmp_path / "mine", checkpoints=1)
    path = tmp_path / "mine" / "forks.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"arm":"","checkp')
    assert "ends in a torn line of 17 bytes" in " ".join(verify(tmp_path / "mine").notes)
    assert len(RecordedLedger(tmp_path / "mine").rows()) == 4
    notes: list[str] = []
    assert len(wf.Recorder(tmp_path / "mine", **TASK, notify=notes.append)) == 4
    assert notes == [f"{path}: cut off a torn line of 17 bytes after 4 forks."]
    assert path.read_bytes() == whole


def test_kills_lose_nothing_and_record_nothing_twice() -> None:
    script = Path(__file__).parents[1] / "kill_and_resume.py"
    arguments = ["--recorder", "--injected", "12", "--random", "0"]
    done = subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True)
    assert done.stdout.startswith("12 injected"), done.stderr


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda row: row.update(level=0.5), "is not what was written"),
        (lambda row: row.update(update=[9.0, 9.0]), "is not what was written"),
    ],
)
def test_a_changed_row_is_found(tmp_path: Path, change: Any, problem: str) -> None:
    recorded(tmp_path / "mine", checkpoints=2)
    path = tmp_path / "mine" / "forks.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    row = json.loads(lines[3])
    change(row)
    lines[3] = json.dumps(row, sort_keys=True, separators=(",", ":")) + "\n"
    path.write_text("".join(lines))
    assert problem in verify(tmp_path / "mine").problems[0]
    with pytest.raises(WorldforkError, match=problem):
        wf.score(tmp_path / "mine")
    with pytest.raises(WorldforkError, match=problem):
        wf.Recorder(tmp_path / "mine", **TASK)


def test_rows_that_were_lost_doubled_or_moved_are_found(tmp_path: Path) -> None:
    recorded(tmp_path / "mine", checkpoints=2)
    path = tmp_path / "mine" / "forks.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    for other in (lines[:2] + lines[3:], lines[:2] + lines[1:], [lines[1], lines[0], *lines[2:]]):
        path.write_text("".join(other))
        assert "A row was lost, doubled or moved" in verify(tmp_path / "mine").problems[0]


def test_a_recording_passes_as_far_as_it_goes_and_its_root_knows_the_last_forks(tmp_path: Path) -> None:
    recorded(tmp_path / "mine", checkpoints=2)
    path, root = tmp_path / "mine" / "forks.jsonl", identity(tmp_path / "mine")[2]
    lines = path.read_text().splitlines(keepends=True)
    for kept, said in ((5, "5 forks in 2 cells"), (0, "0 forks in 0 cells")):
        path.write_text("".join(lines[:kept]))
        assert not verify(tmp_path / "mine").complete
        done = CliRunner().invoke(app, ["verify", str(tmp_path / "mine")])
        assert done.exit_code == 0
        assert f"As far as it goes: {said}; root" in done.output
        assert "complete" not in done.output
        assert CliRunner().invoke(app, ["verify", str(tmp_path / "mine"), "--expect", root]).exit_code == 1
    shown = json.loads(CliRunner().invoke(app, ["verify", str(tmp_path / "mine"), "--json"]).output)
    assert (shown["recorded"], shown["complete"], shown["expected"], shown["passes"]) == (True, None, None, True)
    path.unlink()
    assert verify(tmp_path / "mine").problems == ("forks.jsonl is not there. Put it back from a copy.",)


def test_a_ledger_whose_settings_were_lost_or_cut_off_is_told_by_its_rows(tmp_path: Path) -> None:
    recorded(tmp_path / "mine", checkpoints=2)
    settings = tmp_path / "mine" / "recorder.json"
    whole = settings.read_bytes()
    back = r"is a recorded ledger, and its rows are chained to recorder\.json: put that file back from a copy"
    for change in (settings.unlink, lambda: settings.write_bytes(whole[:-9])):
        change()
        for read in (wf.score, wf.verify, wf.report, lambda path: wf.Recorder(path, **TASK)):
            with pytest.raises(WorldforkError, match=back):
                read(tmp_path / "mine")
    with pytest.raises(WorldforkError, match="holds the rows of a recorder: name its folder"):
        wf.score(tmp_path / "mine" / "forks.jsonl")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda row: row.update(k=1), "fork 1 of checkpoint 0 is recorded twice"),
        (lambda row: row.update(delta=9.0), "the means or their difference do not follow"),
        (lambda row: row.update(hold=[1.5]), "its branches have different numbers of episodes"),
    ],
)
def test_what_a_forger_chains_anew_is_still_calculated(tmp_path: Path, change: Any, problem: str) -> None:
    recorded(tmp_path / "mine", checkpoints=1)
    ledger = tmp_path / "mine"
    before = identity(ledger)[2]
    forge(ledger / "forks.jsonl", lambda row: change(row) if row["k"] == 4 else None, configuration="recorder.json")
    assert problem in " ".join(verify(ledger).problems)
    assert identity(ledger)[2] != before


def test_another_spelling_of_a_row_is_found(tmp_path: Path) -> None:
    recorded(tmp_path / "mine", checkpoints=1)
    path = tmp_path / "mine" / "forks.jsonl"
    *before, last = path.read_text().splitlines()
    payload = re.sub(r'"digest":"\w+",', "", last).replace('"level":1.0', '"level":1')
    signed = f'"digest":"{hashlib.sha256(payload.encode()).hexdigest()}",'
    path.write_text("\n".join([*before, payload.replace('"prev"', f'{signed}"prev"'), ""]))
    assert "it is not in canonical form" in verify(tmp_path / "mine").problems[0]


def test_settings_that_differ_are_refused_with_the_difference(tmp_path: Path) -> None:
    recorded(tmp_path / "mine", checkpoints=1)
    with pytest.raises(WorldforkError, match=r"guarantees\.exact_restore: null -> true"):
        wf.Recorder(tmp_path / "mine", **TASK, exact_restore=True)
    with pytest.raises(WorldforkError, match='task: "churn model" -> "another"'):
        wf.Recorder(tmp_path / "mine", task="another", question=TASK["question"])


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    for name in (".lock", "notes.txt"):
        (tmp_path / name).touch()
    with pytest.raises(WorldforkError, match=r"it holds notes\.txt and no recorder\.json"):
        wf.Recorder(tmp_path, **TASK)
    (tmp_path / ".lock").unlink()
    with pytest.raises(WorldforkError, match="is a file"):
        wf.Recorder(tmp_path / "notes.txt", **TASK)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    recorded(tmp_path / "mine", checkpoints=1)
    outside = tmp_path / "outside.jsonl"
    (tmp_path / "mine" / "forks.jsonl").rename(outside)
    (tmp_path / "mine" / "forks.jsonl").symlink_to(outside)
    before = outside.read_bytes()
    with pytest.raises(WorldforkError, match="is a link that leads out"):
        wf.Recorder(tmp_path / "mine", **TASK)
    assert outside.read_bytes() == before


@pytest.mark.parametrize(
    ("fork", "message"),
    [
        ({"k": 0}, "k: expected 1 or more"),
        ({"hold": "many"}, "`hold` is a return, or a list"),
        ({"hold": "1"}, "`hold` is a return, or a list"),
        ({"hold": None}, r"got None\. Give numbers .*float\('nan'\) for a branch that failed"),
        ({"hold": [None, 1.0], "update": [1.0, 1.0]}, "for a branch that failed"),
        ({"update": True}, "`update` is a return, or a list .*; got True"),
        ({"update": WithGradient()}, r"`update` is a return.*`\.detach\(\)\.cpu\(\)`"),
        ({"hold": [[1.0]]}, "got an array"),
        ({"hold": []}, "got an array"),
        ({"update": [1.0, 2.0]}, "`hold` has 1 returns and `update` 2"),
        ({"signals": {"bad\nname": 1.0}}, "can not be shown"),
        ({"signals": {"error": "high"}}, "`signals.error` is a number or None"),
        ({"level": "far"}, "`level` is a number or None"),
        ({"signals": {"error": "1"}}, "`signals.error` is a number or None; got '1'"),
        ({"signals": {"error": WithGradient()}}, "`signals.error` is a number or None"),
        ({"signals": {"oracle": 1.0}}, "A signal can not be called `oracle`"),
        ({"checkpoint": ""}, "checkpoint: "),
        ({"checkpoint": True}, "`checkpoint` is a text or a whole number; got True"),
        ({"checkpoint": 0.5}, r"`checkpoint` is a text or a whole number; got 0\.5"),
        ({"k": float("inf")}, "`k` is a whole number; got inf"),
        ({"arm": "two\nlines"}, "arm: expected one line of text"),
    ],
)
def test_a_fork_that_could_not_be_read_is_refused_before_it_is_written(
    tmp_path: Path, fork: dict[str, Any], message: str
) -> None:
    recorder = wf.Recorder(tmp_path / "mine", **TASK)
    with pytest.raises(WorldforkError, match=message):
        recorder.fork(**{"checkpoint": "a", "k": 1, "hold": 1.0, "update": 2.0, **fork})
    assert not (tmp_path / "mine" / "forks.jsonl").read_bytes()
    assert recorder.fork(checkpoint="a", k=1, hold=1.0, update=2.0) == 1.0


def test_numbers_of_other_libraries_are_taken(tmp_path: Path) -> None:
    recorder = wf.Recorder(tmp_path / "mine", **TASK)
    hold, update = np.float32([1.0, 2.0]), np.array([2, 4])
    signals = {"error": np.float64(0.5), "alarm": np.array(True)}
    assert recorder.fork(checkpoint=np.int64(3), k=np.int64(1), hold=hold, update=update, signals=signals) == 1.5
    (row,) = RecordedLedger(tmp_path / "mine").rows()
    assert (row.checkpoint, row.hold, row.update, row.signals) == (
        "3",
        (1.0, 2.0),
        (2.0, 4.0),
        {"error": 0.5, "alarm": 1.0},
    )


@pytest.mark.parametrize("three", [3.0, np.float64(3.0), np.array(3), np.uint8(3), "3"])
def test_whole_numbers_are_one_name_however_they_are_written(tmp_path: Path, three: Any) -> None:
    recorder = wf.Recorder(tmp_path / "mine", **TASK)
    recorder.fork(checkpoint=3, k=1, hold=1.0, update=2.0)
    assert recorder.has(checkpoint=three, k=1.0)
    recorder.fork(checkpoint=three, k=np.float64(2.0), hold=1.0, update=2.0)
    assert {(row.checkpoint, row.k) for row in RecordedLedger(tmp_path / "mine").rows()} == {("3", 1), ("3", 2)}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"failure_return": float("nan")}, "failure_return: expected a finite number"),
        ({"update_cost": -1.0}, "update_cost: expected 0.* or more"),
    ],
)
def test_settings_that_could_not_be_read_are_refused_before_a_folder_is_made(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(WorldforkError, match=message):
        wf.Recorder(tmp_path / "mine", **TASK, **settings)
    assert not (tmp_path / "mine").exists()


UNTYPED = """
import sys, worldfork as wf
from worldfork.errors import WorldforkError
made = wf.Recorder(sys.argv[1], task="churn")
fork = lambda **given: made.fork(**{"checkpoint": 0, "k": 1, "hold": 1.0, "update": 2.0, **given})
for call in (
    lambda: wf.Recorder("new", task="churn", common_random_numbers="yes"),
    lambda: wf.Recorder("new", task="churn", failure_return="low"),
    lambda: fork(signals=[1, 2]),
    lambda: fork(checkpoint=None),
    lambda: made.has(checkpoint=0, k="1"),
):
    try:
        call()
    except WorldforkError as error:
        print(str(error).replace("\\n ", ""))
"""


def test_what_no_annotation_allows_is_refused_in_a_sentence(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", UNTYPED, tmp_path / "mine"], capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        "It can not be recorded: common_random_numbers: expected true or false; got 'yes'",
        "`failure_return` is a number or None; got 'low'.",
        '`signals` are numbers by their names, such as {"error": 0.2}; got [1, 2].',
        "`checkpoint` is a text or a whole number; got None.",
        "`k` is a whole number; got '1'.",
    ], done.stderr


def test_a_failed_branch_is_recorded_and_counts_as_it_was_said(tmp_path: Path) -> None:
    for name, failure in (("stated", -10.0), ("silent", None)):
        recorder = recorded(tmp_path / name, checkpoints=3, failure_return=failure)
        assert recorder.fork(checkpoint="crashed", k=1, hold=[1.0, 2.0], update=[float("nan"), 2.0]) is None
        assert verify(tmp_path / name).problems == ()
    score = wf.score(tmp_path / "stated", permutations=5)
    assert score["churn model"].effect.all_attempted.by_checkpoint["crashed"] == -11.5
    assert score.failed
    with pytest.raises(WorldforkError, match="failure_return"):
        wf.score(tmp_path / "silent", permutations=5)
    assert wf.score(tmp_path / "silent", permutations=5, failure_return=-10.0).failed == score.failed
    with pytest.raises(WorldforkError, match="records that a failure counts as -10; got 0"):
        wf.score(tmp_path / "stated", failure_return=0.0)


def test_costs_are_turned_once(tmp_path: Path) -> None:
    recorder = wf.Recorder(tmp_path / "mine", task="latency", higher_is_better=False)
    for checkpoint in range(6):
        recorder.fork(checkpoint=checkpoint, k=1, hold=9.0 + checkpoint, update=7.0)
    score = wf.score(tmp_path / "mine", permutations=5)
    assert score.higher_is_better is False
    assert score["latency"].effect.all_attempted.by_checkpoint["1"] == 3.0
    with pytest.raises(WorldforkError, match="a recorder states what its returns mean"):
        wf.score(tmp_path / "mine", higher_is_better=False)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_an_exported_table_says_what_the_ledger_says(tmp_path: Path, suffix: str) -> None:
    settings: dict[str, Any] = {"higher_is_better": False, "failure_return": 12.0, "update_cost": 0.5}
    recorder = wf.Recorder(tmp_path / "mine", task="latency", **settings)
    for checkpoint in range(6):
        for k in (1, 2, 3):
            crashed = float("nan") if (checkpoint, k) == (0, 3) else 7.0 + 0.1 * checkpoint
            signals, update = {"load": float(k)}, [crashed, 7.0]
            recorder.fork(checkpoint=checkpoint, k=k, hold=[9.0 + k, 9.0], update=update, signals=signals)
    table = tmp_path / "new" / f"mine{suffix}"
    done = CliRunner().invoke(app, ["export", str(tmp_path / "mine"), "-o", str(table)])
    assert done.stderr == (
        "Note: Costs were recorded: in the table they are returns, with their sign turned. A table does not hold "
        f"how it is scored: `worldfork score {table} --update-cost 0.5 --failure-return -12.0` answers as the "
        "ledger does.\n"
    )
    assert done.stdout == f"18 forks in {table}.\n"
    options = done.stderr.partition(str(table))[2].partition("`")[0].split()
    by_ledger, by_table = (
        json.loads(CliRunner().invoke(app, ["score", str(source), "--json", *more]).stdout)["arms"][""]["tasks"]
        for source, more in ((tmp_path / "mine", ()), (table, options))
    )
    for figure in ("effect", "verdict", "forks", "judgement"):
        assert by_table["latency"][figure] == by_ledger["latency"][figure]
    assert by_table["latency"]["verdict"] == "helpful"
    assert (by_table["latency"]["forks"]["failed_update"], by_table["latency"]["forks"]["diverged"]) == (1, 1)
    assert recorder.forks()["r_hold"].to_list() == pytest.approx([-9.5, -10.0, -10.5] * 6)


def test_a_price_is_taken_off_every_update(tmp_path: Path) -> None:
    for name, settings in (("free", {}), ("priced", {"update_cost": 2.0})):
        recorded(tmp_path / name, **settings)
    free, priced = (wf.score(tmp_path / name, permutations=5)["churn model"].effect for name in ("free", "priced"))
    assert priced.all_attempted.mean == free.all_attempted.mean - 2.0
    again = wf.score(tmp_path / "priced", permutations=5, update_cost=0.0)["churn model"]
    assert again.effect.all_attempted.mean == free.all_attempted.mean
    done = CliRunner().invoke(app, ["score", str(tmp_path / "free"), "--update-cost", "2", "--json"])
    task = json.loads(done.stdout)["arms"][""]["tasks"]["churn model"]
    assert task["effect"]["all_attempted"]["mean"] == priced.all_attempted.mean


def test_an_empty_ledger_verifies_and_is_not_scored(tmp_path: Path) -> None:
    wf.Recorder(tmp_path / "mine", **TASK)
    assert verify(tmp_path / "mine").problems == ()
    with pytest.raises(WorldforkError, match="has no forks yet"):
        wf.score(tmp_path / "mine")
