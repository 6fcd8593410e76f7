"""Soft indicators from which the Control Suite builds its rewards (Tassa et al., "DeepMind Control Suite", 2018).

A quantity inside its bounds is worth 1. Outside, the distance to the nearest bound, in units of a margin, goes
through a falling shape whose value at distance 1 is given.
"""

import math

import numpy as np
from jaxtyping import Float64

__all__ = ["beyond", "gaussian", "linear", "quadratic"]

Values = Float64[np.ndarray, "*n"]


def beyond(value: Values, *, lower: float, upper: float = math.inf, margin: float = 1.0) -> Values:
    """How far `value` is outside [lower, upper], in margins; 0 inside."""
    return np.maximum(np.maximum(lower - value, value - upper), 0.0) / margin


def gaussian(distance: Values, *, at_one: float = 0.1) -> Values:
    return np.exp(-0.5 * (distance * math.sqrt(-2.0 * math.log(at_one))) ** 2)


def linear(distance: Values, *, at_one: float) -> Values:
    return np.maximum(1.0 - distance * (1.0 - at_one), 0.0)


def quadratic(distance: Values) -> Values:
    """Falls to 0 at distance 1."""
    return np.maximum(1.0 - distance**2, 0.0)
