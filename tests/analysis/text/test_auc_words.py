"""An AUC says on how many checkpoints it rests, where not all of them have forks of both kinds."""

import re

import ledgers
import numpy as np
import polars as pl
import pytest

from worldfork.analysis.present import tables
from worldfork.analysis.present.page import gather, render
from worldfork.analysis.present.summary import summarise
from worldfork.analysis.present.text.formatting import auc_note, auc_with_checkpoints
from worldfork.analysis.score.rankings import Ranking
from worldfork.analysis.score.undefined import Interval, Undefined


def _ranking(*by_checkpoint):
    """The mean over those that have one; None is a checkpoint whose forks are all of one kind."""
    there = [value for value in by_checkpoint if value is not None]
    why = Undefined("one class only")
    return Ranking(
        auc=float(np.mean(there)) if there else why,
        auc_interval=Interval(min(there), max(there)) if there else why,
        auc_interval_kind="min-max" if there else why,
        auc_student_t=why,
        auc_clusters=len(there),
        auc_by_checkpoint={str(i): why if value is None else value for i, value in enumerate(by_checkpoint)},
    )


@pytest.mark.parametrize(
    ("by_checkpoint", "shown"),
    [
        ((0.75, None, 0.9, None, None), ".825 (2 of 5)"),
        ((0.75, 0.9), ".825"),
        ((None, None), "–"),
    ],
)
def test_an_auc_with_the_checkpoints_it_rests_on(by_checkpoint, shown):
    assert auc_with_checkpoints(_ranking(*by_checkpoint)) == shown


def test_a_note_names_signals_only_where_they_differ():
    few, all_of_them, none = _ranking(0.8, None, None), _ranking(0.8, 0.7, 0.6), _ranking(None, None, None)
    assert auc_note({"kl": few, "drift": few, "adwin": none}).startswith("AUC over 1 of 3 checkpoints: ")
    assert auc_note({"kl": few, "drift": all_of_them}).startswith("AUC over 1 of 3 checkpoints (kl): ")
    assert auc_note({"kl": all_of_them, "adwin": none}) == ""


def test_tables_screen_and_page_say_so(tmp_path):
    """Nothing that was updated in checkpoint 2 helped: two of three have an AUC, in every place that prints it."""
    path = ledgers.flat(tmp_path / "forks.parquet")
    hurt = pl.col("r_hold") - (pl.col("r_update") - pl.col("r_hold")).abs() - 1
    spoiled = pl.when(pl.col("checkpoint") == "2").then(hurt).otherwise(pl.col("r_update"))
    pl.read_parquet(path).with_columns(r_update=spoiled).write_parquet(path)
    material = gather(path, permutations=20)
    by_label = {one.label: one for one in tables.all_tables(material.score)}
    for label in ("triggers", "position"):
        cells = {row[1]: row[by_label[label].heads.index("AUC")] for row in by_label[label].rows}
        assert all(cells[name].endswith(" (2 of 3)") for name in ("residual", "noise")), cells
        assert "in brackets, how many checkpoints" in by_label[label].caption
    note = "AUC over 2 of 3 checkpoints: those with forks both with dR > 0 and without."
    assert note in " ".join(str(summarise(material.score)).split())
    page = re.sub(r"<[^>]+>", "", render(material).html)
    assert re.search(r"\.\d{3} \(2 of 3\)", page)
