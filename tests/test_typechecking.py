"""That annotations are executed: a wrong type and a wrong shape are refused, whoever checks them."""

import numpy as np
import pytest
from beartype.roar import BeartypeCallHintParamViolation
from jaxtyping import TypeCheckError

from worldfork.counting import plural
from worldfork.randomness import fold_in


def test_a_wrong_type_is_refused_where_no_array_is_named() -> None:
    with pytest.raises(BeartypeCallHintParamViolation):
        plural("one", "fork")  # type: ignore[arg-type]


def test_axes_of_one_name_are_compared_where_arrays_are() -> None:
    with pytest.raises(TypeCheckError):
        fold_in(np.zeros((2, 3), np.uint32), np.arange(2))
