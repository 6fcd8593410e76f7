"""Values that differ by rounding alone are one value.

A level reached as `t / P` and as `1 - t / P` can differ in its last bit. Nothing may be read out of that: no
threshold lies between such values, and no ranking puts one above the other.
"""

from typing import Final

import numpy as np
from jaxtyping import Bool, Float

__all__ = ["ROUNDING", "rises", "tied"]

ROUNDING: Final = 1e-9  # relative: what is nearer than this is equal


def tied(values: Float[np.ndarray, "values"]) -> Float[np.ndarray, "values"]:
    """The same values, with all that are equal but for rounding replaced by the smallest of them; NaN stays NaN.

    >>> tied(np.array([0.3, 0.1 + 0.2, 0.4])).tolist()
    [0.3, 0.3, 0.4]
    """
    known = np.flatnonzero(~np.isnan(values))
    order = known[np.argsort(values[known], kind="stable")]
    first = np.flatnonzero(rises(values[order]))
    found = values.copy()
    found[order] = np.repeat(values[order][first], np.diff(np.r_[first, len(order)]))
    return found


def rises(ascending: Float[np.ndarray, "values"]) -> Bool[np.ndarray, "values"]:
    """Where a value in ascending order exceeds the one before it by more than rounding; the first one does."""
    below, above = ascending[:-1], ascending[1:]
    # Infinities are equal to themselves: their difference would be undefined.
    with np.errstate(invalid="ignore"):
        gap = np.where(below == above, 0.0, above - below)
    size = np.maximum(np.abs(below), np.abs(above))
    apart = gap > ROUNDING * np.where(np.isinf(size), 0.0, size)
    return np.r_[True, apart][: len(ascending)]
