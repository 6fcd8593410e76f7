"""Flat tables and studies in: the same forks from every format, and one clear error for everything else."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from worldfork.analysis.read.files import write_frame
from worldfork.analysis.read.frames import study_frame
from worldfork.analysis.read.ledger import open_ledger
from worldfork.analysis.read.outcomes import Outcomes, join
from worldfork.analysis.read.table import read_table
from worldfork.analysis.score.decisions import diverged
from worldfork.cli.main import app
from worldfork.errors import WorldforkError
from worldfork.ledger.store import Study, writing
from worldfork.registration import parse
from worldfork.triggers import CellKey

ROWS = [
    {"task": "t", "checkpoint": str(c), "direction": d, "stream_seed": 0, "k": k, "r_update": 10.0 * c + k,
     "r_hold": 5.5, "level": k / 3, "signal_residual": 0.1 * k, "hold": [5.0, 6.0], "update": [k + 10.0 * c] * 2}
    for c in (0, 1) for d in ("away", "toward") for k in (1, 2, 3)
]  # fmt: skip


def written(tmp_path: Path, suffix: str, rows=ROWS) -> Path:
    path = tmp_path / f"forks{suffix}"
    write_frame(pl.DataFrame(rows), path)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_every_format_gives_the_same_forks(tmp_path, suffix):
    forks = read_table(written(tmp_path, suffix)).arms[""]["t"]
    assert forks.prefork.cells == tuple(CellKey(c, d, 0) for c in "01" for d in ("away", "toward"))
    assert forks.prefork.k.tolist() == [1, 2, 3] * 4
    assert forks.delta.tolist() == pytest.approx([row["r_update"] - 5.5 for row in ROWS])
    assert forks.prefork.signals["residual"].tolist() == pytest.approx([0.1, 0.2, 0.3] * 4)
    assert (forks.outcomes.hold is None) == (suffix == ".csv")


def test_rows_are_put_in_order_with_their_episodes(tmp_path):
    shuffled = [ROWS[index] for index in np.random.default_rng(0).permutation(len(ROWS))]
    one, other = (read_table(written(tmp_path, ".parquet", rows)).arms[""]["t"] for rows in (ROWS, shuffled))
    np.testing.assert_array_equal(one.outcomes.update, other.outcomes.update)
    np.testing.assert_array_equal(one.delta, other.delta)


def test_checkpoints_are_named_as_written(tmp_path):
    path = tmp_path / "forks.csv"
    path.write_text("task,checkpoint,direction,stream_seed,k,r_update,r_hold\nt,007,up,0,1,1,2\nt,7,up,0,1,1,2\n")
    assert [cell.checkpoint for cell in read_table(path).arms[""]["t"].prefork.cells] == ["007", "7"]


def test_missing_signals_are_missing_and_other_columns_are_named(tmp_path):
    path = tmp_path / "forks.csv"
    path.write_text(
        "task,checkpoint,direction,stream_seed,k,r_update,r_hold,signal_a,note\n"
        "t,0,away,0,1,1,2,,x\nt,0,away,0,2,1,2,NaN,x\nt,0,away,0,3,1,2, 1e-3 ,x\n"
    )
    found = read_table(path)
    np.testing.assert_array_equal(found.arms[""]["t"].prefork.signals["a"], [np.nan, np.nan, 0.001])
    assert found.ignored == ("note",)


def test_forks_may_have_different_numbers_of_episodes(tmp_path):
    rows = [
        {**ROWS[0], "hold": [1.0, None, 3.0], "update": [1.0, 2.0, 3.0]},
        {**ROWS[1], "hold": [1.0], "update": [2.0]},
    ]
    path = tmp_path / "forks.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    hold = read_table(path).arms[""]["t"].outcomes.hold
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
    "empty file": (".csv", "", "is empty"),
    "blank file": (".csv", "\n\n", r"."),
    "header alone": (".csv", GOOD.splitlines()[0] + "\n", "a header and no rows"),
    "header and blank lines": (".csv", GOOD.splitlines()[0] + "\n\n\n", "a header and no rows"),
    "semicolons": (".csv", GOOD.replace(",", ";"), "separated by semicolons; expected commas"),
    "tabs": (".csv", GOOD.replace(",", "\t"), "separated by tabs"),
    "blanks after commas": (".csv", GOOD.replace(",", ", "), "blanks beside its commas.*' checkpoint'"),
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
        read_table(path)


@pytest.mark.parametrize(
    ("column", "row"),
    [("task", {"task": "t\x1b[2J"}), ("arm", {"arm": "\u202egood"}), ("note\x07", {"note\x07": "1"})],
)
def test_names_that_a_terminal_would_obey_are_refused(tmp_path, column, row):
    path = written(tmp_path, ".parquet", [ROWS[0] | dict.fromkeys(row, "plain"), ROWS[1] | row])
    with pytest.raises(WorldforkError, match=r"characters that can not be shown\. Rename it") as refusal:
        read_table(path)
    assert str(refusal.value).isprintable()
    assert ("row 2, column" in str(refusal.value)) == (column in row and column.isprintable())


def test_wrong_types_in_parquet(tmp_path):
    path = tmp_path / "forks.parquet"
    pl.DataFrame([{**ROWS[0], "r_hold": [1.0]}]).write_parquet(path)
    with pytest.raises(WorldforkError, match=r"column `r_hold`: expected numbers, got a column of List"):
        read_table(path)


def test_arms_and_tasks_are_cut_apart(tmp_path):
    rows = [{**row, "arm": arm, "task": task} for row in ROWS for arm in "ab" for task in "xy"]
    found = read_table(written(tmp_path, ".csv", rows)).arms
    assert {arm: list(tasks) for arm, tasks in found.items()} == {"a": ["x", "y"], "b": ["x", "y"]}
    assert len(found["a"]["x"]) == len(ROWS)


def test_task_direction_and_stream_seed_may_be_left_out(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("checkpoint,k,r_update,r_hold\na,1,3,2\na,2,1,2\nb,1,2,2\n\n")
    forks = read_table(path).arms[""]["mine"]
    assert forks.prefork.cells == (CellKey("a", "all", 0), CellKey("b", "all", 0))
    assert forks.delta.tolist() == [1.0, -1.0, 0.0]
    path.write_text("checkpoint,k,r_update,r_hold\na,1,3,2\na,1,1,2\n")
    with pytest.raises(WorldforkError, match=r"same fork.*tell them apart by `arm`, `task`, `direction`"):
        read_table(path)


class Elsewhere:
    """A data frame of another library, as far as anyone needs to know it."""

    def __init__(self, frame):
        self.frame = frame

    def __arrow_c_stream__(self, requested_schema=None):
        return self.frame.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("kind", [str, Path, "polars", "pyarrow", "another"])
def test_paths_and_frames_of_any_library_give_the_same_forks(tmp_path, kind):
    path, frame = written(tmp_path, ".parquet"), pl.DataFrame(ROWS)
    given = {"polars": frame, "pyarrow": frame.to_arrow(), "another": Elsewhere(frame)}
    forks = read_table(given[kind] if isinstance(kind, str) else kind(path)).arms[""]["t"]
    expected = read_table(path).arms[""]["t"]
    np.testing.assert_array_equal(forks.outcomes.update, expected.outcomes.update)
    np.testing.assert_array_equal(forks.prefork.level, expected.prefork.level)


def test_a_file_that_can_not_be_written_is_one_clear_error(tmp_path):
    with pytest.raises(WorldforkError, match="Could not write"):
        write_frame(pl.DataFrame(ROWS), tmp_path / "nowhere" / "forks.csv")
    with pytest.raises(WorldforkError, match=r"ends in \.csv, \.parquet, \.jsonl; got `forks.xlsx`"):
        write_frame(pl.DataFrame(ROWS), tmp_path / "forks.xlsx")


def test_arms_with_other_numbers_of_episodes_are_padded_apart(tmp_path):
    rows = [{**row, "arm": "few"} for row in ROWS]
    rows += [{**row, "arm": "many", "hold": [1.0] * 5, "update": [2.0] * 5} for row in ROWS]
    arms = read_table(pl.DataFrame(rows)).arms
    assert arms["few"]["t"].outcomes.hold.shape == (len(ROWS), 2)
    assert arms["many"]["t"].outcomes.hold.shape == (len(ROWS), 5)


def test_draws_of_one_update_are_one_fork():
    """dR 1 and 3 at the first fork, -2 and 0 at the second: 2 and -1 on average, episode by episode."""
    rows = [
        {"checkpoint": 0, "k": k, "update_seed": draw, "r_hold": 5.0, "r_update": mean, "signal_a": 0.1 * k}
        | {"hold": [4.0, 6.0], "update": [mean - 1.0, mean + 1.0]}
        for k, draw, mean in ((1, 0, 6.0), (1, 1, 8.0), (2, 1, 5.0), (2, 0, 3.0))
    ]
    forks = read_table(pl.DataFrame(rows)).arms[""]["table"]
    assert forks.delta.tolist() == [2.0, -1.0]
    assert forks.prefork.signals["a"].tolist() == [0.1, 0.2]
    assert forks.outcomes.update.tolist() == [[6.0, 8.0], [3.0, 5.0]]
    assert forks.outcomes.drawn.tolist() == [[[5.0, 7.0], [7.0, 9.0]], [[2.0, 4.0], [4.0, 6.0]]]
    with pytest.raises(WorldforkError, match="same fork"):
        read_table(pl.DataFrame([rows[0], rows[0]]))


def test_join_keeps_forks_with_their_cells():
    one, other = (
        read_table(pl.DataFrame([{**row, "stream_seed": seed} for row in ROWS])).arms[""]["t"] for seed in (0, 1)
    )
    both = join([other, one])
    assert len(both) == 2 * len(ROWS)
    assert [cell.stream_seed for cell in both.prefork.cells] == [0, 1] * 4
    np.testing.assert_array_equal(both.take(both.prefork.cell % 2 == 0).delta, one.delta)
    with pytest.raises(WorldforkError, match="stream seeds of its own"):
        join([one, one])


def test_outcomes_and_their_difference():
    outcomes = Outcomes(
        r_hold=np.array([1.0, 2.0]),
        r_update=np.array([4.0, 1.0]),
        failed_hold=np.zeros(2, bool),
        failed_update=np.zeros(2, bool),
    )
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


def tiny_study(folder: Path, *, text=AUTHORED, clean=None, **changes) -> Path:
    """Two cells of three forks, ten control steps apart; `changes` of a row by checkpoint and k."""
    from worldfork.ledger.row import Counts, Digests, FitRecord, ForkRow

    registration = parse(text)
    none = Counts(hold=0, update=0)
    fit = FitRecord(loss_before=1.0, loss_after=0.5, grad_norm=0.1, param_shift=0.2, window=9, non_finite=0)
    with writing(folder, registration, authored=text) as study:
        study.begin({})
        for checkpoint in (0, 1):
            cell = study.cell(f"tiny-linear_quadratic-c{checkpoint}-away-s0")
            model = {"checkpoint": {"clean_return": clean[checkpoint]}} if clean else {}
            cell.open(cell.plan({"cell": cell.id, "registration": registration.digest, **model}))
            errors = np.arange(30.0) + checkpoint
            cell.write_stream({"step": np.arange(30), "error": errors}, {"first": np.zeros(30, bool)})
            rows = []
            for k in (1, 2, 3):
                fields = {
                    "r_hold": 1.5,
                    "hold": (1.0, 2.0),
                    "r_update": 2.0 + k,
                    **changes.get(f"{checkpoint}-{k}", {}),
                }
                rows.append(
                    ForkRow(
                        cell=cell.id,
                        k=k,
                        step=10 * k,
                        env_step=40 * k,
                        level=k / 3,
                        rate=0.1,
                        signals={"residual": 0.3 * k, "kl": None},
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
    found = open_ledger(tiny_study(tmp_path / "study")).table
    forks = found.arms["tiny"]["linear_quadratic"]
    assert forks.gradient_steps == 7
    assert [cell.checkpoint for cell in forks.prefork.cells] == ["0", "1"]
    assert forks.delta.tolist() == [1.5, 2.5, 3.5] * 2
    assert forks.outcomes.update.tolist() == [[2.0 + k] * 2 for k in (1, 2, 3)] * 2
    assert np.isnan(forks.prefork.signals["kl"]).all()
    assert forks.prefork.step.tolist() == [10, 20, 30] * 2
    assert forks.prefork.stream(1).columns["error"][:3].tolist() == [1.0, 2.0, 3.0]


def test_a_fork_without_a_return_stays_as_a_failure(tmp_path):
    """An update that collapses must not leave the estimand that exists to count it."""
    found = open_ledger(tiny_study(tmp_path / "study", **{"1-2": {"r_update": None}})).table
    forks = found.arms["tiny"]["linear_quadratic"]
    assert len(forks) == 6
    assert forks.delta.tolist() == [1.5, 2.5, 3.5, 1.5, -1.5, 3.5]
    assert forks.outcomes.failed_update.tolist() == [False] * 4 + [True, False]
    assert not forks.outcomes.failed_hold.any()
    assert "checkpoint 1, away, stream seed 0, k = 2" in found.failed[0]
    assert "UPDATE counts as a failure with return 0" in found.failed[0]


def test_where_returns_go_below_zero_a_failure_is_the_worst_of_them(tmp_path):
    """In a world of costs a return of 0 would be the best there is."""
    worst = {"0-1": {"hold": (-7.0, 2.0)}, "1-2": {"r_update": None}, "1-3": {"r_hold": None, "r_update": None}}
    forks = open_ledger(tiny_study(tmp_path / "study", **worst)).table.arms["tiny"]["linear_quadratic"]
    assert forks.failure_return == -7.0
    assert forks.delta.tolist()[4:] == [-8.5, 0.0]
    assert forks.outcomes.failed_hold.tolist() == [False] * 5 + [True]


def test_what_a_failure_counts_as_is_registered(tmp_path):
    said = AUTHORED + "[scoring]\nfailure_return = -50.0\n"
    folder = tiny_study(tmp_path / "study", text=said, **{"1-2": {"r_update": None}})
    forks = open_ledger(folder).table.arms["tiny"]["linear_quadratic"]
    assert forks.delta[4] == -51.5


def test_a_failure_is_attempted_and_never_retained(tmp_path):
    """Also where the divergence rule is off, as it is where returns are negative."""
    for number, rule in enumerate((0.3, None)):
        folder = tiny_study(tmp_path / f"study-{number}", **{"1-2": {"r_update": None}})
        forks = open_ledger(folder).table.arms["tiny"]["linear_quadratic"]
        assert diverged(forks, rule).dropped.tolist() == [False] * 4 + [True, False]


def test_a_checkpoints_clean_return_comes_with_its_cell(tmp_path):
    folder = tiny_study(tmp_path / "study", clean={0: 90.0, 1: 80.0})
    assert open_ledger(folder).table.arms["tiny"]["linear_quadratic"].clean == {"0": 90.0, "1": 80.0}
    assert open_ledger(tiny_study(tmp_path / "other")).table.arms["tiny"]["linear_quadratic"].clean == {}
    rows = {"checkpoint": [0, 0, 1], "k": [1, 2, 1], "r_update": [1.0] * 3, "r_hold": [2.0] * 3}
    flat = read_table(pl.DataFrame({**rows, "clean_return": [9.0, 9.0, None]})).arms[""]["table"]
    assert flat.clean == {"0": 9.0}


def test_a_ledger_is_opened_from_whatever_holds_one(tmp_path):
    folder = tiny_study(tmp_path / "study")
    by_path, by_study = open_ledger(str(folder)), open_ledger(Study(folder))
    assert by_path.name == by_study.name == "tiny"
    assert by_path.registration == by_study.registration
    assert [len(in_order) for in_order in by_path.rows.values()] == [3, 3]
    assert open_ledger(by_path) is by_path
    flat = open_ledger(study_frame(by_path.study))
    assert (flat.study, flat.registration, len(flat.table)) == (None, None, 6)
    assert open_ledger(flat.table).table is flat.table
    with pytest.raises(WorldforkError, match=r"There is no `.*elsewhere`. Expected a study .* or a table"):
        open_ledger(tmp_path / "elsewhere")


def test_an_exported_study_scores_like_the_study(tmp_path):
    folder = tiny_study(tmp_path / "study")
    for suffix in (".csv", ".parquet", ".jsonl"):
        path = tmp_path / f"forks{suffix}"
        write_frame(study_frame(Study(folder)), path)
        flat = read_table(path).arms["tiny"]["linear_quadratic"]
        np.testing.assert_array_equal(flat.delta, open_ledger(folder).table.arms["tiny"]["linear_quadratic"].delta)
        np.testing.assert_array_equal(flat.prefork.signals["residual"], [0.3, 0.6, 0.3 * 3] * 2)


def test_export_names_the_options_that_score_as_the_study_does(tmp_path):
    said = AUTHORED + "[scoring]\nfailure_return = -50.0\nupdate_cost = 0.25\ndivergence_fraction = 0.6\n"
    failed = {"1-2": {"r_update": None}, "0-1": {"r_update": 0.8}}
    folder, path = tiny_study(tmp_path / "study", text=said, **failed), tmp_path / "forks.csv"
    told = CliRunner().invoke(app, ["export", str(folder), "-o", str(path)]).stderr
    options = "--update-cost 0.25 --divergence 0.6 --failure-return -50.0"
    assert f"`worldfork score {path} {options}` answers as the ledger does." in told
    by_study, by_table = (
        json.loads(CliRunner().invoke(app, ["score", str(source), "--json", *more]).stdout)["arms"]["tiny"]["tasks"]
        for source, more in ((folder, ()), (path, options.split()))
    )
    for figure in ("effect", "verdict", "forks"):
        assert by_table["linear_quadratic"][figure] == by_study["linear_quadratic"][figure]
    assert by_table["linear_quadratic"]["forks"]["diverged"] == 2
    plain = tiny_study(tmp_path / "plain")
    assert CliRunner().invoke(app, ["export", str(plain), "-o", str(path)]).stderr == ""


def test_a_folder_that_is_no_study(tmp_path):
    with pytest.raises(WorldforkError, match=r"is not a study|no readable registration"):
        open_ledger(tmp_path)


def test_a_study_without_forks(tmp_path):
    with writing(tmp_path / "study", parse(AUTHORED), authored=AUTHORED) as study:
        study.begin({})
    with pytest.raises(WorldforkError, match="no forks yet"):
        open_ledger(tmp_path / "study")


def test_a_broken_stream_file_is_named(tmp_path):
    folder = tiny_study(tmp_path / "study")
    next(folder.glob("cells/*/stream.parquet")).write_bytes(b"PAR1")
    with pytest.raises(WorldforkError, match=r"stream\.parquet` is damaged"):
        open_ledger(folder)
