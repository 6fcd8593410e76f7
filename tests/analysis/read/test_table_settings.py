"""What is said of a flat table beyond its columns: costs and crashed runs; and columns that can not be read."""

import json
import re

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import worldfork as wf
from worldfork.analysis.read.table import read_table
from worldfork.analysis.score import score_ledger
from worldfork.cli.main import app
from worldfork.errors import WorldforkError

ROWS = {
    "checkpoint": [0, 0, 1, 1, 2, 2],
    "k": [1, 2] * 3,
    "r_hold": [10.0, 12.0, 11.0, 13.0, 9.0, 12.5],
    "r_update": [8.0, 9.0, 9.5, 9.0, 8.0, 9.0],
    "signal_a": [0.1, 0.9, 0.2, 0.8, 0.3, 0.7],
    "hold": [[9.0, 11.0], [11.0, 13.0], [10.0, 12.0], [12.0, 14.0], [8.0, 10.0], [12.0, 13.0]],
    "update": [[7.0, 9.0], [8.0, 10.0], [9.0, 10.0], [8.0, 10.0], [7.0, 9.0], [8.0, 10.0]],
}
QUICK = {"permutations": 20}


def table(**changes):
    return pl.DataFrame({**ROWS, **changes})


def command(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments), "--permutations", "20"])


def words_of(found):
    return " ".join(found.output.split())


def test_costs_are_the_returns_with_their_signs_turned():
    costs = wf.score(table(clean_return=[5.0] * 6), higher_is_better=False, **QUICK)
    turned = {name: -pl.Series(name, ROWS[name]) for name in ("r_hold", "r_update")}
    lists = {name: [[-value for value in one] for one in ROWS[name]] for name in ("hold", "update")}
    returns = wf.score(table(**turned, **lists, clean_return=[-5.0] * 6), **QUICK)
    assert costs["table"].verdict == "helpful"
    assert wf.score(table(), **QUICK)["table"].verdict == "harmful"
    one, other = costs.to_json(), returns.to_json()
    assert (one.pop("higher_is_better"), other.pop("higher_is_better")) == (False, True)
    assert one == other


def test_a_cost_of_nothing_is_no_negative_nothing():
    outcomes = read_table(table(r_hold=[0.0] * 6), higher_is_better=False).arms[""]["table"].outcomes
    assert not np.signbit(outcomes.r_hold).any()


def test_screen_page_and_tables_say_which_is_better(tmp_path):
    path = tmp_path / "forks.csv"
    table().drop("hold", "update").write_csv(path)
    assert "Larger is better: dR is r_update less r_hold." in words_of(command("score", path))
    turned = words_of(command("score", path, "--lower-is-better"))
    assert turned.index("Smaller is better: a return is a cost with its sign turned") < turned.index(
        "Updating every time helps"
    )
    assert "Smaller is better" in command("score", path, "--lower-is-better", "--markdown").stderr
    larger, smaller = wf.report(path).html, wf.report(path, higher_is_better=False).html
    for page, better, less in (
        (larger, "Larger is better", "r_update less r_hold, as"),
        (smaller, "Smaller is better", "r_hold less r_update, as"),
    ):
        assert page.index(better) < page.index('<article class="card')
        assert less in page
    assert command("report", path, "--lower-is-better", "-o", tmp_path / "page.html").exit_code == 0
    assert "Smaller is better" in (tmp_path / "page.html").read_text()


def test_a_study_has_no_such_setting():
    for said in ({"higher_is_better": False}, {"failure_return": 0.0}):
        with pytest.raises(WorldforkError, match=rf"`{next(iter(said))}`: for flat tables; .*a study has returns"):
            wf.score("results/demo", **said)
        with pytest.raises(WorldforkError, match="read already: give them to read_table"):
            wf.score(wf.read_table(table()), **said)


def test_a_crashed_run_is_refused_by_a_sentence_that_names_the_setting():
    for crashed, got in ((None, "nothing"), (float("inf"), "an infinite one")):
        with pytest.raises(WorldforkError, match=rf"row 2, column `r_update`.*got {got}.*--failure-return NUMBER"):
            wf.score(table(r_update=[8.0, crashed, 9.5, 9.0, 8.0, 9.0]))


@pytest.mark.parametrize("crashed", [None, float("inf"), float("nan")])
def test_a_crashed_run_counts_as_a_failure_and_is_never_retained(crashed):
    rows = table(r_update=[8.0, crashed, 9.5, 9.0, 8.0, 9.0], update=[*ROWS["update"][:1], [], *ROWS["update"][2:]])
    score = wf.score(rows, failure_return=1.0, divergence=None, **QUICK)
    one = score["table"]
    assert (one.forks.attempted, one.forks.retained, one.forks.failed_update, one.forks.failed_hold) == (6, 5, 1, 0)
    assert one.forks.failure_return == 1.0
    assert one.effect.all_attempted.by_checkpoint["0"] == (-2.0 - 11.0) / 2
    assert one.effect.retained.by_checkpoint["0"] == -2.0
    assert score.failed == (
        "row 2: a return is missing or not finite, so UPDATE counts as a failure with return 1",
    )
    assert "1 row with a return that is missing" in wf.report(rows, failure_return=1.0).html


