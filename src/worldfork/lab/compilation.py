"""Compiled programs: kept on disk for the next process, and compiled ahead of their first call."""

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

import jax

from worldfork.lab.ahead import blank, compiling


def keep_compiled() -> None:
    """Tell JAX where compiled programs are kept; whoever has told it already is not contradicted."""
    if "JAX_COMPILATION_CACHE_DIR" in os.environ or os.environ.get("WORLDFORK_COMPILED", "on").lower() == "off":
        return
    folder = place()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:  # no home to write to: compile every time
        return
    if not os.access(folder, os.W_OK):
        return
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)  # worker processes inherit it
    if (jax := sys.modules.get("jax")) is not None and jax.config.jax_compilation_cache_dir is None:
        jax.config.update("jax_compilation_cache_dir", str(folder))  # it has read its environment already


def place() -> Path:
    """The folder of the compiled programs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "worldfork" / "compiled"


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
