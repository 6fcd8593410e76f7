"""Change detectors over the error of every step: each fires at a decision point if it alarmed within the segment.

ADWIN and Page-Hinkley are river's. An error that is not finite has no size to compare: a detector is not shown it.
"""

import abc
import collections
import dataclasses
import functools
import itertools
import random
import warnings
from bisect import bisect_right
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from pydantic import Field

from worldfork.randomness import Event, seed
from worldfork.triggers.base import CellKey, Segment, Trigger

__all__ = ["Adwin", "Detector", "Kswin", "PageHinkley"]


class Detector(Trigger):
    """Shown the finite errors of one segment after the other."""

    needs: ClassVar = ("error",)

    @abc.abstractmethod
    def show(self, memory: Any, errors: Float[np.ndarray, "shown"]) -> tuple[Any, bool]:
        """The memory to go on with, and whether there was an alarm at any of these steps."""

    def decide(self, memory: Any, segment: Segment) -> tuple[Any, bool]:
        errors = segment.steps["error"]
        return self.show(memory, errors[np.isfinite(errors)])


class Adwin(Detector):
    """Adaptive windowing (Bifet and Gavalda, 2007)."""

    delta: float = Field(default=0.002, gt=0, lt=1)

    def begin(self, cell: CellKey, *, event: Event) -> Any:
        from river import drift

        return drift.ADWIN(delta=self.delta)

    def show(self, memory: Any, errors: Float[np.ndarray, "shown"]) -> tuple[Any, bool]:
        alarms = [_update(memory, error) for error in errors.tolist()]
        return memory, any(alarms)


@dataclasses.dataclass(frozen=True)
class _Scaled:
    """A detector that measures errors in standard deviations, once there is something to measure them by."""

    detector: Any  # river's
    measure: tuple[float, float] | None = None  # centre and scale


class PageHinkley(Detector):
    """Upward changes of the error (Page, 1954).

    The threshold has the unit of the data, so the error is measured in standard deviations of the first segment
    that has finite errors: all of it precedes the first decision that could use it.
    """

    delta: float = Field(default=0.005, ge=0)
    threshold: float = Field(default=50.0, gt=0)

    def begin(self, cell: CellKey, *, event: Event) -> _Scaled:
        from river import drift

        return _Scaled(drift.PageHinkley(mode="up", delta=self.delta, threshold=self.threshold))

    def show(self, memory: _Scaled, errors: Float[np.ndarray, "shown"]) -> tuple[_Scaled, bool]:
        if not len(errors):
            return memory, False
        centre, scale = memory.measure or (float(errors.mean()), float(errors.std()) or 1.0)
        alarms = [_update(memory.detector, (error - centre) / scale) for error in errors.tolist()]
        return _Scaled(memory.detector, (centre, scale)), any(alarms)


def _update(detector: Any, value: float) -> bool:
    detector.update(value)
    return bool(detector.drift_detected)


class Kswin(Detector):
    """Kolmogorov-Smirnov test of the last errors against a sample of those before (Raab et al., 2020).

    river's detector computes a p-value at every step, at 0.3 ms each; two samples of one size have a p-value that
    depends on their distance alone, so here the distance is compared. The alarms are river's (a test holds them
    against each other).
    """

    alpha: float = Field(default=0.005, gt=0, lt=1)
    window: int = Field(default=100, ge=4)
    recent: int = Field(default=30, ge=2)

    def begin(self, cell: CellKey, *, event: Event) -> "_Sampled":
        return _Sampled(seed(event), self.window)

    def show(self, memory: "_Sampled", errors: Float[np.ndarray, "shown"]) -> tuple["_Sampled", bool]:
        alarms = [self._alarmed(memory, error) for error in errors.tolist()]
        return memory, any(alarms)

    def _alarmed(self, memory: "_Sampled", error: float) -> bool:
        memory.errors.append(error)
        if len(memory.errors) < self.window:
            return False
        errors = list(memory.errors)
        before = memory.draws.sample(range(self.window - self.recent), self.recent)
        apart = _steps_apart([errors[index] for index in before], errors[-self.recent :])
        if apart < _critical(self.recent, self.alpha):
            return False
        memory.restart()
        return True


class _Sampled:
    """The last errors and the draws that sample them; an alarm starts both afresh."""

    def __init__(self, seed: int, window: int) -> None:
        self.seed = seed
        self.errors: collections.deque[float] = collections.deque(maxlen=window)
        self.restart()

    def restart(self) -> None:
        self.errors.clear()
        self.draws = random.Random(self.seed)  # noqa: S311  (river's generator, so that the samples are river's)


def _steps_apart(first: list[float], second: list[float]) -> int:
    """The largest distance of two equally large samples' distribution functions, in steps of one observation."""
    first, second = sorted(first), sorted(second)
    return max(abs(bisect_right(first, x) - bisect_right(second, x)) for x in itertools.chain(first, second))


@functools.cache
def _critical(size: int, alpha: float) -> int:
    """The fewest steps apart at which the test rejects: two samples of which one lies so many places later."""
    from scipy import stats

    values = np.arange(size, dtype=float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", category=RuntimeWarning)  # as river does: no exact p, an asymptotic one
        p_values = [stats.ks_2samp(values, values + steps).pvalue for steps in range(size + 1)]
    rejected = [steps for steps, p in enumerate(p_values) if p <= alpha and steps / size > 0.1]
    return rejected[0] if rejected else size + 1
