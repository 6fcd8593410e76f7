"""The rule that stops a study: boundaries that tables print, intervals that agree with decisions, and its error."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from worldfork.stopping import (
    BETS,
    Plan,
    both_t,
    boundaries,
    critical_value,
    log_wealth,
    look,
    smaller_t,
)


def obrien_fleming(share: float, error_rate: float) -> float:
    return float(4 * stats.norm.sf(stats.norm.isf(error_rate / 4) / math.sqrt(share)))


def pocock(share: float, error_rate: float) -> float:
    return error_rate * math.log(1 + (math.e - 1) * share)


def test_boundaries_are_those_that_textbooks_print() -> None:
    """Five equal looks, two-sided 5%: Jennison and Turnbull, "Group sequential methods" (2000), chapter 7."""
    printed = {obrien_fleming: (4.877, 3.357, 2.680, 2.290, 2.031), pocock: (2.438, 2.427, 2.410, 2.397, 2.386)}
    for spend, bounds in printed.items():
        assert boundaries((1, 2, 3, 4, 5), 0.05, spend) == pytest.approx(bounds, abs=6e-4)


def test_boundaries_spend_what_they_may() -> None:
    looks = tuple(range(8, 17))
    bounds = boundaries(looks, 0.05)
    walks = np.random.default_rng(1).normal(size=(100_000, 16)).cumsum(axis=1) / np.sqrt(np.arange(1, 17))
    passed = np.abs(walks[:, 7:]) >= bounds
    for last in (8, 12, 16):
        spent = passed[:, : last - 7].any(axis=1).mean()
        assert spent == pytest.approx(0.05 * (last / 16) ** 2, abs=0.0022)


def test_one_look_is_a_test_at_the_whole_level() -> None:
    assert boundaries((12,), 0.05) == pytest.approx([stats.norm.isf(0.025)])


def test_hall_takes_from_t_what_the_formula_says() -> None:
    values = np.array([1.0, 2.0, 2.5, 4.0, 9.0, 1.5, 2.0, 3.0])
    student, hall = both_t(values)
    ratio, skewness = values.mean() / values.std(ddof=1), float(stats.skew(values, bias=False))
    assert student == pytest.approx(stats.ttest_1samp(values, 0).statistic)
    expected = ratio + skewness * ratio**2 / 3 + skewness**2 * ratio**3 / 27 + skewness / (6 * 8)
    assert hall == pytest.approx(math.sqrt(8) * expected)
    assert smaller_t(np.stack([values, -values])) == pytest.approx([min(student, hall), -min(student, hall)])


def test_the_wealth_is_a_bet_that_is_fair_whatever_the_signs() -> None:
    """Over all patterns of signs the wealth has mean 1: by brute force, at every number of checkpoints."""
    sizes = np.array([0.3, 5.0, 1.0, 2.0, 0.7, 1.1])
    for count in range(1, len(sizes) + 1):
        signs = np.array(list(itertools.product([-1, 1], repeat=count)))
        assert np.exp(log_wealth(signs * sizes[:count])).mean() == pytest.approx(1.0, rel=1e-12)


def test_the_wealth_is_the_mean_over_bets_by_hand() -> None:
    values = [2.0, -1.0, 3.0]
    total = 0.0
    for bet in (*BETS, *(-bet for bet in BETS)):
        wealth = 1.0
        for index, value in enumerate(values):
            scale = math.sqrt(math.fsum(before**2 for before in values[: index + 1]) / (index + 1))
            wealth *= math.exp(bet * value / scale) / math.cosh(bet * value / scale)
        total += wealth / (2 * len(BETS))
    assert math.exp(log_wealth(np.array(values))) == pytest.approx(total)


@pytest.mark.parametrize("null", ["mean", "symmetry"])
def test_a_question_is_answered_where_the_statistic_reaches_the_bound(null: str) -> None:
    plan = Plan(tuple(range(8, 13)), 0.05, null)  # type: ignore[arg-type]
    draws = np.random.default_rng(2)
    answers = []
    for _ in range(30):
        values = draws.gamma(2.0, size=int(draws.integers(8, 13))) - draws.choice([0.0, 1.0, 2.0, 4.0])
        found = look(values, plan)
        assert found.statistic is not None
        assert (found.answer is not None) == (abs(found.statistic) >= found.bound)
        answers.append(found.answer)
        turned = look(-values, plan)
        assert turned.answer == {"above": "below", "below": "above", None: None}[found.answer]
        if found.low is not None and turned.high is not None:
            assert turned.high == pytest.approx(-found.low, rel=1e-9, abs=1e-9)
    assert set(answers) == {"above", "below", None}


@pytest.mark.parametrize("null", ["mean", "symmetry"])
def test_ends_of_the_interval_are_centres_that_are_just_not_rejected(null: str) -> None:
    plan = Plan(tuple(range(8, 13)), 0.05, null)  # type: ignore[arg-type]
    values = np.array([1.0, 2.0, 2.5, 4.0, 9.0, 1.5, 2.0, 3.0])
    found = look(values, plan)
    for end, inside in ((found.low, 1e-6), (found.high, -1e-6)):
        assert end is not None
        assert look(values - (end + inside), plan).answer is None
        assert look(values - (end - inside), plan).answer is not None


def test_means_without_a_spread_answer_nothing() -> None:
    for value in (0.0, 3.0):
        found = look(np.full(8, value), Plan((8,), 0.05, "mean"))
        assert (found.mean, found.statistic, found.low, found.answer) == (value, None, None, None)


def test_eight_checkpoints_of_one_sign_can_not_answer_several_questions() -> None:
    """The wealth of eight equal means is what the cap allows: enough for one question, not for four."""
    values = np.ones(8) + np.arange(8) * 1e-3
    wealth = math.exp(log_wealth(values))
    assert 20 < wealth < 2**7
    assert look(values, Plan((8, 9), 0.05, "symmetry")).answer == "above"
    assert look(values, Plan((8, 9), 0.05 / 4, "symmetry")).answer is None


@pytest.mark.parametrize(("skewness", "most"), [(0.0, 0.042), (2.0, 0.065)])
def test_the_error_over_all_looks_keeps_its_level(skewness: float, most: float) -> None:
    draws, plan = np.random.default_rng(3), Plan(tuple(range(8, 17)), 0.05, "mean")
    shape = (4_000, 16)
    means = draws.normal(size=shape) if skewness == 0 else 1 - draws.gamma(1.0, size=shape)
    answered = np.zeros(len(means), bool)
    for count in plan.looks:
        answered |= np.abs(smaller_t(means[:, :count])) >= critical_value(plan, count)
    assert 0.02 < answered.mean() < most


def test_bets_on_signs_keep_their_level_where_means_are_symmetric() -> None:
    means = np.random.default_rng(4).standard_t(2, size=(4_000, 24))
    answered = np.zeros(len(means), bool)
    for count in range(8, 25):
        answered |= log_wealth(means[:, :count]) >= math.log(20)
    assert answered.mean() < 0.05
