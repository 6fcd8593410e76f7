"""Change detectors over the error of every step: each fires at a decision point if it alarmed within the segment.

ADWIN is river's; KSWIN and Page-Hinkley are written out here and alarm where river's do. An error that is not
finite has no size to compare: a detector is not shown it.
"""

import abc
import dataclasses
import functools
import math
import random
import warnings
from typing import Any, ClassVar, Final

import numpy as np
from jaxtyping import Float, Int
from pydantic import Field

from worldfork.randomness import Event, seed
from worldfork.triggers.base import CellKey, Segment, Trigger

__all__ = ["Adwin", "Detector", "Kswin", "PageHinkley"]

FORGETTING, FEWEST = 0.9999, 30  # Page-Hinkley, as in river: what of the past stays, and errors before it may alarm
POOLED: Final = 85  # Python's `sample` draws more than five of at most so many from a pool, and else otherwise
BATCH: Final = 64  # tests that KSWIN computes at once: an alarm among them makes those after it useless


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
        alarmed = False
        for error in errors.tolist():
            memory.update(error)
            alarmed |= memory.drift_detected
        return memory, alarmed


@dataclasses.dataclass(frozen=True)
class _Climb:
    """How far the errors have climbed since the last alarm, and what they are measured by, once there is something
    to measure them by."""

    measure: tuple[float, float] | None = None  # centre and scale
    count: float = 0.0
    mean: float = 0.0
    height: float = 0.0
    lowest: float = math.inf


class PageHinkley(Detector):
    """Upward changes of the error (Page, 1954).

    The threshold has the unit of the data, so the error is measured in standard deviations of the first segment
    that has finite errors: all of it precedes the first decision that could use it. The recursion is written out,
    and twice as fast as river's; the alarms are river's (a test holds them against each other).
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
        return _Sampled(_Samples(seed(event), of=self.window - self.recent, size=self.recent))

    def show(self, memory: "_Sampled", errors: Float[np.ndarray, "shown"]) -> tuple["_Sampled", bool]:
        waiting, tests, alarmed = np.concatenate([memory.errors, errors]), memory.tests, False
        critical = _critical(self.recent, self.alpha)
        while len(waiting) >= self.window:
            count = min(len(waiting) - self.window + 1, BATCH)
            windows = np.lib.stride_tricks.sliding_window_view(waiting[: count + self.window - 1], self.window)
            sampled = np.take_along_axis(windows, memory.samples.first(tests + count)[tests:], axis=1)
            rejected = np.flatnonzero(_steps_apart(sampled, windows[:, -self.recent :]) >= critical)
            if len(rejected):  # an alarm forgets what led to it, and samples as in the beginning
                waiting, tests, alarmed = waiting[rejected[0] + self.window :], 0, True
            else:
                waiting, tests = waiting[count:], tests + count
        return _Sampled(memory.samples, waiting, tests), alarmed


@dataclasses.dataclass(frozen=True)
class _Sampled:
    """The errors that the next window begins with, and how many windows were tested since the last alarm."""

    samples: "_Samples"
    errors: Float[np.ndarray, "waiting"] = dataclasses.field(default_factory=lambda: np.zeros(0))
    tests: int = 0


class _Samples:
    """Which of the earlier errors each test compares with: river seeds its generator anew after every alarm, so all
    that follows an alarm is sampled as the beginning was, and is drawn once."""

    def __init__(self, seed: int, *, of: int, size: int) -> None:
        self._draws = random.Random(seed)  # noqa: S311  (river's generator, so that the samples are river's)
        self._of, self._size = of, size
        self._drawn = np.zeros((0, size), dtype=np.intp)

    def first(self, count: int) -> Int[np.ndarray, "{count} size"]:
        """The samples of the first tests."""
        if (missing := count - len(self._drawn)) > 0:
            more = [_sample(self._draws, self._of, self._size) for _ in range(missing)]
            self._drawn = np.concatenate([self._drawn, np.array(more, dtype=np.intp)])
        return self._drawn[:count]


def _sample(draws: random.Random, of: int, size: int) -> list[int]:
    """What `draws.sample(range(of), size)` returns, in a third of its time where it draws from a pool."""
    if of > POOLED or size <= 5:
        return draws.sample(range(of), size)
    bits, pool, chosen = draws.getrandbits, list(range(of)), []
    for left in range(of, of - size, -1):
        width = left.bit_length()
        place = bits(width)
        while place >= left:
            place = bits(width)
        chosen.append(pool[place])
        pool[place] = pool[left - 1]
    return chosen


def _steps_apart(
    first: Float[np.ndarray, "tests size"], second: Float[np.ndarray, "tests size"]
) -> Int[np.ndarray, "tests"]:
    """The largest distance of two equally large samples' distribution functions, in steps of one observation."""
    both = np.concatenate([first, second], axis=1)
    order = np.argsort(both, axis=1)
    values = np.take_along_axis(both, order, axis=1)
    apart = np.cumsum(np.where(order < first.shape[1], 1, -1), axis=1)
    # Between equal values no distribution function is read: all of them count before the next larger one.
    last = np.ones(both.shape, dtype=bool)
    last[:, :-1] = values[:, 1:] > values[:, :-1]
    return np.asarray(np.where(last, np.abs(apart), 0).max(axis=1))


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