def test_a_failure_of_costs_is_a_cost():
    crashed = {"r_hold": [10.0, None, 11.0, 13.0, 9.0, 12.5], "update_seed": [0] * 6}
    table_of = read_table(table(**crashed), higher_is_better=False, failure_return=50.0)
    outcomes = table_of.arms[""]["table"].outcomes
    assert outcomes.r_hold[1] == -50.0
    assert outcomes.failed.tolist() == [False, True, *[False] * 4]
    assert "HOLD counts as a failure with cost 50" in table_of.failed[0]


def test_draws_of_a_fork_fail_one_by_one():
    rows = pl.DataFrame(
        {
            "checkpoint": [0, 0, 1, 1],
            "k": [1] * 4,
            "update_seed": [0, 1, 0, 1],
            "r_hold": [2.0] * 4,
            "r_update": [4.0, None, 3.0, 5.0],
        }
    )
    outcomes = read_table(rows, failure_return=0.0).arms[""]["table"].outcomes
    assert outcomes.r_update.tolist() == [2.0, 4.0]
    assert outcomes.failed.tolist() == [True, False]


def test_on_the_command_line(tmp_path):
    path = tmp_path / "forks.csv"
    table(r_update=[8.0, None, 9.5, 9.0, 8.0, 9.0]).drop("hold", "update").write_csv(path)
    found = json.loads(command("score", path, "--failure-return", 1, "--json").stdout)
    assert found["failed"] == [
        "row 2 (line 3): a return is missing or not finite, so UPDATE counts as a failure with return 1"
    ]
    assert found["arms"][""]["tasks"]["forks"]["forks"]["retained"] == 5
    said = words_of(command("score", path, "--failure-return", 1))
    assert "counts as 1 among all attempted forks, and its fork is not retained" in said
    assert command("report", path, "--failure-return", 1).exit_code == 0


def test_a_fork_that_failed_is_not_called_diverged():
    crashed = {"r_update": [8.0, None, 9.5, 9.0, 8.0, 9.0], "update": [[]] * 6, "hold": [[]] * 6}
    costs = wf.score(table(**crashed), higher_is_better=False, failure_return=50.0, **QUICK)
    words = " ".join(str(costs.summary()).split())
    assert "; 17% of the forks failed, and without them it is" in words
    assert "diverged" not in words
    collapsed = {**crashed, "r_update": [8.0, None, 9.5, 9.0, 8.0, 0.1]}
    mixed = wf.score(table(**collapsed), failure_return=0.0, **QUICK)
    assert "; 33% of the forks diverged, and" in " ".join(str(mixed.summary()).split())


def test_a_failure_that_counts_as_the_best_return_of_all_is_warned_of():
    crashed = table(r_update=[8.0, None, 9.5, 9.0, 8.0, 9.0]).drop("hold", "update")
    told = "A failed branch of table counts as better than every other return"
    for settings, warned in (
        ({"failure_return": 400.0}, True),
        ({"failure_return": 400.0, "higher_is_better": False}, False),
        ({"failure_return": 0.0}, False),
        ({"failure_return": 0.0, "higher_is_better": False}, True),
    ):
        assert any(told in warning for warning in wf.score(crashed, **settings, **QUICK).warnings) is warned


def test_a_page_reads_a_table_as_its_score_does(tmp_path):
    path, page = tmp_path / "lat.csv", tmp_path / "page.html"
    table().drop("hold", "update").rename({"checkpoint": "model_id"}).write_csv(path)
    options = ("--columns", "model_id=checkpoint", "--lower-is-better", "--update-cost", "0.5")
    words = words_of(command("score", path, *options))
    mean = re.search(r"Updating every time helps .*?: (\+[\d.]+ \[.*?\])", words).group(1)
    assert command("report", path, *options, "-o", page).exit_code == 0
    assert mean in page.read_text()
    read = {"columns": {"model_id": "checkpoint"}, "higher_is_better": False, "update_cost": 0.5, **QUICK}
    assert mean in wf.report(path, **read).html
    with pytest.raises(WorldforkError, match="give `report` what you gave `score`"):
        wf.report(wf.score(path, **read))


