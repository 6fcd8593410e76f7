"""The soft indicators against dm_control's, value for value."""

import os

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

os.environ.setdefault("MUJOCO_GL", "disabled")

from dm_control.utils.rewards import tolerance

from worldfork.lab.environments.suite import beyond, gaussian, linear, quadratic

values = arrays.arrays(np.float64, st.integers(1, 20), elements=st.floats(-100, 100))
close = {"rtol": 0, "atol": 1e-15}


@given(values)
def test_gaussian(value: np.ndarray) -> None:
    expected = tolerance(value, bounds=(1.2, float("inf")), margin=0.6)
    np.testing.assert_allclose(gaussian(beyond(value, lower=1.2, margin=0.6)), expected, **close)


@given(values)
def test_linear(value: np.ndarray) -> None:
    expected = tolerance(value, bounds=(1.0, 3.0), margin=0.5, value_at_margin=0.5, sigmoid="linear")
    np.testing.assert_allclose(
        linear(beyond(value, lower=1.0, upper=3.0, margin=0.5), at_one=0.5), expected, **close
    )


@given(values)
def test_quadratic(value: np.ndarray) -> None:
    expected = tolerance(value, margin=1, value_at_margin=0, sigmoid="quadratic")
    np.testing.assert_allclose(quadratic(np.abs(value)), expected, **close)


def test_inside_the_bounds_the_value_is_one() -> None:
    inside = beyond(np.array([1.0, 2.0, 3.0]), lower=1.0, upper=3.0)
    for shape in (gaussian(inside), linear(inside, at_one=0.5), quadratic(inside)):
        assert (shape == 1.0).all()
