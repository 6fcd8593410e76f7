"""Change detectors over the error of every step: each fires at a decision point if it alarmed within the segment.

KSWIN and Page-Hinkley are here, ADWIN and the conformal martingale in files of their own. Where river has a
detector, ours alarms where river's does, and needs no river. An error that is not finite has no size to compare: a
detector is not shown it.
"""

import abc
import dataclasses
import functools
import itertools
import math
import warnings
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np
from jaxtyping import Float, Int, UInt32
from pydantic import Field

from worldfork.randomness import Event, seed
from worldfork.triggers.base import Answer, CellKey, Segment, Trigger
from worldfork.triggers.kswin import Samples, draw_ahead

__all__ = ["SIDE_BY_SIDE", "Detector", "Kswin", "PageHinkley", "SteppedDetector", "dense_ranks"]

FORGETTING, FEWEST = 0.9999, 30  # Page-Hinkley, as in river: what of the past stays, and errors before it may alarm
SIDE_BY_SIDE: Final = 24  # deployments from which on a step of all of them is faster than all steps of each
# Tests that KSWIN computes at once, at least and at most in each deployment and in all of them: an alarm makes
# those after it useless.
BATCHES: Final = (32, 128, 4096)


class Detector(Trigger):
    """Shown the finite errors of one segment after the other."""

    needs: ClassVar = ("error",)

    @abc.abstractmethod
    def show(self, memory: Any, errors: Float[np.ndarray, "shown"]) -> tuple[Any, bool]:
        """The memory to go on with, and whether there was an alarm at any of these steps."""

    def show_together(
        self, memories: Sequence[Any], errors: Sequence[Float[np.ndarray, "_"]]
    ) -> list[tuple[Any, bool]]:
        """What `show` returns for each of several deployments."""
        return [self.show(memory, shown) for memory, shown in zip(memories, errors, strict=True)]

    def decide_together(self, memories: Sequence[Any], segments: Sequence[Segment]) -> list[tuple[Any, Answer]]:
        logged = [segment.steps["error"] for segment in segments]
        return list(self.show_together(memories, [errors[np.isfinite(errors)] for errors in logged]))

    def decide(self, memory: Any, segment: Segment) -> tuple[Any, bool]:
        errors = segment.steps["error"]
        return self.show(memory, errors[np.isfinite(errors)])


class SteppedDetector(Detector):
    """A detector that goes from step to step, and can take each step of many deployments at once."""

    @abc.abstractmethod
    def step_together(
        self, memories: Sequence[Any], errors: Sequence[Float[np.ndarray, "steps"]]
    ) -> list[tuple[Any, bool]]:
        """What `show` returns for each of several deployments that are shown equally many errors."""

    def show_together(
        self, memories: Sequence[Any], errors: Sequence[Float[np.ndarray, "_"]]
    ) -> list[tuple[Any, bool]]:
        alike: dict[int, list[int]] = {}
        for index, each in enumerate(errors):
            alike.setdefault(len(each), []).append(index)
        shown: dict[int, tuple[Any, bool]] = {}
        for group in alike.values():
            together = self.step_together if len(group) >= SIDE_BY_SIDE else super().show_together
            answers = together([memories[index] for index in group], [errors[index] for index in group])
            shown.update(zip(group, answers, strict=True))
        return [shown[index] for index in range(len(memories))]


@dataclasses.dataclass(frozen=True)
class _Climb:
    """How far the errors have climbed since the last alarm, and what they are measured by, once there is something
    to measure them by."""

    measure: tuple[float, float] | None = None  # centre and scale
    count: float = 0.0
    mean: float = 0.0
    height: float = 0.0
    lowest: float = math.inf


