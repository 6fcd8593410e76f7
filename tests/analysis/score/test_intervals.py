"""Intervals on a handful of checkpoints: listed by hand, without a spread, equivalent to 0, and at any time."""

import itertools

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, optimize, stats

import worldfork as wf
from worldfork.analysis.present.text.answers import answer
from worldfork.analysis.score import intervals, sign_flips
from worldfork.analysis.score.effects import estimate
from worldfork.analysis.score.intervals import anytime_interval, half_width
from worldfork.analysis.score.predictions import equivalence
from worldfork.analysis.score.undefined import Interval, Undefined
from worldfork.errors import WorldforkError

VALUES = st.lists(st.integers(-1000, 1000), min_size=2, max_size=5).map(lambda x: np.array(x, float))


def test_bootstrap_of_two_clusters_by_hand():
    """The four resamples have means 0, 1/2, 1/2, 1: the quantiles interpolate between neighbours."""
    assert intervals.bootstrap(np.array([0.0, 1.0]), seed=0, task="") == pytest.approx([0.0375, 0.9625])


@given(VALUES)
def test_bootstrap_lists_every_resample(values):
    means = [np.mean(chosen) for chosen in itertools.product(values, repeat=len(values))]
    expected = np.quantile(means, [0.025, 0.975])
    for seed in (0, 1):  # exact: the seed has no part in it
        assert intervals.bootstrap(values, seed=seed, task="a") == pytest.approx(expected)


def test_bootstrap_of_many_clusters_is_seeded():
    values = np.random.default_rng(0).normal(size=12)
    first = intervals.bootstrap(values, seed=1, task="a")
    assert first == intervals.bootstrap(values, seed=1, task="a")
    assert first != intervals.bootstrap(values, seed=2, task="a")
    spread = 1.96 * values.std() / np.sqrt(12)
    assert first == pytest.approx([values.mean() - spread, values.mean() + spread], abs=0.1)


def test_the_papers_dose_interval_and_detectable_effect():
    """Appendix "the dose interval": four checkpoints, [-159.0, -17.0], t = 3.182, detectable 89.8.

    The interval alone fixes the mean (-88.0) and the deviation (44.63); the detectable effect then follows.
    """
    half = (159.0 - 17.0) / 2
    deviation = half / 3.182 * np.sqrt(4)
    shape = np.array([-1.0, -0.5, 0.5, 1.0])
    values = -88.0 + shape * deviation / shape.std(ddof=1)
    assert intervals.student_t(values) == pytest.approx([-159.0, -17.0], abs=0.05)
    assert intervals.detectable(values) == pytest.approx(89.8, abs=0.05)
    # The "underpowered" reading of an earlier draft took t = 4.303, two degrees of freedom, from the wrong row.
    assert 4.303 / 3.182 * half > 88.0


@pytest.mark.parametrize(
    ("means", "mean", "bootstrap", "student_t"),
    [
        ([-139.9, -125.4, -121.6, -110.8, -69.1], -113.4, [-131.2, -90.1], [-146.7, -80.0]),
        ([-111.0, -86.9, -84.2, -83.7, -44.6], -82.1, [-100.2, -60.9], [-111.7, -52.5]),
        ([-21.3, -17.9, -9.3, 1.0, 27.8], -3.9, [-17.5, 13.0], [-28.4, 20.6]),
    ],
    ids=["cartpole", "walker", "cheetah"],
)
def test_the_papers_two_intervals_belong_together(means, mean, bootstrap, student_t):
    """The paper gives both intervals of each task and not the five checkpoint means. These, found by search, give
    all five of a task's figures at once: its exact bootstrap and its Student-t are the two computed here."""
    values = np.array(means)
    assert values.mean() == pytest.approx(mean, abs=0.06)
    assert intervals.bootstrap(values, seed=0, task="") == pytest.approx(bootstrap, abs=0.06)
    assert intervals.student_t(values) == pytest.approx(student_t, abs=0.06)


def test_one_cluster_has_no_interval():
    one = np.array([3.0])
    for figure in (intervals.bootstrap(one, seed=0, task=""), intervals.student_t(one), intervals.detectable(one)):
        assert isinstance(figure, Undefined)
        assert "at least two" in figure.why


