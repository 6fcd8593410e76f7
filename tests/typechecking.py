"""Annotations are executed in tests: plain types by beartype, and the axes of arrays by jaxtyping.

To check every call takes two fifths of the time of all tests, and a loop over the steps of an episode calls the
same functions with the same shapes again. So of each function the first calls in a test are checked, and of the
later ones one in a few. A function is decorated when it is first called, as many never are; one that is defined
anew by every call of another one is checked where it is defined for the first time in a test.

To know which axes have one name, jaxtyping keeps a memory for every call, and that costs far more than the check.
Where no annotation of a function names an array there is nothing to remember: beartype alone checks it.
"""

import dataclasses
import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

import jaxtyping

__all__ = ["FIRST", "ONE_IN", "begin_a_test", "check_annotations_of_what_is_imported"]

FIRST = 4  # calls of a function that are checked in every test
ONE_IN = 32  # of the calls after those

Decorator = Callable[[Any], Any]


class _Test:
    """The test that is running: another object for each."""

    def __init__(self) -> None:
        self.defined: set[types.CodeType] = set()


_running = _Test()


def begin_a_test() -> None:
    """Counting begins anew, so that what is checked in a test does not depend on the tests before it."""
    global _running
    _running = _Test()


def check_annotations_of_what_is_imported() -> None:
    """From here on. jaxtyping's import hook looks its decorator up by this name."""
    with_axes = jaxtyping.jaxtyped

    def jaxtyped(*decorated: Any, typechecker: Decorator | None) -> Any:
        if decorated or typechecker is None:
            return with_axes(*decorated, typechecker=typechecker)

        def decorate(target: Any) -> Any:
            if isinstance(target, types.FunctionType):
                checking = functools.partial(_checking, target, typechecker=typechecker, with_axes=with_axes)
                sampled = _defined_anew if "<locals>" in target.__qualname__ else _sampled
                return sampled(target, checking)
            if inspect.isclass(target) and dataclasses.is_dataclass(target):
                return _dataclass(target, functools.partial(with_axes, typechecker=typechecker))
            return with_axes(typechecker=typechecker)(target)

        return decorate

    jaxtyping.jaxtyped = jaxtyped  # type: ignore[assignment]


def _sampled(function: Callable[..., Any], checking: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    """The function, with some of its calls checked."""
    checked: Callable[..., Any] | None = None
    test, calls = _running, 0

    @functools.wraps(function)
    def called(*arguments: Any, **named: Any) -> Any:
        __tracebackhide__ = True
        nonlocal checked, test, calls
        if test is not _running:
            test, calls = _running, 0
        calls += 1
        if calls > FIRST and calls % ONE_IN:
            return function(*arguments, **named)
        if checked is None:
            checked = checking()
        return checked(*arguments, **named)

    # Whoever looks for the author of a mistake in a traceback finds jaxtyping here, and passes over it.
    called.__code__ = called.__code__.replace(co_filename=jaxtyping.__file__)
    return called


def _defined_anew(function: types.FunctionType, checking: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    """A function inside another one. It is decorated at once, where the names that it refers to can be found."""
    if function.__code__ in _running.defined:
        return function
    _running.defined.add(function.__code__)
    checked = checking()
    return _sampled(function, lambda: checked)


def _dataclass(target: type, decorator: Decorator) -> type:
    """A dataclass whose fields are checked when an instance is made."""
    plain = vars(target).get("__init__")
    if isinstance(plain, types.FunctionType):
        target.__init__ = _sampled(plain, lambda: decorator(plain))  # type: ignore[misc]
    return target


def _checking(function: types.FunctionType, *, typechecker: Decorator, with_axes: Decorator) -> Callable[..., Any]:
    if _names_arrays(function):
        return with_axes(typechecker=typechecker)(function)  # type: ignore[call-arg, no-any-return]
    return typechecker(function)  # type: ignore[no-any-return]


def _names_arrays(function: types.FunctionType) -> bool:
    """Whether an annotation names an array, or something that can not be known yet."""
    annotations = function.__annotations__.values()
    return any(
        isinstance(one, str) or "jaxtyping." in repr(one) or "ForwardRef" in repr(one) for one in annotations
    )
