"""The score of a study that stops: its answers grade, nothing beyond the stop is missing, and the page says so."""

import json
import shutil

import pytest
import stopped

from worldfork.analysis.present.page import gather, render
from worldfork.analysis.present.page.index import compared, index_line
from worldfork.analysis.present.page.record import record
from worldfork.analysis.present.summary import summarise
from worldfork.analysis.present.tables import all_tables, scores_of
from worldfork.analysis.present.tables.effects import overview
from worldfork.analysis.present.text.answers import answer, corrected
from worldfork.analysis.present.text.arms import contrast_summary
from worldfork.analysis.present.text.formatting import digits_for, span, with_span
from worldfork.analysis.score import Score, score_ledger
from worldfork.analysis.score.stopping import ruling
from worldfork.analysis.score.undefined import Undefined
from worldfork.errors import WorldforkError
from worldfork.ledger.store import Study
from worldfork.ledger.verify import verify

TASK = "linear_quadratic"


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> Study:
    return stopped.write(tmp_path_factory.mktemp("score") / "study")


@pytest.fixture(scope="module")
def score(study) -> Score:
    return score_ledger(study, permutations=200)


def test_the_study_that_was_written_verifies(study):
    verdict = verify(study.path)
    assert (verdict.complete, verdict.stopping) == (True, "stopped after 11 of 14 checkpoints: answered")
    assert verdict.problems == ()


def test_every_question_has_its_look_and_its_interval(score):
    found = score.stopping
    assert (found.null, found.error_rate, found.budget, found.looks, found.ended) == ("mean", 0.05, 14, 4, True)
    few, difference = found.questions
    assert (few.arm, few.against, few.answer, few.checkpoints, few.grade) == ("few", None, "above", 8, "resolved")
    assert (difference.answer, difference.checkpoints, len(difference.looks)) == ("above", 11, 4)
    assert few.interval.low > 0
    assert [look.answer for look in difference.looks] == [None, None, None, "above"]
    assert difference.interval == difference.looks[-1].interval


def test_looks_have_the_means_that_the_score_has(score):
    """At the last look the question is about all rows that there are."""
    contrast = score.contrasts["many - few"][TASK].all_attempted
    assert score.stopping.questions[1].mean == pytest.approx(contrast.mean, rel=1e-12)
    by_checkpoint = score["few", TASK].effect.all_attempted.by_checkpoint
    first = [by_checkpoint[str(checkpoint)] for checkpoint in reversed(range(6, 14))]
    assert score.stopping.questions[0].mean == pytest.approx(sum(first) / 8, rel=1e-12)


def test_answers_grade_and_other_tests_do_not(score):
    assert score["few", TASK].judgement.grade == "resolved"
    assert score["few", TASK].verdict == "helpful"
    assert score.contrasts["many - few"][TASK].all_attempted.grade == "resolved"
    for judged in (
        score["many", TASK].judgement.grade,
        score["spare", TASK].judgement.grade,
        score.contrasts["spare - few"][TASK].all_attempted.grade,
        score.contrasts["many - few"][TASK].retained.grade,
    ):
        assert isinstance(judged, Undefined)
        assert "[stopping]" in judged.why


def test_forks_beyond_the_stop_are_not_missing(score):
    assert score.missing == ""
    assert not [warning for warning in score.warnings if "not there" in warning]


def test_the_json_has_it_where_it_is_registered(score):
    written = score.to_json()
    assert written["stopping"]["questions"][0]["answer"] == "above"
    assert written["stopping"]["tasks"] == {TASK: {"checkpoints": 11, "answered": True}}
    assert "asked" not in json.dumps(written["arms"])


def test_screen_and_tables_say_it(score):
    text = " ".join(str(summarise(score)).split())
    assert "Stopped after 11 of 14 checkpoints: answered." in text
    assert "dR of few: above 0, known after 8 of 14 checkpoints: +" in text
    assert "5%, shared by 2 questions" in text
    assert "Resolved: its question was answered after 8 checkpoints" in text
    assert "Not graded: the rows themselves decided" in text
    tables = {table.label: table for table in all_tables(score)}
    assert [row[2:4] for row in tables["stopping"].rows] == [("above 0", "8 of 14"), ("above 0", "11 of 14")]
    assert len(tables["looks"].rows) == 1 + 4


def test_the_page_says_it(study):
    page = render(gather(study, permutations=50)).html
    assert "Stopped after 11 of 14 checkpoints: answered." in page
    assert "many - few: above 0, known after 11 of 14 checkpoints" in page
    assert "A question that the study asks was answered" in page


def test_an_unanswered_budget_is_unresolved_whatever_a_fixed_test_says(tmp_path):
    """Student's t of all rows excludes 0, and the rule, which looked seven times, does not."""

    def faint(cell, k):
        return (0.465 + ((7 * cell.checkpoint) % 11) / 5 - 1.0,) * 2 if cell.arm == "few" else (0.0, 0.1 * k)

    authored = stopped.AUTHORED.replace('    { task = "linear_quadratic", arm = "many", against = "few" },\n', "")
    found = score_ledger(stopped.write(tmp_path / "study", authored, faint), permutations=50)
    low, _ = found["few", TASK].effect.all_attempted.student_t
    assert low > 0
    assert (found["few", TASK].verdict, found["few", TASK].judgement.grade) == ("unresolved", "unresolved")
    assert found.stopping.outcome == "all 14 checkpoints, and not answered: the budget is spent"
    assert "Its question has no answer after 14 checkpoints" in " ".join(str(summarise(found)).split())


