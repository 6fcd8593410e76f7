"""KSWIN (Raab, Heusinger and Schleif, 2020), as implemented by river."""

import functools
import itertools
import warnings
from bisect import bisect_right

import numpy as np
from jaxtyping import Bool, Float
from river import drift
from scipy import stats

from worldfork.desk.triggers.detector import Detector, alarm_steps
from worldfork.randomness import Event, seed

__all__ = ["Kswin"]


class Kswin(Detector):
    """Kolmogorov-Smirnov test of the last 30 errors against a sample of the 70 before, river's defaults."""

    def alarms(
        self, errors: Float[np.ndarray, "steps"], *, segment: int, event: Event
    ) -> Bool[np.ndarray, "steps"]:
        detector = _Sparing(seed=seed(event.at(iteration=1)))

        def alarmed(error: float) -> bool:
            detector.update(error)
            return bool(detector.drift_detected)

        return alarm_steps(errors, alarmed)


class _Sparing(drift.KSWIN):  # type: ignore[misc]
    """river's detector, asked only where it can alarm: it computes a p-value at every step, at 0.3 ms each, and
    below a certain distance of the two samples none can be small enough."""

    def update(self, x: float) -> None:
        recent, before = self.stat_size, self._rng.getstate()
        if self.drift_detected or len(self.window) < self.window_size - 1:
            super().update(x)
            return
        window = [*itertools.islice(self.window, len(self.window) - self.window_size + 1, None), x]
        sample = [window[index] for index in self._rng.sample(range(self.window_size - recent), recent)]
        if _steps_apart(sample, window[-recent:]) >= _critical(recent, self.alpha):
            self._rng.setstate(before)  # river draws the same sample again, and decides
            super().update(x)
            return
        self.n += 1
        self.window.append(x)


def _steps_apart(one: list[float], other: list[float]) -> int:
    """The largest distance of two equally large samples' distribution functions, in steps of one observation."""
    one, other = sorted(one), sorted(other)
    return max(abs(bisect_right(one, x) - bisect_right(other, x)) for x in itertools.chain(one, other))


@functools.cache
def _critical(size: int, alpha: float) -> int:
    """The fewest steps apart at which the test can reject: two samples of which one lies `apart` places later."""
    values = np.arange(size, dtype=float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", category=RuntimeWarning)  # as river does: no exact p, an asymptotic one
        apart = [stats.ks_2samp(values, values + steps).pvalue for steps in range(size + 1)]
    return next((steps for steps, p in enumerate(apart) if p <= alpha), size + 1)
