"""Upward changes of the error (Page, 1954, "Continuous inspection schemes")."""

import dataclasses
import math

import numpy as np
from jaxtyping import Float
from pydantic import Field

from worldfork.randomness import Event
from worldfork.triggers.base import CellKey, Detector

FORGETTING, FEWEST = 0.9999, 30  # as in river: what of the past stays, and errors before it may alarm


@dataclasses.dataclass(frozen=True)
class _Climb:
    """The height that the errors have climbed since the last alarm, and their unit once there is one."""

    measure: tuple[float, float] | None = None  # centre and scale
    count: float = 0.0
    mean: float = 0.0
    height: float = 0.0
    lowest: float = math.inf


class PageHinkley(Detector):
    """Page-Hinkley with river's alarms (a test holds them against each other), and its recursion written out.

    The threshold has the unit of the data, so the error is measured in standard deviations of the first segment
    that has finite errors: all of it precedes the first decision that could use it.

    Args:
        delta: the increase at each step that is no change.
        threshold: the height above the lowest point that is an alarm.

    >>> trigger = PageHinkley(threshold=20.0)
    """

    delta: float = Field(default=0.005, ge=0)
    threshold: float = Field(default=50.0, gt=0)

    def begin(self, cell: CellKey, *, event: Event) -> _Climb:
        return _Climb()

    def show(self, memory: _Climb, errors: Float[np.ndarray, "shown"]) -> tuple[_Climb, bool]:
        if not len(errors):
            return memory, False
        centre, scale = memory.measure or (float(errors.mean()), float(errors.std()) or 1.0)
        count, mean, height, lowest = memory.count, memory.mean, memory.height, memory.lowest
        delta, threshold, alarmed = self.delta, self.threshold, False
        for error in ((errors - centre) / scale).tolist():
            count += 1.0
            mean += (1.0 / count) * (error - mean)
            height = FORGETTING * height + (error - mean) - delta
            if height < lowest:
                lowest = height
            if count >= FEWEST and height - lowest > threshold:
                alarmed, count, mean, height, lowest = True, 0.0, 0.0, 0.0, math.inf
        return _Climb((centre, scale), count, mean, height, lowest), alarmed