def test_the_interval_of_the_rule_stands_wherever_the_grade_does(score):
    """Few was answered at the first look, and rows came after it: the mean and interval are those of that look."""
    asked, figures = score.stopping.questions[0], score["few", TASK]
    words = with_span(asked.mean, asked.interval, digits_for(figures.effect.all_attempted))
    assert answer(figures).mean == words
    assert answer(figures).of == ""  # shares would be of another mean
    (strip, *_) = (
        strip for (_, arm), strip in zip(scores_of(score), overview(scores_of(score)).strips, strict=True)
    )
    assert (strip.mean, strip.student_t) == (asked.mean, asked.interval)
    (difference,) = (asked for asked in score.stopping.questions if asked.against)
    pair = score.contrasts["many - few"][TASK].all_attempted
    assert pair.at_look == (difference.mean, difference.interval, difference.checkpoints)
    assert span(difference.interval, digits_for(pair)) in contrast_summary(
        ("many", "few"), {TASK: pair}, sized=True
    )


def test_a_question_asked_the_other_way_round_is_turned(score):
    (difference,) = (asked for asked in score.stopping.questions if asked.against)
    low, high = difference.interval
    found = ruling(score.stopping, task=TASK, arm="few", against="many").mean_of("few")
    assert found == (-difference.mean, (-high, -low), difference.checkpoints)


def test_intervals_of_a_fixed_number_are_named_so_and_the_rules_interval_stands_beside_the_grade(score):
    tables = {table.label: table for table in all_tables(score)}
    (row, *_) = tables["grades"].records()
    assert "normal mixture 95%" not in row
    assert row["by the stopping rule"] == span(score.stopping.questions[0].interval, 2)
    for label in ("grades", "effects", "arms"):
        assert "of a fixed number of checkpoints, not adjusted for looking" in tables[label].caption
    assert "by the stopping rule" in tables["arms"].heads


def test_verdicts_by_the_rule_are_not_called_corrected(score):
    assert corrected(score).startswith("Verdicts are by the stopping rule")
    assert "Verdicts are corrected" not in corrected(score)


def test_predictions_of_a_study_that_stops_say_what_they_were_judged_on(tmp_path):
    predicted = """
[[predictions]]
name = "up"
task = "linear_quadratic"
arm = "few"
figure = "mean"
falsified_below = 0.0
"""
    study = stopped.write(tmp_path / "study", stopped.AUTHORED + predicted)
    found = score_ledger(study, permutations=50)
    (table,) = (table for table in all_tables(found) if table.label == "predictions")
    assert table.records()[0]["answer"] == "held (fixed n)"
    assert "judged on the interval of a fixed number of checkpoints (fixed n)" in table.caption
    assert "judged on the interval of a fixed number" in render(gather(study, permutations=50)).html


def test_a_planned_stop_is_no_deviation(study):
    material = gather(study, permutations=50)
    found, page = record(material), render(material).html
    assert found.deviations == []
    assert found.forks == found.registered_forks == 11 * 3 * 3
    assert found.stopped == "stopped as registered; 27 forks were not needed"
    assert "stopped as registered; 27 forks were not needed" in page[: page.index("</header>")]


def test_an_index_shows_the_interval_that_the_grade_rests_on(study, tmp_path):
    line = index_line(gather(study, permutations=50), tmp_path / "one.html", index=tmp_path / "index.html")
    (asked,) = (verdict for verdict in line.verdicts if verdict.arm == "few")
    (found,) = compared([line])
    assert found.table.records()[0]["95%"] == span(asked.graded.interval, asked.graded.digits)
    assert found.table.strips[0].student_t == asked.graded.interval
    assert asked.graded.checkpoints == 8


def test_a_study_under_way_says_how_far_it_has_come(study, tmp_path):
    shutil.copytree(study.path, tmp_path / "study")
    looks = (tmp_path / "study" / "looks.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "study" / "looks.jsonl").write_bytes(b"".join(looks[:2]))
    for folder in (tmp_path / "study" / "cells").glob("*-c[34]-*"):
        shutil.rmtree(folder)
    found = score_ledger(tmp_path / "study", permutations=50)
    assert "9 of 14 checkpoints looked at, not answered yet" in found.missing
    assert found.stopping.questions[1].grade == "unresolved"


def test_looks_that_do_not_follow_from_the_rows_are_refused(study, tmp_path):
    shutil.copytree(study.path, tmp_path / "study")
    for folder in (tmp_path / "study" / "cells").glob("*-c3-*"):
        shutil.rmtree(folder)
    with pytest.raises(WorldforkError, match=r"look 4: the study had ended before it, or the rows"):
        score_ledger(tmp_path / "study")
