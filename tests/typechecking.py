"""Annotations are executed in tests: plain types by beartype, and the axes of arrays by jaxtyping.

To know which axes have one name, jaxtyping keeps a memory for every call, and that costs far more than the check.
Where no annotation of a function names an array there is nothing to remember: beartype alone checks it.
"""

import types
from collections.abc import Callable
from typing import Any

import jaxtyping

__all__ = ["remember_axes_only_where_there_are_any"]

Decorator = Callable[[Any], Any]


def remember_axes_only_where_there_are_any() -> None:
    """Of whatever is imported from here on. jaxtyping's import hook looks its decorator up by this name."""
    with_axes = jaxtyping.jaxtyped

    def jaxtyped(*decorated: Any, typechecker: Decorator | None) -> Any:
        if decorated or typechecker is None:
            return with_axes(*decorated, typechecker=typechecker)

        def decorate(function: Any) -> Any:
            if isinstance(function, types.FunctionType) and not _names_arrays(function):
                return typechecker(function)
            return with_axes(typechecker=typechecker)(function)

        return decorate

    jaxtyping.jaxtyped = jaxtyped  # type: ignore[assignment]


def _names_arrays(function: types.FunctionType) -> bool:
    """Whether an annotation names an array, or something that can not be known yet."""
    annotations = function.__annotations__.values()
    return any(
        isinstance(one, str) or "jaxtyping." in repr(one) or "ForwardRef" in repr(one) for one in annotations
    )
