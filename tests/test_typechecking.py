"""That annotations are executed: a wrong type and a wrong shape are refused, whoever checks them."""

from collections.abc import Callable
from typing import Any

import jaxtyping
import numpy as np
import pytest
from beartype import beartype
from beartype.roar import BeartypeCallHintParamViolation
from jaxtyping import TypeCheckError
from typechecking import FIRST, ONE_IN, begin_a_test

from worldfork.counting import plural
from worldfork.lab.agents.base import Window
from worldfork.randomness import fold_in

WRONG = np.zeros((2, 3), np.uint32), np.arange(2)
RIGHT = np.zeros((2, 2), np.uint32), np.arange(2)


def test_a_wrong_type_is_refused_where_no_array_is_named() -> None:
    with pytest.raises(BeartypeCallHintParamViolation):
        plural("one", "fork")  # type: ignore[arg-type]


def test_axes_of_one_name_are_compared_where_arrays_are() -> None:
    with pytest.raises(TypeCheckError):
        fold_in(*WRONG)


def test_the_fields_of_a_dataclass_are_checked() -> None:
    with pytest.raises(TypeCheckError):
        Window(*(np.zeros(shape) for shape in [(1, 2, 3)] * 6))  # type: ignore[call-arg]


def test_the_first_calls_in_a_test_are_checked_and_then_one_in_a_few() -> None:
    for _ in range(2):
        begin_a_test()
        for _ in range(FIRST - 1):
            fold_in(*RIGHT)
        with pytest.raises(TypeCheckError):
            fold_in(*WRONG)
        for _ in range(10 * ONE_IN - FIRST - 1):
            fold_in(*RIGHT)
        with pytest.raises(TypeCheckError):
            fold_in(*WRONG)


def test_a_function_inside_another_is_checked_where_a_test_defines_it_first() -> None:
    def define() -> Callable[[Any], int]:
        @jaxtyping.jaxtyped(typechecker=beartype)
        def inside(number: int) -> int:
            return number

        return inside

    for _ in range(2):
        begin_a_test()
        with pytest.raises(BeartypeCallHintParamViolation):
            define()("one")
        assert define()("one") == "one"  # type: ignore[comparison-overlap]
