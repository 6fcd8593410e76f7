"""A score as people meet it in Python: its keys, its summary as text and as HTML, and where triggers fired."""

import dataclasses
import re

import ledgers
import polars as pl
import pytest

import worldfork as wf
from worldfork.analysis.present.render import csv, html, markdown, plain
from worldfork.analysis.present.table import Cell, Column, Heading, Paragraph, Table
from worldfork.analysis.present.tables import all_tables, choose
from worldfork.analysis.present.tables.triggers import policies
from worldfork.analysis.score import score_ledger
from worldfork.errors import WorldforkError
from worldfork.registration import read
from worldfork.registration.library import find


@pytest.fixture(scope="module")
def flat(tmp_path_factory):
    """Two arms on one task, with signals."""
    return ledgers.flat(tmp_path_factory.mktemp("flat") / "forks.parquet", arms=("gentle", "corrected"))


@pytest.fixture(scope="module")
def score(flat):
    return wf.score(flat, permutations=50)


def test_a_score_is_iterated_over_the_keys_that_it_takes(flat, score):
    assert list(score) == [("corrected", "cartpole"), ("gentle", "cartpole")]
    assert len(score) == 2
    assert all(score[key] is score.arms[key[0]].tasks[key[1]] for key in score)
    alone = wf.score(flat, arm="gentle", permutations=50)
    assert list(alone) == ["cartpole"]
    assert "cartpole" in alone
    assert "walker-walk" not in alone


def test_scores_are_equal_where_their_figures_are(flat, score):
    assert score == wf.score(flat, permutations=50)
    assert score != wf.score(flat, permutations=50, seed=1)
    assert score["gentle", "cartpole"] != score["corrected", "cartpole"]


def test_a_summary_prints_what_the_screen_shows_and_shows_itself_in_a_notebook(score):
    text, page = str(score.summary()), score._repr_html_()
    for part in ("gentle · cartpole", "return per episode", "Candidate triggers", "Gained per deployment"):
        assert part in text
        assert part in page
    assert repr(score.summary()) == text
    assert page.count("<table>") == page.count("</table>") > 1
    assert "retained, bootstrap" not in text
    assert "retained, bootstrap" in " ".join(str(score.summary(verbose=True)).split())


def test_only_the_score_that_was_returned_knows_how_it_is_written(flat, score):
    unwritten = score_ledger(flat, permutations=50)
    assert score == unwritten
    assert str(score.summary())
    assert unwritten._repr_html_() is None
    with pytest.raises(WorldforkError, match="this one can not"):
        unwritten.summary()


def test_where_triggers_fired_is_a_row_per_fork_and_trigger(score):
    frame = score.fires()
    task = score["gentle", "cartpole"]
    triggers = task.triggers.all_attempted
    of_arm = frame.filter(arm="gentle")
    assert len(of_arm) == len(triggers) * task.forks.attempted
    assert frame.columns == ["arm", "task", "checkpoint", "direction", "stream_seed", "k", "trigger", "fired"]
    fired = dict(of_arm.group_by("trigger").agg(pl.col("fired").sum()).iter_rows())
    assert fired == {name: figures.fires for name, figures in triggers.items()}


def test_labels_stand_for_the_names_of_arms(score):
    registered = read(find("deployment-demo"))
    arms = tuple(
        registered.arms[0].model_copy(update={"name": name, "label": label})
        for name, label in (("gentle", "1/10 learning rate"), ("corrected", ""))
    )
    labelled = dataclasses.replace(score, registration=registered.model_copy(update={"arms": arms}))
    assert (labelled.label("gentle"), labelled.label("corrected")) == ("1/10 learning rate", "corrected")
    assert "1/10 learning rate · cartpole" in str(labelled.summary())
    (effects,) = choose(all_tables(labelled), "effects")
    assert [row[1] for row in effects.rows] == ["corrected", "1/10 learning rate"]


def test_a_trigger_that_never_fired_has_no_zero_with_an_interval():
    rows = [
        {"checkpoint": c, "k": k, "r_hold": 100.0, "r_update": 60.0 - c, "signal_quiet": float(k)}
        for c in range(6)
        for k in (1, 2, 3)
    ]
    (line,) = [
        line
        for line in str(wf.score(pl.DataFrame(rows), permutations=50).summary()).splitlines()
        if "quiet" in line
    ]
    assert line.split()[:4] == ["quiet", "never", "fired", "0"]
    assert "[" not in line


