"""Kolmogorov-Smirnov test of the last errors against a sample of those before (Raab et al., 2020)."""

import dataclasses
import functools
import random
import warnings
from typing import Final

import numpy as np
from jaxtyping import Float, Int
from pydantic import Field

from worldfork.randomness import Event, seed
from worldfork.triggers.base import CellKey, Detector

AT_ONCE: Final = 128  # tests that are computed together: an alarm makes those after it useless


class _Samples:
    """Places of the earlier errors that each test compares with, as Python's `random.sample` draws them.

    river seeds its generator anew after every alarm, so all that follows an alarm is sampled as the beginning was,
    and is drawn once.
    """

    def __init__(self, seed: int, *, of: int, size: int) -> None:
        self._draws = random.Random(seed)  # noqa: S311  (river's generator, so that the samples are river's)
        self._of, self._size = of, size
        self._drawn: list[list[int]] = []

    def between(self, first: int, last: int) -> Int[np.ndarray, "tests size"]:
        while len(self._drawn) < last:
            self._drawn.append(self._draws.sample(range(self._of), self._size))
        return np.array(self._drawn[first:last])


@dataclasses.dataclass(frozen=True)
class _Sampled:
    """The errors that the next window begins with, and how many windows were tested since the last alarm."""

    samples: _Samples
    errors: Float[np.ndarray, "waiting"] = dataclasses.field(default_factory=lambda: np.zeros(0))
    tests: int = 0


class Kswin(Detector):
    """KSWIN with river's alarms (a test holds them against each other).

    river's detector computes a p-value at every step; two samples of one size have a p-value that depends on their
    distance alone, so here the distance is compared.

    Args:
        alpha: the probability of a false alarm of one test.
        window: errors of a test, the earlier ones and the last.
        recent: the last errors, and as many that are sampled from those before.

    >>> trigger = Kswin(alpha=0.001)
    """

    alpha: float = Field(default=0.005, gt=0, lt=1)
    window: int = Field(default=100, ge=4)
    recent: int = Field(default=30, ge=2)

    def begin(self, cell: CellKey, *, event: Event) -> _Sampled:
        return _Sampled(_Samples(seed(event), of=self.window - self.recent, size=self.recent))

    def show(self, memory: _Sampled, errors: Float[np.ndarray, "shown"]) -> tuple[_Sampled, bool]:
        waiting, tests, alarmed = np.concatenate([memory.errors, errors]), memory.tests, False
        critical = _critical(self.recent, self.alpha)
        while len(waiting) >= self.window:
            windows = np.lib.stride_tricks.sliding_window_view(waiting, self.window)[:AT_ONCE]
            sampled = np.take_along_axis(windows, memory.samples.between(tests, tests + len(windows)), axis=1)
            rejected = np.flatnonzero(_steps_apart(sampled, windows[:, -self.recent :]) >= critical)
            if len(rejected):  # an alarm forgets what led to it, and samples as in the beginning
                waiting, tests, alarmed = waiting[rejected[0] + self.window :], 0, True
            else:
                waiting, tests = waiting[len(windows) :], tests + len(windows)
        return _Sampled(memory.samples, waiting, tests), alarmed


def _steps_apart(
    first: Float[np.ndarray, "tests size"], second: Float[np.ndarray, "tests size"]
) -> Int[np.ndarray, "tests"]:
    """Return the largest distance of the distribution functions of two samples of one size, counted in steps of one
    observation."""
    both = np.concatenate([first, second], axis=1)
    order = np.argsort(both, axis=1)
    ordered = np.take_along_axis(both, order, axis=1)
    apart = np.cumsum(np.where(order < first.shape[1], 1, -1), axis=1)
    # Between equal values no distribution function is read: all of them count before the next larger one.
    last_of_its_size = np.diff(ordered, axis=1, append=np.inf) > 0
    return np.asarray(np.abs(apart * last_of_its_size).max(axis=1))


@functools.cache
def _critical(size: int, alpha: float) -> int:
    """Return the fewest steps apart at which the test rejects: one sample lies so many places after the other."""
    from scipy import stats

    values = np.arange(size, dtype=float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", category=RuntimeWarning)  # as river does: no exact p, an asymptotic one
        p_values = [stats.ks_2samp(values, values + steps).pvalue for steps in range(size + 1)]
    rejected = [steps for steps, p in enumerate(p_values) if p <= alpha and steps / size > 0.1]
    return rejected[0] if rejected else size + 1
