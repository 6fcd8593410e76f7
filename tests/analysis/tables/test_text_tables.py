"""Tables as text: the paper's figures stand in the columns that ours stand in."""

import math
from pathlib import Path

import ledgers
import pytest

from worldfork.analysis.present import render, tables
from worldfork.analysis.present.page import gather
from worldfork.analysis.present.table import Column, Row, Table
from worldfork.analysis.present.tables.design import doses
from worldfork.analysis.present.tables.paper import beside_paper, stated
from worldfork.analysis.present.text.terms import TERMS
from worldfork.analysis.read.ledger import open_ledger
from worldfork.analysis.score import Rules, score, score_ledger
from worldfork.ledger.pretraining import Seed
from worldfork.registration.schema import Prediction


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Every table there is, of two arms on two stream seeds with episodes."""
    path = ledgers.flat(
        tmp_path_factory.mktemp("tables") / "forks.parquet",
        tasks=("walker-walk",),
        arms=("model", "model-and-value"),
        seeds=(0, 1),
        episodes=4,
    )
    rules = Rules(permutations=50, predictions=(Prediction(name="up", task="walker-walk", between=(70.0, 110.0)),))
    found = score(open_ledger(path).table.arms, rules, contrasts=[("model-and-value", "model")])
    seeds = [Seed("walker-walk", 5, 251.0, 297.0, 240.0, None, "rejected")]
    return tables.all_tables(found, seeds=seeds)


def test_every_row_is_as_wide_as_its_heads(made):
    of_some_studies = {"draws", "doses", "noises", "deployments", "over_always", "forecasts", "orders"}
    of_some_studies |= {"followed_directions", "windows", "over_tasks", "stopping", "looks"}
    assert {one.label for one in made} == set(tables.LABELS) - of_some_studies
    for one in [*made, *stated().values()]:
        assert all(len(row) == len(one.heads) for row in one.rows), one.label


def test_the_paper_has_our_columns(made):
    ours = {one.label: one for one in [*made, doses({}, {})]}
    for label, theirs in stated().items():
        heads = [head for head in ours[label].heads if head != "Arm"]
        assert (list(theirs.heads), theirs.keys) == (heads, ours[label].keys - ("Arm" in ours[label].heads)), label


def test_the_papers_row_stands_above_ours_and_rows_it_does_not_state_stand_alone():
    ours = Table(
        "quartiles",
        "Ours.",
        stated()["quartiles"].heads,
        (
            ("cartpole-swingup", "away", "+1.0", "+2.0", "+3.0", "+4.0"),
            ("walker-walk", "away", "+1.0", "+2.0", "+3.0", "+4.0"),
        ),
        keys=2,
    )
    both = beside_paper(ours)
    assert both.heads[:3] == ("Task", "Direction", "by")
    assert both.rows == (
        ("cartpole-swingup", "away", "paper", "-253.4", "–", "–", "+53.0"),
        ("cartpole-swingup", "away", "worldfork", "+1.0", "+2.0", "+3.0", "+4.0"),
        ("walker-walk", "away", "worldfork", "+1.0", "+2.0", "+3.0", "+4.0"),
    )
    assert "Section 4.1" in both.caption


def test_the_papers_row_stands_above_the_row_of_its_arm_alone():
    figures = ("+1.0", "+2.0", "+3.0", "+4.0")
    heads = stated()["quartiles"].heads
    rows = tuple(("cartpole-swingup", arm, "away", *figures) for arm in ("gentle", "corrected"))
    ours = Table("quartiles", "Ours.", (heads[0], "Arm", *heads[1:]), rows, keys=3)
    assert beside_paper(ours, arm="corrected").rows == (
        ("cartpole-swingup", "gentle", "away", "worldfork", *figures),
        ("cartpole-swingup", "corrected", "away", "paper", "-253.4", "–", "–", "+53.0"),
        ("cartpole-swingup", "corrected", "away", "worldfork", *figures),
    )
    assert beside_paper(ours, arm="another") is ours


def test_arms_stand_below_one_another_in_the_order_of_the_study(made):
    (effects,) = (one for one in made if one.label == "effects")
    assert effects.heads[:2] == ("Task", "Arm")
    assert [row[:2] for row in effects.rows] == [("walker-walk", "model"), ("walker-walk", "model-and-value")]
    assert "Arm:" not in effects.caption


def test_a_lone_arm_is_named_by_the_caption():
    found = score_ledger(Path(__file__).parents[3] / "results" / "draws", permutations=20, arm="full-rate")
    (effects,) = tables.choose(tables.all_tables(found), "effects")
    assert effects.heads[:2] == ("Task", "Cells")
    assert effects.caption.endswith("Arm: full-rate.")


def test_the_budget_and_the_arms_in_words(made):
    by_label = {one.label: one for one in made}
    budget = [row for row in by_label["budget"].rows if row[1] == "model"]
    assert [row[2] for row in budget] == ["as it is: 3 x 32 x 4", "2 times", "4 times", "10 times", "without limit"]
    assert budget[-1][3] == "0.00"
    assert by_label["gate"].rows == (("walker-walk", "5", "251.0", "297.0", "240.0", "–", "rejected"),)
    arms = by_label["arms"].rows[0]
    assert arms[:3] == ("model-and-value - model", "walker-walk", "all attempted")
    assert arms[9] == "96"


def test_a_study_has_its_tables_too(small):
    material = gather(small.path, permutations=20)
    made = tables.all_tables(material.score)
    (effects,) = (one for one in made if one.label == "effects")
    assert len({row[1] for row in effects.rows}) == 3
    assert sum(one.label == "arms" for one in made) == 1


def test_a_verdict_is_shown_with_what_it_rests_on(made):
    """Grade and exact p beside every mean, an interval beside every total, and what a policy does not beat."""
    by_label = {one.label: one for one in made}
    grades = [dict(zip(by_label["grades"].heads, row, strict=True)) for row in by_label["grades"].rows]
    assert {row["grade"] for row in grades} <= {"resolved", "leaning", "unresolved"}
    useful = [dict(zip(by_label["useful"].heads, row, strict=True)) for row in by_label["useful"].rows]
    drift = next(row for row in useful if row["Trigger"] == "drift")
    assert (drift["standing"], drift["p, swapped"]) == ("reference", "1")
    assert "swapped" in drift["useful"]
    places = [dict(zip(by_label["position"].heads, row, strict=True)) for row in by_label["position"].rows]
    assert {row["AUC at one (direction, k)"] for row in places if row["Trigger"] == "drift"} <= {".500", "–"}


def test_the_dots_of_a_chart_are_in_the_unit_of_its_mean(made):
    """Checkpoints weigh alike: their dots have the mean that stands among them."""
    drawn = {table.label: strip for table in made for strip in table.strips if strip.checkpoints}
    assert "arms" in drawn
    for label, strip in drawn.items():
        assert sum(strip.dots) / len(strip.dots) == pytest.approx(strip.mean), label


def test_a_grade_is_defined_by_the_words_of_the_glossary(made):
    (grades,) = (table for table in made if table.label == "grades")
    for word in ("resolved", "leaning"):
        assert TERMS[word][1:] in grades.caption
    assert "normal mixture 95%" in grades.heads
    assert "only a study that goes on until it knows needs it" in grades.caption


def test_draws_of_an_update_have_a_table_of_their_own():
    """The study that was run for it, against figures that were computed by hand from its rows."""
    found = score_ledger(Path(__file__).parents[3] / "results" / "draws", permutations=20)
    (shown,) = tables.choose(tables.all_tables(found), "draws")
    full, tenth = shown.rows
    assert full[:5] == ("cartpole-swingup", "full-rate", "3", "55.8", "none to 80.9")
    assert (tenth[1], tenth[3]) == ("tenth-rate", "none")
    assert full[5] == ".333 of 36"
    assert [float(cell) for cell in full[7:]] == pytest.approx([math.sqrt(3111.7 + 9831.5 / 4), 49.7], abs=0.1)


def test_the_difference_of_directions_is_there_for_all_attempted_forks_where_those_retained_have_none():
    """Of walker with a window of 500 two forks are retained, both of one direction."""
    study = Path(__file__).parents[3] / "results" / "window"
    found = score_ledger(study, permutations=9, triggers=("residual",), arm="window-500")
    (table,) = tables.choose(tables.all_tables(found), "directions")
    walker = [row for row in table.rows if row[0] == "walker-walk"]
    assert [row[1] for row in walker] == ["toward", "away", "toward - away at 19 levels"]
    assert walker[-1][2].startswith("+1.7 [")
    assert walker[-1][4:] == ("–", "–")


def test_a_column_that_no_row_fills_is_left_out_for_readers_and_kept_for_programs() -> None:
    rows = [
        Row([task], [("mean", mean), (Column("equivalence", words=True), "")])
        for task, mean in (("walker", "-5.7"), ("cheetah", "+3.1"))
    ]
    table = Table.of("means", "Mean dR.", ["Task"], rows)
    for shown in (render.plain([table]), render.html(table)):
        assert "equivalence" not in shown
        assert "walker" in shown
    assert "equivalence" in render.csv(table)