class PageHinkley(SteppedDetector):
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

    def step_together(
        self, memories: Sequence[_Climb], errors: Sequence[Float[np.ndarray, "steps"]]
    ) -> list[tuple[_Climb, bool]]:
        if not len(errors[0]):
            return [(memory, False) for memory in memories]
        measures = [
            memory.measure or (float(shown.mean()), float(shown.std()) or 1.0)
            for memory, shown in zip(memories, errors, strict=True)
        ]
        centres, scales = np.array(measures).T
        count, mean, height, lowest = np.array(
            [(memory.count, memory.mean, memory.height, memory.lowest) for memory in memories]
        ).T.copy()
        ever = np.zeros(len(memories), dtype=bool)
        for error in (np.array(errors).T - centres) / scales:
            count += 1.0
            mean += (1.0 / count) * (error - mean)
            height = FORGETTING * height + (error - mean) - self.delta
            lowest = np.minimum(lowest, height)
            alarmed = (height - lowest > self.threshold) & (count >= FEWEST)
            if alarmed.any():
                ever |= alarmed
                count[alarmed] = mean[alarmed] = height[alarmed] = 0.0
                lowest[alarmed] = math.inf
        climbed = np.array([count, mean, height, lowest]).T.tolist()
        return [
            (_Climb(measure, *climb), alarm)
            for measure, climb, alarm in zip(measures, climbed, ever.tolist(), strict=True)
        ]


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
        return _Sampled(Samples(seed(event), of=self.window - self.recent, size=self.recent))

    def show(self, memory: "_Sampled", errors: Float[np.ndarray, "shown"]) -> tuple["_Sampled", bool]:
        return self.show_together([memory], [errors])[0]

    def show_together(
        self, memories: Sequence["_Sampled"], errors: Sequence[Float[np.ndarray, "_"]]
    ) -> list[tuple["_Sampled", bool]]:
        """The tests of all deployments side by side, a batch of each at a time."""
        waiting = [np.concatenate([memory.errors, shown]) for memory, shown in zip(memories, errors, strict=True)]
        samples, tests = [memory.samples for memory in memories], [memory.tests for memory in memories]
        left = [
            len(values) - self.window + 1 for values in waiting
        ]  # windows to be tested; below 1: errors lacking
        draw_ahead(samples, [done + more for done, more in zip(tests, left, strict=True)])
        ranked = list(map(dense_ranks, waiting))
        ranks = np.concatenate([np.zeros(0, np.uint32), *ranked])
        tied = any(len(each) > int(each.max(initial=0)) + 1 for each in ranked)
        begins = np.cumsum([0, *map(len, waiting)]).tolist()
        alarmed, critical = [False] * len(memories), _critical(self.recent, self.alpha)
        latest, at_once = _ends_of_windows(ranks, self.window, self.recent), _at_once(len(memories))
        while active := [index for index, count in enumerate(left) if count > 0]:
            counts = [min(left[index], at_once) for index in active]
            starts = [begins[i + 1] - left[i] - self.window + 1 for i in active]
            ends = list(itertools.accumulate(counts))
            place = np.arange(ends[-1]) + np.repeat(
                [start - end + count for start, end, count in zip(starts, ends, counts, strict=True)], counts
            )
            drawn = [samples[i].first(tests[i] + n)[tests[i] :] for i, n in zip(active, counts, strict=True)]
            sampled = ranks.take(np.concatenate(drawn) + place[:, None])
            apart = _steps_apart(sampled, latest[place], tied=tied)
            rejected = np.flatnonzero(apart >= critical)
            following = np.searchsorted(rejected, np.array(ends) - counts)
            first = np.append(rejected, ends[-1])[following].tolist()
            for index, count, end, reject in zip(active, counts, ends, first, strict=True):
                if reject < end:  # an alarm forgets what led to it, and samples as in the beginning
                    alarmed[index], tests[index] = True, 0
                    left[index] -= reject - (end - count) + self.window
                else:
                    tests[index] += count
                    left[index] -= count
        # What is left of a window that is not full: the last errors, all of which will be needed.
        kept = [
            values[len(values) - count - self.window + 1 :] for values, count in zip(waiting, left, strict=True)
        ]
        return [
            (_Sampled(*memory), alarm)
            for memory, alarm in zip(zip(samples, kept, tests, strict=True), alarmed, strict=True)
        ]


@dataclasses.dataclass(frozen=True)
class _Sampled:
    """The errors that the next window begins with, and how many windows were tested since the last alarm."""

    samples: Samples
    errors: Float[np.ndarray, "waiting"] = dataclasses.field(default_factory=lambda: np.zeros(0))
    tests: int = 0


def _at_once(deployments: int) -> int:
    fewest, most, in_all = BATCHES
    return min(most, max(fewest, in_all // deployments))


def dense_ranks(values: Float[np.ndarray, "values"]) -> UInt32[np.ndarray, "values"]:
    """The place of each value in order of size; equal values share one."""
    order = np.argsort(values)
    ordered = values[order]
    ranks = np.zeros(len(values), dtype=np.uint32)
    ranks[order[1:]] = np.cumsum(ordered[1:] > ordered[:-1])
    return ranks


def _ends_of_windows(
    ranks: UInt32[np.ndarray, "values"], window: int, recent: int
) -> UInt32[np.ndarray, "windows recent"]:
    """The last values of the window that begins at each value: a view."""
    if len(ranks) < window:
        return np.zeros((0, recent), dtype=ranks.dtype)
    return np.lib.stride_tricks.sliding_window_view(ranks, recent)[window - recent :]


def _steps_apart(
    first: UInt32[np.ndarray, "tests size"], second: UInt32[np.ndarray, "tests size"], *, tied: bool
) -> Int[np.ndarray, "tests"]:
    """The largest distance of two equally large samples' distribution functions, in steps of one observation; of
    each observation its rank is known."""
    tests, size = first.shape
    both = np.empty((tests, 2 * size), dtype=np.uint32)  # the rank, and in the last bit the sample
    np.left_shift(first, 1, out=both[:, :size])
    np.left_shift(second, 1, out=both[:, size:])
    both[:, size:] |= 1
    both.sort(axis=1)
    # Place by place through the sorted observations of all tests: much faster than a cumulative sum of each.
    kind = np.int8 if size <= np.iinfo(np.int8).max else np.int16
    steps = 1 - 2 * (np.ascontiguousarray(both.astype(kind).T) & kind(1))
    if tied:  # between equal values no distribution function is read: all of them count before the next larger one
        both >>= 1
        read = np.ones((2 * size, tests), dtype=kind)
        read[:-1] = (both[:, 1:] != both[:, :-1]).T
    apart, above, below = np.zeros((3, tests), dtype=kind)
    for place, step in enumerate(steps):
        apart += step
        seen = apart * read[place] if tied else apart
        np.maximum(above, seen, out=above)
        np.minimum(below, seen, out=below)
    return np.asarray(np.maximum(above, -below))


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
