"""Checkpoints that all have the same mean: no interval, no verdict, and the reason for it."""

import numpy as np
import polars as pl
import pytest

import worldfork as wf
from worldfork.analysis.present.text.answers import answer
from worldfork.analysis.score import sign_flips
from worldfork.analysis.score.effects import estimate
from worldfork.analysis.score.undefined import Interval, Undefined


def table(checkpoints, *, hold=10.0, gained=-1.0):
    forks = [(name, k) for name in range(checkpoints) for k in (1, 2)]
    names, points = zip(*forks, strict=True)
    update = [hold + gained] * len(forks)
    return pl.DataFrame({"checkpoint": names, "k": points, "r_hold": [hold] * len(forks), "r_update": update})


@pytest.mark.parametrize("checkpoints", [2, 3, 8, 20])
def test_the_same_loss_everywhere_gives_no_verdict(checkpoints):
    score = wf.score(table(checkpoints), permutations=20)
    one = score["table"]
    for figure in (one.verdict, one.effect.all_attempted.student_t, one.effect.all_attempted.bootstrap,
                   one.effect.all_attempted.mde, one.judgement.grade, one.judgement.p_student_t):  # fmt: skip
        assert isinstance(figure, Undefined)
    assert f"all {checkpoints} checkpoints have the same mean" in one.verdict.why
    assert one.effect.all_attempted.mean == -1.0
    assert one.judgement.p_sign_flip == sign_flips.sign_flip_p(np.full(checkpoints, -1.0), seed=0, task="table")
    said = answer(one)
    assert (said.word, said.verdict) == ("Not decided", "undecided")
    assert "have the same mean" in said.advice.certainty
    assert "have the same mean" in wf.report(table(checkpoints)).html


def test_means_that_differ_by_rounding_alone_have_no_spread():
    values = np.array([0.6 - 0.7, 0.5 - 0.6, 0.3 - 0.4])
    assert len(set(values)) > 1
    assert isinstance(sign_flips.student_p(values), Undefined)
    assert isinstance(estimate(values, seed=0, task="").student_t, Undefined)
    assert not isinstance(sign_flips.student_p(values + np.array([0.0, 0.0, 1e-6])), Undefined)


def test_an_update_that_changes_nothing_reads_as_before():
    one = wf.score(table(6, gained=0.0), permutations=20)["table"]
    assert one.effect.all_attempted.student_t == Interval(0.0, 0.0)
    assert (one.verdict, one.judgement.grade, one.judgement.p_student_t) == ("unresolved", "unresolved", 1.0)
    assert answer(one).word == "No difference"


def test_two_tasks_without_a_spread_have_no_share_over_both():
    both = pl.concat([table(3).with_columns(task=pl.lit(name)) for name in ("a", "b")])
    assert "</html>" in wf.report(both).html
