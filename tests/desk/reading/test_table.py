"""Flat tables and studies in: the same forks from every format, and one clear error for everything else."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from worldfork.desk.reading import table
from worldfork.desk.reading.outcomes import Outcomes, join
from worldfork.desk.reading.prefork import CellKey
from worldfork.errors import WorldforkError
from worldfork.ledger.store import writing
from worldfork.registration import parse

ROWS = [
    {"task": "t", "checkpoint": str(c), "direction": d, "stream_seed": 0, "k": k, "r_update": 10.0 * c + k,
     "r_hold": 5.5, "level": k / 3, "signal_residual": 0.1 * k, "hold": [5.0, 6.0], "update": [k + 10.0 * c] * 2}
    for c in (0, 1) for d in ("away", "toward") for k in (1, 2, 3)
]  # fmt: skip


def written(tmp_path: Path, suffix: str, rows=ROWS) -> Path:
    path = tmp_path / f"forks{suffix}"
    table.write(pl.DataFrame(rows), path)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_every_format_gives_the_same_forks(tmp_path, suffix):
    forks = table.read(written(tmp_path, suffix)).arms[""]["t"]
    assert forks.prefork.cells == tuple(CellKey(c, d, 0) for c in "01" for d in ("away", "toward"))
    assert forks.prefork.k.tolist() == [1, 2, 3] * 4
    assert forks.delta.tolist() == pytest.approx([row["r_update"] - 5.5 for row in ROWS])
    assert forks.prefork.signals["residual"].tolist() == pytest.approx([0.1, 0.2, 0.3] * 4)
    assert (forks.outcomes.hold is None) == (suffix == ".csv")


def test_rows_are_put_in_order_with_their_episodes(tmp_path):
    shuffled = [ROWS[index] for index in np.random.default_rng(0).permutation(len(ROWS))]
    one, other = (table.read(written(tmp_path, ".parquet", rows)).arms[""]["t"] for rows in (ROWS, shuffled))
    np.testing.assert_array_equal(one.outcomes.update, other.outcomes.update)
    np.testing.assert_array_equal(one.delta, other.delta)


def test_checkpoints_are_named_as_written(tmp_path):
    path = tmp_path / "forks.csv"
    path.write_text("task,checkpoint,direction,stream_seed,k,r_update,r_hold\nt,007,up,0,1,1,2\nt,7,up,0,1,1,2\n")
    assert [cell.checkpoint for cell in table.read(path).arms[""]["t"].prefork.cells] == ["007", "7"]


def test_missing_signals_are_missing_and_other_columns_are_named(tmp_path):
    path = tmp_path / "forks.csv"
    path.write_text(
        "task,checkpoint,direction,stream_seed,k,r_update,r_hold,signal_a,note\n"
        "t,0,away,0,1,1,2,,x\nt,0,away,0,2,1,2,NaN,x\nt,0,away,0,3,1,2, 1e-3 ,x\n"
    )
    found = table.read(path)
    np.testing.assert_array_equal(found.arms[""]["t"].prefork.signals["a"], [np.nan, np.nan, 0.001])
    assert found.ignored == ("note",)


def test_forks_may_have_different_numbers_of_episodes(tmp_path):
    rows = [
        {**ROWS[0], "hold": [1.0, None, 3.0], "update": [1.0, 2.0, 3.0]},
        {**ROWS[1], "hold": [1.0], "update": [2.0]},
    ]
    path = tmp_path / "forks.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    hold = table.read(path).arms[""]["t"].outcomes.hold
    np.testing.assert_array_equal(hold, [[1.0, np.nan, 3.0], [1.0, np.nan, np.nan]])


GOOD = "task,checkpoint,direction,stream_seed,k,r_update,r_hold,signal_a\nt,0,away,0,1,1.0,2.0,0.1\n"
BROKEN = {
    "no column": (
        ".csv",
        GOOD.replace("r_hold", "hold_return"),
        r"lacks the column r_hold; it has task.*hold_return",
    ),
    "text for a number": (
        ".csv",
        GOOD + "t,0,away,0,2,good,2.0,0.1\n",
        r"row 2 \(line 3\), column `r_update`.*'good'",
    ),
    "nothing for a number": (
        ".csv",
        GOOD + "t,0,away,0,2,,2.0,0.1\n",
        r"row 2 \(line 3\), column `r_update`.*nothing",
    ),
    "NaN for a return": (".csv", GOOD + "t,0,away,0,2,nan,2.0,0.1\n", r"row 2 .*column `r_update`.*nothing"),
    "infinite return": (".csv", GOOD + "t,0,away,0,2,inf,2.0,0.1\n", r"row 2 .*column `r_update`.*infinite"),
    "infinite signal": (".csv", GOOD + "t,0,away,0,2,1,2.0,-inf\n", r"row 2 .*column `signal_a`.*infinite"),
    "text for a signal": (".csv", GOOD + "t,0,away,0,2,1,2.0,high\n", r"row 2 .*column `signal_a`.*'high'"),
    "no task": (".csv", GOOD + ",0,away,0,2,1,2.0,0.1\n", r"row 2 .*column `task`.*nothing"),
    "half a k": (".csv", GOOD + "t,0,away,0,1.5,1,2.0,0.1\n", r"row 2 .*column `k`.*whole number.*1\.5"),
    "negative k": (".csv", GOOD + "t,0,away,0,-1,1,2.0,0.1\n", r"row 2 .*column `k`.*whole number"),
    "the same fork twice": (
        ".csv",
        GOOD + "t,0,away,0,1,3.0,2.0,0.1\n",
        r"row 1 \(line 2\) and row 2 \(line 3\).*same fork",
    ),
    "empty file": (".csv", "", r"is empty.*task, checkpoint"),
    "blank file": (".csv", "\n\n", r"."),
    "header alone": (".csv", GOOD.splitlines()[0] + "\n", "no rows"),
    "a column twice": (".csv", GOOD.replace("signal_a", "k"), "column k twice"),
    "a ragged line": (".csv", GOOD + "t,0,away,0,2,1,2.0,0.1,7,8\n", "could not be read as csv"),
    "another encoding": (".csv", (GOOD + "t\xe9,0,away,0,2,1,2,1\n").encode("latin-1"), "could not be read as csv"),
    "not parquet": (".parquet", "PAR", "could not be read as parquet"),
    "not JSON": (".jsonl", '{"task": "t"}\n{oops}\n', "line 2 is not JSON"),
    "JSON that is no object": (".jsonl", "[1, 2]\n", "line 1: expected an object"),
    "text in a JSON number": (
        ".jsonl",
        json.dumps({**ROWS[0], "r_hold": "five"}),
        r"row 1, column `r_hold`.*'five'",
    ),
    "a truth for a number": (".jsonl", json.dumps({**ROWS[0], "r_hold": True}), r"row 1, column `r_hold`.*'True'"),
    "unpaired episodes": (".jsonl", json.dumps({**ROWS[0], "hold": [1.0]}), r"row 1, column `update`.*paired"),
    "episodes that are text": (
        ".jsonl",
        json.dumps({**ROWS[0], "hold": ["a", "b"]}),
        r"row 1, column `hold`.*numbers",
    ),
    "episodes that are no list": (".jsonl", json.dumps({**ROWS[0], "hold": 3.0}), r"row 1, column `hold`.*a list"),
    "another ending": (".xlsx", "x", r"\.csv, \.parquet, \.jsonl"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_is_refused_by_row_and_column(tmp_path, name):
    suffix, content, message = BROKEN[name]
    path = tmp_path / f"forks{suffix}"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(WorldforkError, match=message):
        table.read(path)


def test_wrong_types_in_parquet(tmp_path):
    path = tmp_path / "forks.parquet"
    pl.DataFrame([{**ROWS[0], "r_hold": [1.0]}]).write_parquet(path)
    with pytest.raises(WorldforkError, match=r"column `r_hold`: expected numbers, got a column of List"):
        table.read(path)


def test_arms_and_tasks_are_cut_apart(tmp_path):
    rows = [{**row, "arm": arm, "task": task} for row in ROWS for arm in "ab" for task in "xy"]
    found = table.read(written(tmp_path, ".csv", rows)).arms
    assert {arm: list(tasks) for arm, tasks in found.items()} == {"a": ["x", "y"], "b": ["x", "y"]}
    assert len(found["a"]["x"]) == len(ROWS)


def test_join_keeps_forks_with_their_cells():
    one, other = (
        table.assemble(pl.DataFrame([{**row, "stream_seed": seed} for row in ROWS]), name="t").arms[""]["t"]
        for seed in (0, 1)
    )
    both = join([other, one])
    assert len(both) == 2 * len(ROWS)
    assert [cell.stream_seed for cell in both.prefork.cells] == [0, 1] * 4
    np.testing.assert_array_equal(both.take(both.prefork.cell % 2 == 0).delta, one.delta)
    with pytest.raises(WorldforkError, match="stream seeds of its own"):
        join([one, one])


def test_outcomes_and_their_difference():
    outcomes = Outcomes(r_hold=np.array([1.0, 2.0]), r_update=np.array([4.0, 1.0]))
    assert outcomes.delta.tolist() == [3.0, -1.0]


AUTHORED = """
schema = "worldfork.registration/1"
name = "tiny"
[grid]
tasks = ["linear_quadratic"]
checkpoints = [0, 1]
directions = ["away"]
[stream]
decision_points = 3
[mechanism]
steps = 7
[tasks.linear_quadratic]
agent = "linear_quadratic"
drift_scale = 2.0
"""


def tiny_study(folder: Path, **changes) -> Path:
    """Two cells of three forks, ten control steps apart."""
    from worldfork.ledger.row import Counts, Digests, FitRecord, ForkRow

    registration = parse(AUTHORED)
    none = Counts(hold=0, update=0)
    fit = FitRecord(loss_before=1.0, loss_after=0.5, grad_norm=0.1, param_shift=0.2, window=9, non_finite=0)
    with writing(folder, registration, authored=AUTHORED) as study:
        study.begin({})
        for checkpoint in (0, 1):
            cell = study.cell(f"tiny-linear_quadratic-c{checkpoint}-away-s0")
            cell.begin({"cell": cell.id, "registration": registration.digest})
            errors = np.arange(30.0) + checkpoint
            cell.write_stream({"step": np.arange(30), "error": errors}, {"first": np.zeros(30, bool)})
            rows = []
            for k in (1, 2, 3):
                fields = {"r_hold": 1.5, "r_update": 2.0 + k, **changes.get(f"{checkpoint}-{k}", {})}
                rows.append(
                    ForkRow(
                        cell=cell.id,
                        k=k,
                        step=10 * k,
                        env_step=40 * k,
                        level=k / 3,
                        rate=0.1,
                        signals={"residual": 0.3 * k, "kl": None},
                        hold=(1.0, 2.0),
                        update=(2.0 + k, 2.0 + k),
                        delta=None,
                        fit=fit,
                        nonfinite_actions=none,
                        nonfinite_returns=none,
                        unstable_episodes=none,
                        draws=Digests(hold="d", update="d"),
                        stream="s",
                        window="w",
                        prev="",
                        digest="",
                        **fields,
                    )
                )
            cell.append(rows)
    return folder


def test_a_study_is_read_with_its_streams(tmp_path):
    found = table.read(tiny_study(tmp_path / "study"))
    forks = found.arms["tiny"]["linear_quadratic"]
    assert forks.gradient_steps == 7
    assert [cell.checkpoint for cell in forks.prefork.cells] == ["0", "1"]
    assert forks.delta.tolist() == [1.5, 2.5, 3.5] * 2
    assert forks.outcomes.update.tolist() == [[2.0 + k] * 2 for k in (1, 2, 3)] * 2
    assert np.isnan(forks.prefork.signals["kl"]).all()
    assert forks.prefork.step.tolist() == [10, 20, 30] * 2
    assert forks.prefork.stream(1).error[:3].tolist() == [1.0, 2.0, 3.0]


def test_forks_without_a_return_are_listed_and_not_scored(tmp_path):
    found = table.read(tiny_study(tmp_path / "study", **{"1-2": {"r_update": None}}))
    assert len(found.arms["tiny"]["linear_quadratic"]) == 5
    assert "checkpoint 1, away, stream seed 0, k = 2" in found.unscored[0]


def test_an_exported_study_scores_like_the_study(tmp_path):
    from worldfork.ledger.store import Study

    folder = tiny_study(tmp_path / "study")
    for suffix in (".csv", ".parquet", ".jsonl"):
        path = tmp_path / f"forks{suffix}"
        table.write(table.study_frame(Study(folder)), path)
        flat = table.read(path).arms["tiny"]["linear_quadratic"]
        np.testing.assert_array_equal(flat.delta, table.read(folder).arms["tiny"]["linear_quadratic"].delta)
        np.testing.assert_array_equal(flat.prefork.signals["residual"], [0.3, 0.6, 0.3 * 3] * 2)


def test_a_folder_that_is_no_study(tmp_path):
    with pytest.raises(WorldforkError, match=r"is not a study|no readable registration"):
        table.read(tmp_path)


def test_a_study_without_forks(tmp_path):
    with writing(tmp_path / "study", parse(AUTHORED), authored=AUTHORED) as study:
        study.begin({})
    with pytest.raises(WorldforkError, match="no forks yet"):
        table.read(tmp_path / "study")


def test_a_broken_stream_file_is_named(tmp_path):
    folder = tiny_study(tmp_path / "study")
    next(folder.glob("cells/*/stream.parquet")).write_bytes(b"PAR1")
    with pytest.raises(WorldforkError, match=r"stream\.parquet` could not be read.*verify"):
        table.read(folder)
