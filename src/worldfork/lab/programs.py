"""Compiled functions that can be compiled before they are called (`worldfork.lab.ahead`)."""

import functools
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import jax

from worldfork.lab.ahead import blank, compiling

Answer = TypeVar("Answer")


class Program(Generic[Answer]):
    """What `jax.jit` makes of a function: compiled for every shape and static argument that it meets.

    A thread that is only compiling gets zeros of the right shapes, and the next call finds the program.
    """

    def __init__(self, function: Callable[..., Answer], **options: Any) -> None:
        functools.update_wrapper(self, function)
        self.jitted = jax.jit(function, **options)

    def __call__(self, *args: Any, **kwargs: Any) -> Answer:
        if not compiling():
            return self.jitted(*args, **kwargs)
        lowered = self.jitted.lower(*args, **kwargs)
        lowered.compile()
        answer: Answer = jax.tree.map(lambda leaf: blank(leaf.shape, leaf.dtype), lowered.out_info)
        return answer


def program(**options: Any) -> Callable[[Callable[..., Answer]], Program[Answer]]:
    """Make a function a `Program`; the options are those of `jax.jit`."""
    return lambda function: Program(function, **options)
