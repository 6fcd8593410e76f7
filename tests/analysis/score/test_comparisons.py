"""Contrasts of arms and directions, registered predictions, the pinning model, and what stays undefined."""

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import forks, study

from worldfork.analysis.read.table import read_table
from worldfork.analysis.score import Rules, score
from worldfork.analysis.score.contrasts import contrast_arms, contrast_directions
from worldfork.analysis.score.pinning import LOSSES, pinning_table
from worldfork.analysis.score.predictions import answer, prediction_problems
from worldfork.analysis.score.undefined import Interval, Undefined, settle
from worldfork.registration.schema import Prediction, Premise


def test_arms_are_compared_on_the_cells_they_share():
    """Cell means 5 - 2 and 7 - 1 in checkpoint 0, 4 - 4 in checkpoint 1; checkpoint 2 is in one arm only."""
    first = forks([4, 6, 7, 4, 99], checkpoint=list("00012"), direction=["away", "away", "toward", "away", "away"])
    second = forks([2, 1, 4], checkpoint=list("001"), direction=["away", "toward", "away"])
    found = contrast_arms(first, second, seed=0)
    assert found.by_checkpoint == {"0": pytest.approx(4.5), "1": pytest.approx(0.0)}
    assert found.mean == pytest.approx(2.25)
    assert (found.first, found.second) == (pytest.approx(5.0), pytest.approx(2.75))
    assert found.cells == 3


def test_arms_are_compared_fork_by_fork():
    """Four forks are in both, k = 1 to 4; their ranks are (1, 2, 3, 4) and (1, 2, 4, 3)."""
    first = forks([-8, -1, 2, 5, 50], k=[1, 2, 3, 4, 5])
    second = forks([70, -4, -2, 3, 1], k=[9, 1, 2, 3, 4])
    found = contrast_arms(first, second, seed=0).paired
    assert found.forks == 4
    assert found.same_sign == 1.0
    assert found.spearman == pytest.approx(0.8)
    assert found.pearson == pytest.approx(np.corrcoef([-8, -1, 2, 5], [-4, -2, 3, 1])[0, 1])
    turned = contrast_arms(first, forks([4, -2, 3, 1], k=[1, 2, 3, 4]), seed=0).paired
    assert turned.same_sign == 0.75


def test_arms_with_cells_but_no_fork_in_common():
    found = contrast_arms(forks([1.0], k=[1]), forks([1.0], k=[2]), seed=0).paired
    assert found.forks == 0
    assert all(isinstance(getattr(found, name), Undefined) for name in ("pearson", "spearman", "same_sign"))


def test_arms_without_a_shared_cell():
    assert isinstance(contrast_arms(forks([1]), forks([1], checkpoint=["9"]), seed=0), Undefined)


def test_directions_are_compared_at_the_levels_both_visit():
    world = forks(
        [1, 2, 3, 10, 20, 30],
        direction=["away"] * 3 + ["toward"] * 3,
        level=[0.1, 0.5, 0.9, 0.9, 0.5, 0.0],
        k=[1, 2, 3, 1, 2, 3],
    )
    found = contrast_directions(world, seed=0)
    assert found.mean == pytest.approx(((10 - 3) + (20 - 2)) / 2)
    assert found.by_direction == {"toward": 15.0, "away": 2.5}
    assert found.levels == 2


WALKER = Prediction(name="transfer", task="walker", between=(70.0, 110.0), falsified_below=-50.0)
HOPPER = Prediction(name="floor", task="hopper", between=(-2.2, 2.2))


def figures(mean, low, high):
    return {"effect": {"all_attempted": {"mean": mean, "student_t": Interval(low, high)}}}


@pytest.mark.parametrize(
    ("said", "mean", "interval", "expected"),
    [
        (WALKER, -82.1, (-111.7, -52.5), "falsified"),
        (WALKER, -3.9, (-28.4, 20.6), "unresolved"),  # not where it was said to be, nor where it was said not to be
        (WALKER, 90.0, (75.0, 105.0), "held"),
        (HOPPER, 1.0, (-0.3, 2.4), "unresolved"),  # the point estimate is inside, the upper end is not
        (HOPPER, 1.0, (-0.3, 2.1), "held"),
        (HOPPER, 5.0, (3.0, 7.0), "falsified"),
    ],
)
def test_predictions_of_the_paper(said, mean, interval, expected):
    assert answer(said, figures(mean, *interval)).answer == expected


@pytest.mark.parametrize(
    ("clean", "interval", "expected"),
    [
        (297.0, (280.0, 310.0), "falsified"),  # the paper's walker: converged below the crossing, so it was tested
        (928.0, (903.0, 953.0), "not tested"),  # ours: above it, where the account predicts harm as well
        (390.0, (350.0, 430.0), "not tested"),  # may lie on either side
        (Undefined("not said"), None, "not tested"),
    ],
)
def test_a_premise_comes_first(clean, interval, expected):
    below = Premise(figure="clean_return.mean", below=397.0)
    said = WALKER.model_copy(update={"premise": below})
    granted = {"mean": clean, **({} if interval is None else {"student_t": Interval(*interval)})}
    found = answer(said, {**figures(-82.1, -111.7, -52.5), "clean_return": granted})
    assert (found.answer, found.premise) == (expected, "clean_return.mean below 397")
    elsewhere = answer(said, figures(-82.1, -111.7, -52.5), premises={"clean_return": granted})
    assert elsewhere.answer == expected


