"""Handling dictionaries of arrays with a leading axis P, in whatever library the arrays belong to.

Anything with the array API's `__array_namespace__` (NumPy, JAX) stays where it is: nothing is copied to the host to
be indexed or joined. An agent of another framework keeps its parameters as NumPy arrays at this boundary.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int

from worldfork.errors import WorldforkError
from worldfork.lab.agents.base import Arrays
from worldfork.ledger.arrays import content_digest


def size(arrays: Arrays) -> int:
    """Return P, the number of parameter sets."""
    return next((len(array) for array in arrays.values()), 0)


def take(arrays: Arrays, index: Int[np.ndarray, " p"]) -> dict[str, Any]:
    """Return the parameter sets at `index`."""
    return {name: array[index] for name, array in arrays.items()}


def concatenate(parts: Sequence[Arrays]) -> dict[str, Any]:
    """Join several dictionaries along P."""
    names = parts[0].keys()
    return {name: parts[0][name].__array_namespace__().concat([part[name] for part in parts]) for name in names}


def choose(chosen: Bool[np.ndarray, " P"], yes: Arrays, no: Arrays) -> dict[str, Any]:
    """Take each parameter set from `yes` where it is chosen, else from `no`."""

    def pick(array: Any, other: Any) -> Any:
        return array.__array_namespace__().where(chosen.reshape(-1, *[1] * (array.ndim - 1)), array, other)

    return {name: pick(array, no[name]) for name, array in yes.items()}


def begun(before: Any, fresh: Any, where: Any) -> Any:
    """Return a belief, with the episodes in `where` [P, E] as they are in `fresh`: records, containers and
    dictionaries of arrays with leading axes P and E. What has other axes belongs to no episode, and stays."""
    if dataclasses.is_dataclass(before) and not isinstance(before, type):
        parts = {field.name: getattr(before, field.name) for field in dataclasses.fields(before)}
        return type(before)(**{name: begun(part, getattr(fresh, name), where) for name, part in parts.items()})
    if isinstance(before, Mapping):
        return {name: begun(part, fresh[name], where) for name, part in before.items()}
    if isinstance(before, list | tuple):
        parts_of = [begun(part, other, where) for part, other in zip(before, fresh, strict=True)]
        return type(before)(*parts_of) if hasattr(before, "_fields") else type(before)(parts_of)
    if np.shape(before)[:2] != where.shape:
        return before
    if not hasattr(before, "__array_namespace__"):
        raise WorldforkError(
            f"A belief holds a {type(before).__name__}, which can not be begun anew episode by episode: keep "
            "arrays of NumPy or JAX in it, or say in `begin_again` how it is done."
        )
    return before.__array_namespace__().where(where.reshape(*where.shape, *[1] * (before.ndim - 2)), fresh, before)


def shift(before: Arrays, after: Arrays) -> Float64[np.ndarray, " P"]:
    """Return the Euclidean norm of the change of each parameter set."""
    squares = np.zeros(size(before))
    for name in sorted(before):
        old, new = np.asarray(before[name]), np.asarray(after[name])
        # One set at a time: how a sum is rounded must not depend on how many sets there are. It also stays within
        # the processor's cache.
        with np.errstate(over="ignore", invalid="ignore"):
            moved = (np.subtract(new[p], old[p], dtype=np.float64) for p in range(len(squares)))
            squares += [np.sum(np.square(change)) for change in moved]
    return np.sqrt(squares)


def count_non_finite(arrays: Arrays) -> Int[np.ndarray, " P"]:
    """Count the numbers of each parameter set that are not finite."""
    counts = np.zeros(size(arrays), np.int64)
    for array in arrays.values():
        values = np.asarray(array)
        counts += np.sum(~np.isfinite(values), axis=tuple(range(1, values.ndim)), dtype=np.int64)
    return counts


digest = content_digest  # a checkpoint's, of its arrays
