"""A module that the agent imports and the registration does not name: its source counts all the same."""

import numpy as np

TARGET = 1.0


def nearest(drawn: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Of the candidates along the last axis, the one whose prediction is nearest to the target."""
    best = np.argmin(np.abs(predicted - TARGET), axis=-1)
    return np.take_along_axis(drawn, best[..., None], axis=-1)[..., 0]
