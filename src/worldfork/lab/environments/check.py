"""Checks of what an environment is given. Each returns the value in the form used inside, or says what is wrong."""

import math

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from worldfork.errors import WorldforkError
from worldfork.lab.environments.base import State

# Named by what they check, and always read as check.action(...): no other module should have these names bare.

Given = Shaped[np.ndarray, "..."]


def seeds(given: Given) -> Int64[np.ndarray, " B"]:
    """Return one seed per world, integers in [0, 2**32) as NumPy's generator takes them."""
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise WorldforkError(f"`seeds` must be a one-dimensional array of integers; got {_describe(given)}.")
    if given.size and (given.min() < 0 or given.max() >= 2**32):
        raise WorldforkError(
            f"`seeds` must lie in [0, 2**32); got {given.min()} to {given.max()}. "
            "worldfork.randomness.seed gives such."
        )
    return given.astype(np.int64)


def action(given: Given, shape: tuple[int, int], *, bound: float = 1.0) -> Float64[np.ndarray, "B A"]:
    """Return finite actions in [-bound, bound]. They are not clipped: the caller decides what is executed."""
    if given.shape != shape or given.dtype.kind != "f":
        raise WorldforkError(f"`action` must be floating point with shape {shape}; got {_describe(given)}.")
    allowed = np.isfinite(given) & (np.abs(given) <= bound)
    if not allowed.all():
        worlds = np.flatnonzero(~allowed.all(axis=1))
        clip = f" Clip them first: np.clip(action, -{bound:g}, {bound:g})." if math.isfinite(bound) else ""
        raise WorldforkError(
            f"Actions must be finite and in [-{bound:g}, {bound:g}]; got {given[worlds[0]].tolist()} in world "
            f"{worlds[0]} ({len(worlds)} of {len(given)} worlds).{clip}"
        )
    return given.astype(np.float64)


def level(given: float | Given, batch: int) -> Float64[np.ndarray, " B"]:
    """Return one drift level in [0, 1] per world, from one for all or one each."""
    levels = np.asarray(given)
    if levels.dtype.kind not in "fiu" or levels.shape not in ((), (batch,)):
        raise WorldforkError(f"`level` must be one number, or one per world ({batch}); got {_describe(levels)}.")
    if not ((levels >= 0.0) & (levels <= 1.0)).all():
        raise WorldforkError(f"`level` must lie in [0, 1]; got {levels.min()} to {levels.max()}.")
    return levels.astype(np.float64) if levels.ndim else np.full(batch, levels, np.float64)


def scale(given: float) -> float:
    """Return the factor that level 1 stands for: finite, zero or more."""
    if not (math.isfinite(given) and given >= 0.0):
        raise WorldforkError(
            f"`scale` is what level 1 multiplies the drifting parameter by: finite, zero or more; got {given}."
        )
    return given


def state(given: State, *, physics_size: int, observation_size: int) -> None:
    """Refuse a state of another task, which has other sizes."""
    expected = {
        "physics": ((len(given), physics_size), np.dtype(np.float64)),
        "observation": ((len(given), observation_size), np.dtype(np.float64)),
        "unstable": ((len(given),), np.dtype(np.bool_)),
    }
    for name, (shape, dtype) in expected.items():
        array = getattr(given, name)
        if array.shape != shape or array.dtype != dtype:
            raise WorldforkError(
                f"`state.{name}` must be {dtype} with shape {shape}; got {_describe(array)}. "
                "Was it made by another task?"
            )


def _describe(array: Given) -> str:
    return f"{array.dtype} with shape {array.shape}"