def test_a_column_that_no_figure_reads_is_named_first_with_what_was_meant():
    rows = [{"checkpoint": c, "k": 1, "r_hold": 1.0, "r_update": 2.0 + c, "surprise": 0.1} for c in range(3)]
    text = str(wf.score(pl.DataFrame(rows), permutations=50).summary())
    assert "Columns that no figure reads: surprise. Did you mean signal_surprise?" in text
    assert text.index("surprise") < text.index("Updating")


TABLE = Table(
    "policies",
    "Gained <per deployment>.",
    (
        "Kind",
        "Rule",
        Column("gained", term="per deployment"),
        Column("95%", optional=True),
        Column("verdict", words=True),
    ),
    (
        ("Candidates", "residual-of-the-longest-name-there-is", "-1.5", "[-2.0, -1.0]", Cell("yes", "good")),
        ("References", "clock", "+1.0", "[+0.5, +1.5]", "no"),
    ),
    keys=2,
    grouped=True,
    folded="Never fired: kl.",
)


def test_html_escapes_text_and_marks_terms_tones_and_minus_signs():
    page = html(TABLE)
    assert "Gained &lt;per deployment&gt;." in page
    assert '<td class="left good" data-head="verdict">yes</td>' in page
    assert "\N{MINUS SIGN}1.5" in page
    assert re.search(r'<span class="term" tabindex="0" data-means="[^"]+">gained</span>', page)
    assert '<tr class="group"><th scope="rowgroup" colspan="4">Candidates</th></tr>' in page
    assert "Never fired: kl." in page
    assert (
        html(Paragraph("<b>", lead="& so", tone="bad")) == '<p><strong class="bad">&amp; so</strong>&lt;b&gt;</p>'
    )
    assert html(Heading("a < b")) == "<h3>a &lt; b</h3>"


def test_markdown_and_csv_have_every_column_and_what_was_folded():
    assert markdown(TABLE).splitlines()[3] == "| --- | --- | ---: | ---: | --- |"
    assert markdown(TABLE).rstrip().endswith("Never fired: kl.")
    assert csv(TABLE).splitlines()[1].startswith("Candidates,residual-of-the-longest-name-there-is,-1.5,")


@pytest.mark.parametrize(("width", "optional", "parts"), [(100, True, 1), (50, False, 1), (38, False, 2)])
def test_a_narrow_screen_breaks_names_then_drops_columns_then_splits_the_table(width, optional, parts):
    lines = plain([TABLE], width=width).splitlines()
    assert all(len(line) <= width for line in lines)
    assert any("[-2.0, -1.0]" in line for line in lines) == optional
    assert sum("clock" in line for line in lines) == parts
    assert all(part in " ".join(lines) for part in ("residual-of-the-longest-", "name-there-is"))


def test_headings_of_rows_take_room_too_and_no_cell_is_cut():
    """They stand in the column of the names, which may all be shorter."""
    rows = (
        ("Not among candidates", "kl", "+1.0", "[+0.5, +1.5]", ".812"),
        ("References", "clock", "+12.0", "[+0.5, +1.5]", ".845 (12 of 24)"),
    )
    heads = ("Kind", "", "gained", Column("95%", optional=True), "AUC")
    table = Table("rules", "", heads, rows, keys=2, grouped=True)
    for width in range(37, 70):
        assert "…" not in plain([table], width=width), width


def test_the_table_of_triggers_says_from_which_value_each_fires(score):
    triggers = score["gentle", "cartpole"].triggers.all_attempted
    table = policies({("cartpole", "gentle"): score["gentle", "cartpole"]})
    shown = {row[""]: row["fires from"] for row in table.records()}
    assert shown["always"] == shown["oracle"] == ""
    residual = triggers["residual"]
    assert residual.fires
    assert shown["residual"] == f"{residual.threshold.value:.4g}"


def test_an_unknown_table_is_answered_with_the_known_ones(score):
    with pytest.raises(WorldforkError, match="no table `surprise`; there are gate, effects"):
        choose(all_tables(score), "surprise")