@pytest.mark.parametrize(
    ("means", "expected"),
    [
        ([0.3, -0.4, 0.1, 0.2, -0.1], "held"),
        ([30.0, -40.0, 10.0, 20.0, -10.0], "unresolved"),  # absence of evidence
        ([30.0, 32.0, 31.0, 29.0, 30.0], "falsified"),
    ],
)
def test_what_is_meant_to_be_null_is_tested_for_equivalence(means, expected):
    said = Prediction(name="null", task="t", equivalent_within=2.2)
    by_checkpoint = {str(index): mean for index, mean in enumerate(means)}
    tree = {"mean": float(np.mean(means)), "by_checkpoint": by_checkpoint}
    found = answer(said, {"effect": {"all_attempted": tree}})
    assert (found.answer, found.equivalence.margin) == (expected, 2.2)
    arms = answer(said.model_copy(update={"arm": "a", "against": "b"}), tree)
    assert arms.answer == expected


def test_two_arms_are_predicted_to_be_equivalent():
    """float32 less float16 on the same forks: `does not matter` needs a margin."""
    one = study(1, checkpoints=5).with_columns(arm=pl.lit("float32"))
    other = one.with_columns(arm=pl.lit("float16"), r_update=pl.col("r_update") + pl.col("k") % 2)
    said = Prediction(name="same", task="world", arm="float32", against="float16", equivalent_within=5.0)
    arms = read_table(pl.concat([one, other])).arms
    quick = Rules(permutations=9, triggers=("drift",), predictions=(said,))
    (found,) = score(arms, quick)["float32", "world"].predictions
    assert found.answer == "held"
    assert found.value == pytest.approx(-0.5)
    assert found.equivalence.least_margin == pytest.approx(0.5)
    (alone,) = score({"float32": arms["float32"]}, quick)["float32", "world"].predictions
    assert alone.answer == "not tested"
    assert score(arms, quick)["float16", "world"].predictions == ()


def test_a_prediction_about_another_figure():
    said = Prediction(name="slope", task="t", figure="contraction.slope", between=(0.0, 0.5))
    tree = {"contraction": {"slope": 0.3, "slope_interval": Interval(0.1, 0.4)}}
    assert answer(said, tree).answer == "held"
    assert answer(said, {"contraction": {"slope": Undefined("x")}}).answer == "unresolved"
    misspelt = answer(Prediction(name="x", task="t", figure="contraction.slop", between=(0.0, 1.0)), tree)
    assert misspelt.answer == "unresolved"
    assert "no score has `contraction.slop`: no `slop` among slope" in misspelt.value.why


@pytest.mark.parametrize(
    ("figure", "problem"),
    [
        ("mean", None),
        ("effect.retained.mean", None),
        ("effect.all_attempted.by_direction.toward", None),
        ("contraction.crossing", None),
        ("triggers.residual.auc", None),
        ("triggers.residual.random.p", None),
        ("policies.always", None),
        ("crn.gain", None),
        ("contraction.slop", "no `slop` among slope"),
        ("triggers.residual.random.q", "no `q` among mean, interval, p"),
        ("effect.retained", "not a number"),
        ("verdict", "not a number"),
        ("evidence.forks", "no `evidence` among forks"),
    ],
)
def test_what_a_prediction_is_about_can_be_checked_before_there_is_a_score(figure, problem):
    problems = prediction_problems([Prediction(name="x", task="t", figure=figure, falsified_below=0.0)])
    assert len(problems) == (problem is not None)
    assert problem is None or problem in problems[0]


def test_the_papers_toy_staleness_model():
    """Appendix "Pinned-physics bias": 1.000 linear, 1.98 to 10.8 convex, 0.791 to 0.209 saturating."""
    ratios = {name: [one.ratio for one in pinning_table() if one.loss == name] for name in LOSSES}
    assert ratios["linear"] == pytest.approx([1.0] * 4, abs=1e-12)
    assert (ratios["convex"][0], ratios["convex"][-1]) == (pytest.approx(1.98), pytest.approx(10.8))
    assert (round(ratios["saturating"][0], 3), round(ratios["saturating"][-1], 3)) == (0.791, 0.209)
    assert ratios["convex"] == sorted(ratios["convex"])
    assert ratios["saturating"] == sorted(ratios["saturating"], reverse=True)


@given(st.floats(0.001, 5), st.floats(0.01, 10), st.integers(2, 200))
def test_curvature_decides_the_direction_of_the_bias(drift, staleness, window):
    table = pinning_table(drifts=(drift,), staleness=staleness, window=window)
    ratios = {entry.loss: entry.ratio for entry in table}
    assert ratios["linear"] == pytest.approx(1.0)
    assert ratios["convex"] > 1 > ratios["saturating"]


def test_without_further_drift_pinning_is_no_bias():
    assert [entry.ratio for entry in pinning_table(drifts=(0.0,))] == pytest.approx([1.0] * 3)


def test_undefined_becomes_null_with_its_place_and_reason():
    tree = {"a": [1, Undefined("x")], "b": {"c": np.float64(2.0), "d": Undefined("y")}, "e": float("inf")}
    plain, reasons = settle(tree)
    assert plain == {"a": [1, None], "b": {"c": 2.0, "d": None}, "e": None}
    assert [reason["figure"] for reason in reasons] == ["a[1]", "b.d", "e"]
    json.dumps(plain, allow_nan=False)
