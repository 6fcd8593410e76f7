"""Lines whose clusters are checkpoints: against refitting by hand."""

import itertools

import numpy as np
import pytest
from scipy import stats

from worldfork.analysis.score import contraction
from worldfork.analysis.score.undefined import Undefined


def world(checkpoints=4, forks=6, seed=0):
    """Returns around 600 with a slope near .3 and a crossing near 500."""
    draws = np.random.default_rng(seed)
    checkpoint = np.repeat(np.arange(checkpoints), forks)
    x = 600 + draws.normal(0, 80, len(checkpoint))
    return x, 350 + 0.3 * x + draws.normal(0, 20, checkpoints)[checkpoint] + draws.normal(0, 10, len(x)), checkpoint


def fitted(x, y):
    slope, intercept = np.polyfit(x, y, 1)
    return slope, intercept / (1 - slope), y.var() / x.var()


def test_the_fit_and_every_resample_of_checkpoints():
    x, y, checkpoint = world()
    found = contraction.line(x, y, checkpoint, seed=0, task="")
    for figure, value in zip((found.slope, found.crossing, found.variance_ratio), fitted(x, y), strict=True):
        assert figure.value == pytest.approx(value)
        assert figure.clusters == 4
    refits = []
    for chosen in itertools.product(range(4), repeat=4):
        rows = np.concatenate([np.flatnonzero(checkpoint == one) for one in chosen])
        refits.append(fitted(x[rows], y[rows]))
    for figure, values in zip(
        (found.slope, found.crossing, found.variance_ratio), zip(*refits, strict=True), strict=True
    ):
        assert figure.bootstrap == pytest.approx(tuple(np.quantile(values, [0.025, 0.975])))


def test_the_jackknife_leaves_out_whole_checkpoints():
    x, y, checkpoint = world()
    slope = np.polyfit(x, y, 1)[0]
    without = [np.polyfit(x[checkpoint != one], y[checkpoint != one], 1)[0] for one in range(4)]
    half = stats.t.ppf(0.975, 3) * np.sqrt(3 / 4 * ((np.array(without) - slope) ** 2).sum())
    found = contraction.line(x, y, checkpoint, seed=0, task="").slope
    assert found.student_t == pytest.approx((slope - half, slope + half))


def test_checkpoints_that_move_together_are_not_many_observations():
    """Two hundred forks of three checkpoints that differ: cells taken for independent would shrink the interval."""
    x, y, checkpoint = world(checkpoints=3, forks=200, seed=3)
    few = contraction.line(x, y, checkpoint, seed=0, task="").crossing
    many = contraction.line(x, y, np.arange(600), seed=0, task="").crossing
    assert few.student_t[1] - few.student_t[0] > 3 * (many.student_t[1] - many.student_t[0])


def test_fiellers_ends_are_where_the_fitted_difference_is_just_distinguishable():
    x, y, checkpoint = world(checkpoints=6)
    low, high = contraction.line(x, y, checkpoint, seed=0, task="").crossing.student_t
    for end in (low, high):
        at_end = np.polyval(np.polyfit(x, y - x, 1), end)
        without = [
            np.polyval(np.polyfit(x[checkpoint != one], (y - x)[checkpoint != one], 1), end) for one in range(6)
        ]
        error = np.sqrt(5 / 6 * ((np.array(without) - at_end) ** 2).sum())
        assert abs(at_end) / error == pytest.approx(stats.t.ppf(0.975, 5))


def test_a_slope_of_one_crosses_nowhere():
    x, _, checkpoint = world()
    beside = contraction.line(x, x + 5, checkpoint, seed=0, task="")
    assert isinstance(beside.crossing.value, Undefined)
    noisy = x + np.random.default_rng(1).normal(0, 100, len(x))
    assert "may lie anywhere" in contraction.line(x, noisy, checkpoint, seed=0, task="").crossing.student_t.why


def test_at_a_fixed_place_what_all_checkpoints_share_is_gone():
    """dR falls with what the place does to everyone, and rises with what the checkpoint does: opposite slopes."""
    draws = np.random.default_rng(0)
    checkpoint, place = (axis.ravel() for axis in np.indices((5, 12)))
    shared, personal = draws.normal(0, 100, 12)[place], draws.normal(0, 10, 60)
    x, y = 500 + shared + personal, 500 + 0.1 * shared + 0.9 * personal
    assert contraction.line(x, y, checkpoint, seed=0, task="").slope.value == pytest.approx(0.1, abs=0.05)
    found = contraction.within(x, y, place, checkpoint)
    assert found.value == pytest.approx(0.9)
    assert found.student_t == pytest.approx((0.9, 0.9))
    alone = contraction.within(x[:12], y[:12], place[:12], checkpoint[:12])
    assert isinstance(alone.value, Undefined)


def test_one_return_everywhere_has_no_slope():
    found = contraction.line(np.full(6, 5.0), np.arange(6.0), np.repeat([0, 1, 2], 2), seed=0, task="")
    assert isinstance(found.slope.value, Undefined)
    two = contraction.line(np.arange(4.0), np.arange(4.0) * 0.5, np.array([0, 0, 1, 1]), seed=0, task="")
    assert "at least three" in two.slope.student_t.why