def test_fewer_than_three_clusters_show_their_range():
    found = intervals.cluster_interval(np.array([0.234, 0.659]), seed=0, task="")
    assert (found.interval, found.kind) == ((0.234, 0.659), "min-max")
    assert intervals.cluster_interval(np.array([0.1, 0.2, 0.3]), seed=0, task="").kind == "bootstrap"


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


def test_equivalence_is_scipys_larger_one_sided_p():
    values = np.random.default_rng(0).normal(0.2, 1, 12)
    found = equivalence(values, margin=1.0)
    sides = (
        stats.ttest_1samp(values, 1.0, alternative="less").pvalue,
        stats.ttest_1samp(values, -1.0, alternative="greater").pvalue,
    )
    assert found.p == pytest.approx(max(sides))
    assert found.interval == pytest.approx(tuple(stats.ttest_1samp(values, 0).confidence_interval(0.9)))


@pytest.mark.parametrize(
    ("values", "answer"),
    [
        ([0.1, -0.1, 0.2, -0.2, 0.0], "equivalent"),
        ([-81.0, 87.0], "not shown"),  # two checkpoints: "does not matter" needs more
        ([5.0, 5.1, 4.9, 5.2], "different"),
        ([0.0, 0.0, 0.0], "equivalent"),
        ([2.0, 2.0, 2.0], "different"),
        ([0.1], "not shown"),
    ],
)
def test_equivalence_answers(values, answer):
    found = equivalence(np.array(values), margin=2.0 if values[0] != 2.0 else 1.9)
    assert found.answer == answer


def test_the_least_margin_is_where_the_answer_turns():
    values = np.array([1.0, 2.0, -0.5, 0.7, 1.1])
    least = equivalence(values, margin=1.0).least_margin
    assert equivalence(values, margin=least * 1.001).answer == "equivalent"
    assert equivalence(values, margin=least * 0.999).answer == "not shown"


def test_a_margin_is_positive():
    with pytest.raises(WorldforkError, match="above 0"):
        equivalence(np.array([1.0, 2.0]), margin=0.0)


@pytest.mark.parametrize("count", [8, 15, 40])
def test_the_anytime_bound_is_where_the_mixture_reaches_twenty(count):
    """The mixture by quadrature: the density of t under a standardised effect, averaged over a standard normal,
    against its density under none."""

    def mixture(t):
        def weighted(effect):
            return stats.nct.pdf(t, count - 1, effect * np.sqrt(count)) * stats.norm.pdf(effect)

        near = t / np.sqrt(count)
        value, _ = integrate.quad(weighted, near - 3, near + 3, limit=200)
        return value / stats.t.pdf(t, count - 1)

    reached = optimize.brentq(lambda t: mixture(t) - 20, 1.0, 12.0)
    assert half_width(count) == pytest.approx(reached, rel=1e-3)


def test_what_the_anytime_interval_costs():
    """Three times Student-t at five checkpoints, 1.65 times at fifteen (design)."""
    ratio = {count: half_width(count) / stats.t.ppf(0.975, count - 1) for count in (5, 15)}
    assert ratio == pytest.approx({5: 3.04, 15: 1.65}, abs=0.01)
    assert half_width(3) == np.inf


def test_the_anytime_interval_is_shown_from_eight_checkpoints_on():
    values = np.arange(8.0)
    low, high = anytime_interval(values)
    assert (low + high) / 2 == pytest.approx(3.5)
    assert "from 8 checkpoints" in anytime_interval(values[:7]).why
    assert isinstance(anytime_interval(values[:1]), Undefined)


def test_looking_after_every_checkpoint_is_safe_for_one_and_not_for_the_other():
    """400 studies without an effect, looked at from 8 to 60 checkpoints: how many ever exclude 0?"""
    draws = np.random.default_rng(0).normal(size=(400, 60))
    counts = np.arange(8, 61)
    means = np.cumsum(draws, axis=1) / np.arange(1, 61)
    squares = np.cumsum(draws**2, axis=1)
    deviation = np.sqrt((squares - np.arange(1, 61) * means**2)[:, 7:] / (counts - 1))
    distance = np.abs(means[:, 7:]) / deviation * np.sqrt(counts)
    anytime = (distance > np.array([half_width(int(n)) for n in counts])).any(axis=1).mean()
    fixed = (distance > stats.t.ppf(0.975, counts - 1)).any(axis=1).mean()
    assert anytime <= 0.05
    assert fixed > 0.15
