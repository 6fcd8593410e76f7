"""Tests on a handful of checkpoints: against enumeration by hand, and on the means of an earlier study."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from worldfork.analysis.score import intervals, sign_flips, verdicts
from worldfork.analysis.score.intervals import student_t
from worldfork.analysis.score.undefined import Undefined

VALUES = st.lists(st.integers(-1000, 1000), min_size=2, max_size=7).map(lambda x: np.array(x, float))
# Mean dR of walker's five checkpoints at a tenth of the rate, in a study that results/corrected has replaced.
WALKER = np.array([-33.43, -43.16, -28.51, -130.86, -51.26])


def test_student_p_is_scipys():
    assert sign_flips.student_p(WALKER) == pytest.approx(stats.ttest_1samp(WALKER, 0).pvalue)


@given(VALUES)
def test_sign_flips_list_every_pattern(values):
    means = [abs(np.mean(np.array(signs) * values)) for signs in itertools.product([-1, 1], repeat=len(values))]
    expected = np.mean([mean >= abs(values.mean()) - 1e-9 for mean in means])
    for seed in (0, 1):  # exact: the seed has no part in it
        assert sign_flips.sign_flip_p(values, seed=seed, task="") == pytest.approx(expected)
    assert sign_flips.sign_flip_p(-3 * values, seed=0, task="") == pytest.approx(expected)


@pytest.mark.parametrize("count", [2, 5, 9, 16])
def test_the_least_sign_flip_p_is_two_of_all_patterns(count):
    """Five checkpoints can not reach .05, however large and alike their effects."""
    assert sign_flips.sign_flip_p(np.arange(1.0, count + 1), seed=0, task="") == 2.0 ** (1 - count)


def test_random_sign_flips_beyond_sixteen_agree_with_all_of_them():
    values = np.random.default_rng(0).normal(0.4, 1, 18)
    drawn = sign_flips.sign_flip_p(values, seed=0, task="a")
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums + value, sums - value])
    exact = float((np.abs(sums) >= abs(values.sum()) - 1e-9).mean())
    assert drawn == pytest.approx(exact, abs=4 * np.sqrt(exact / 100_000))
    assert drawn == sign_flips.sign_flip_p(values, seed=0, task="a")
    assert drawn != sign_flips.sign_flip_p(values, seed=1, task="a")


@pytest.mark.parametrize("values", [WALKER[:3], np.array([1.0, 2.0, -0.5]), np.array([3.0, 3.0, 3.0])])
def test_the_wild_bootstrap_lists_every_weight(values):
    weights = [-np.sqrt(1.5), -1, -np.sqrt(0.5), np.sqrt(0.5), 1, np.sqrt(1.5)]

    def distance(sample):
        spread = np.std(sample, ddof=1)
        return np.inf if spread < 1e-9 else abs(np.mean(sample)) / spread

    samples = [distance(np.array(drawn) * values) for drawn in itertools.product(weights, repeat=3)]
    expected = np.mean([one >= distance(values) * (1 - 1e-9) for one in samples])
    assert sign_flips.wild_p(values, seed=0, task="") == pytest.approx(expected)


def test_the_wild_bootstrap_is_for_few_clusters():
    values = np.random.default_rng(1).normal(size=11)
    assert 0 < sign_flips.wild_p(values, seed=0, task="") <= 1
    assert "2 to 11" in sign_flips.wild_p(np.append(values, 0.3), seed=0, task="").why


def test_no_effect_at_all_is_never_significant():
    """The null mechanism: dR is exactly 0 in every fork."""
    zeros = np.zeros(6)
    assert sign_flips.student_p(zeros) == 1.0
    assert sign_flips.sign_flip_p(zeros, seed=0, task="") == 1.0
    assert sign_flips.wild_p(zeros, seed=0, task="") == 1.0
    assert verdicts.grade_of(zeros, adjusted_student_p=1.0, adjusted_sign_flip_p=1.0) == "unresolved"
    assert isinstance(verdicts.more_checkpoints(zeros, family=1), Undefined)


def test_walkers_harm_at_the_gentle_rate_is_leaning_not_resolved():
    """[-109.6, -5.3] excludes 0; the sign flips can not, and without any of four checkpoints it would not."""
    assert sign_flips.student_p(WALKER) == pytest.approx(0.038, abs=0.001)
    flips = sign_flips.sign_flip_p(WALKER, seed=0, task="")
    assert flips == 0.0625
    left_out = intervals.leave_one_out(WALKER, "01234")
    assert left_out.crosses == ("0", "1", "2", "4")
    assert left_out.low < -5.3 < left_out.high
    grade = verdicts.grade_of(WALKER, adjusted_student_p=0.038, adjusted_sign_flip_p=flips)
    assert grade == "leaning"
    assert verdicts.more_checkpoints(WALKER, family=6) == 3


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_an_interval_that_just_reaches_zero_crosses_it(sign):
    values = sign * np.array([0.9, 1.0, 1.3, 2.2])
    ends = [min(sign * end for end in student_t(np.delete(values, index))) for index in range(4)]
    assert -1.0 < min(ends) < 0.0 < max(ends)
    crossing = tuple(name for name, end in zip("abcd", ends, strict=True) if end <= 0)
    assert intervals.leave_one_out(values, "abcd").crosses == crossing


def test_of_a_mean_of_zero_the_upper_end_is_followed():
    values = np.array([-2.0, -1.0, 1.0, 2.0])
    ends = [student_t(np.delete(values, index)).high for index in range(4)]
    found = intervals.leave_one_out(values, "abcd")
    assert (found.low, found.high) == (pytest.approx(min(ends)), pytest.approx(max(ends)))


@pytest.mark.parametrize(
    ("values", "adjusted", "grade"),
    [
        (np.arange(1.0, 9), (0.04, 0.04), "resolved"),
        (-np.arange(1.0, 9), (0.04, 0.04), "resolved"),
        (np.arange(1.0, 9), (0.06, 0.04), "leaning"),
        (np.arange(1.0, 9), (0.04, 0.06), "leaning"),
        (np.arange(1.0, 9), (0.04, Undefined("not computed")), "leaning"),
        (np.arange(-4.0, 5), (0.04, 0.04), "unresolved"),
    ],
)
def test_grades(values, adjusted, grade):
    student, flips = adjusted
    assert verdicts.grade_of(values, adjusted_student_p=student, adjusted_sign_flip_p=flips) == grade


def test_more_checkpoints_are_enough_and_one_less_is_not():
    """Checked by building the larger sample: the same mean and spread, so many more of them."""
    values = np.array([10.0, 40.0, -5.0, 30.0, 60.0, 12.0])
    for family in (1, 6, 60):
        total = len(values) + verdicts.more_checkpoints(values, family=family)
        for count, resolved in ((total, True), (total - 1, False)):
            shape = np.linspace(-1, 1, count)
            larger = values.mean() + shape * values.std(ddof=1) / shape.std(ddof=1)
            least = family * max(sign_flips.student_p(larger), 2.0 ** (1 - count))
            assert (least < 0.05) == resolved
    assert isinstance(verdicts.more_checkpoints(np.array([5.0, 5.0, 5.0]), family=1), Undefined)  # no spread
    assert "10,000" in verdicts.more_checkpoints(np.array([1.0, -1.0, 1e-6]), family=1).why


def test_one_checkpoint_has_no_test():
    alone = np.array([3.0])
    for figure in (
        sign_flips.student_p(alone),
        sign_flips.sign_flip_p(alone, seed=0, task=""),
        sign_flips.wild_p(alone, seed=0, task=""),
        verdicts.grade_of(alone, adjusted_student_p=0.0, adjusted_sign_flip_p=0.0),
        intervals.leave_one_out(np.array([1.0, 2.0]), "ab"),
        verdicts.more_checkpoints(alone, family=1),
    ):
        assert isinstance(figure, Undefined)