@pytest.mark.parametrize(
    ("name", "options", "told"),
    [
        (
            "lat.csv",
            ("--columns", "model_id=checkpont"),
            "No column `checkpont` is read: .* Did you mean checkpoint?",
        ),
        ("lat.csv", (), "lacks the column checkpoint; .* --columns NAME=checkpoint, in Python"),
        ("lat.cvs", (), r"There is no `.*lat\.cvs`\. Did you mean .*lat\.csv\?"),
        ("wide.csv", (), "is text in UTF-16; expected UTF-8"),
        ("packed.csv", (), "is a zip archive or a spreadsheet, not text"),
    ],
)
def test_a_wrong_name_or_file_is_answered_with_what_to_do(tmp_path, name, options, told):
    text = table().drop("hold", "update").rename({"checkpoint": "model_id"}).write_csv()
    (tmp_path / "lat.csv").write_text(text)
    (tmp_path / "wide.csv").write_text(text, encoding="utf-16")
    (tmp_path / "packed.csv").write_bytes(b"PK\x03\x04" + bytes(99))
    with pytest.raises(WorldforkError, match=told):
        raise command("score", tmp_path / name, *options).exception


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_failure_return_is_a_number(value):
    with pytest.raises(WorldforkError, match="`failure_return` is a finite number or None; got"):
        read_table(table(), failure_return=value)


def test_decision_points_are_counted_from_one():
    with pytest.raises(WorldforkError, match=r"row 1, column `k`: .*counted from 1.* Add 1 to every k"):
        wf.score(table(k=[0, 1] * 3))


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("task", pa.array([b"\xff"], pa.binary()), r"row 1, column `task`: expected names, got a column of Binary"),
        ("task", pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())), "column `task`: expected names"),
        (
            "r_hold",
            pa.array([1], pa.decimal256(50, 2)),
            r"column `r_hold`: decimal256\(50, 2\).*Write it as float64",
        ),
        (
            "note",
            pa.array([[1]], pa.list_(pa.decimal256(50, 2))),
            r"column `note`: list<.*decimal256.*Write it as float64",
        ),
    ],
)
def test_parquet_that_can_not_be_read_is_refused_in_a_sentence(tmp_path, column, values, message):
    path = tmp_path / "forks.parquet"
    needed = {name: pa.array([1.0]) for name in ("checkpoint", "k", "r_update", "r_hold")}
    pq.write_table(pa.table({**needed, column: values}), path)
    with pytest.raises(WorldforkError, match=message):
        read_table(path)


def test_an_integer_of_400_digits_is_refused_in_a_sentence(tmp_path):
    path = tmp_path / "forks.jsonl"
    path.write_text(
        f'{{"checkpoint": 0, "k": 1, "r_update": 1, "r_hold": 1, "hold": [1{"0" * 400}], "update": [1]}}\n'
    )
    with pytest.raises(WorldforkError, match=r"row 1, column `hold`.*too large"):
        read_table(path)


@pytest.mark.parametrize(("hold", "update"), [(-1e308, 1e308), (1e307, 1e308), (0.0, 1e306)])
def test_returns_that_can_not_be_added_up_are_refused_in_a_sentence(hold, update):
    for verb in (wf.score, wf.report):
        with pytest.raises(WorldforkError, match=r"returns of 6 forks, of up to 1e\+30\d, are too large to add up"):
            verb(table(r_hold=[hold] * 6, r_update=[update] * 6).drop("hold", "update"))


def test_the_smallest_returns_there_are_have_a_page():
    page = wf.report(table(r_hold=[0.0] * 6, r_update=[5e-324, 0.0] * 3).drop("hold", "update"))
    assert "</html>" in page.html


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"permutations": "many"}, "`permutations` is a whole number from 1; got 'many'"),
        ({"permutations": 2.5}, "`permutations` is a whole number from 1; got 2.5"),
        ({"permutations": True}, "`permutations` is a whole number from 1; got True"),
        ({"seed": "one"}, "`seed` is a whole number from 0; got 'one'"),
        ({"seed": -1}, "`seed` is a whole number from 0; got -1"),
        ({"rate": None}, "`rate` is a number between 0 and 1; got None"),
        ({"divergence": "off"}, "`divergence` is a number between 0 and 1, or None; got 'off'"),
        ({"permutation": 5}, "no rule `permutation`; there are .* Did you mean permutations?"),
    ],
)
def test_a_rule_that_is_none_is_refused_in_a_sentence(rule, message):
    with pytest.raises(WorldforkError, match=message):
        score_ledger(table(), **rule)


def test_an_arm_whose_name_joins_two_is_refused():
    rows = [(arm, c, 1, 1.0, 2.0 + c) for arm in ("a", "b", "a - b") for c in range(3)]
    table = pl.DataFrame(rows, schema=["arm", "checkpoint", "k", "r_hold", "r_update"], orient="row")
    with pytest.raises(WorldforkError, match=r"an arm called 'a - b'.* use another sign"):
        wf.read_table(table)
