"""Equivalence by two one-sided tests, and the interval that may be looked at after every checkpoint."""

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from worldfork.analysis.score.intervals import anytime_interval, half_width
from worldfork.analysis.score.predictions import equivalence
from worldfork.analysis.score.undefined import Undefined
from worldfork.errors import WorldforkError


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
