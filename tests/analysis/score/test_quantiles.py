"""The middle 95% against numpy's own, to the last bit."""

import numpy as np
import pytest

from worldfork.analysis.score.numerics import middle_95


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 39, 40, 41, 120, 999, 20_000])
@pytest.mark.parametrize("kind", ["continuous", "tied"])
def test_the_ends_are_numpys(count, kind):
    draws = np.random.default_rng(count)
    values = draws.normal(size=(3, count)) if kind == "continuous" else draws.integers(0, 3, (3, count)) / 10
    assert middle_95(values).tolist() == np.quantile(values, [0.025, 0.975], axis=-1).tolist()
    assert middle_95(values[0]).tolist() == np.quantile(values[0], [0.025, 0.975]).tolist()


def test_draws_are_left_as_they_are():
    values = np.array([3.0, 1.0, 2.0])
    middle_95(values)
    assert values.tolist() == [3.0, 1.0, 2.0]


def test_a_draw_that_is_no_number_leaves_both_ends_undefined():
    values = np.array([[1.0, np.nan, 3.0], [1.0, 2.0, 3.0]])
    assert np.isnan(middle_95(values)).tolist() == [[True, False], [True, False]]
    assert np.isnan(middle_95(values[0])).all()
