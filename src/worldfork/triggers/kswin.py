"""Kolmogorov-Smirnov test of the last errors against a sample of those before (Raab et al., 2020).

Its samples are those that Python's `random.sample` draws, many at once.

`sample(range(of), size)` takes one place after the other from a pool: a place among those `left` is as many random
bits as `left` has, drawn again until they are below `left`. Every attempt uses the highest bits of one 32-bit word
of the generator, of which a byte is enough for a pool of at most 85. So a sample is a run of bytes: for each draw
some that are too large, and then one that is not. A regular expression says where each run ends, and the draws of
all runs are then read side by side.
"""

import dataclasses
import functools
import itertools
import math
import random
import re
import warnings
from collections.abc import Sequence
from typing import Final

import numpy as np
from jaxtyping import Float, Int, Integer, UInt8, UInt32
from pydantic import Field

from worldfork.randomness import Event, seed
from worldfork.triggers.base import CellKey
from worldfork.triggers.detectors import Detector

POOLED: Final = 85  # Python's `sample` draws more than five of at most so many from a pool, and else otherwise


class Samples:
    """Places of the earlier errors that each test compares with.

    river seeds its generator anew after every alarm, so all that follows an alarm is sampled as the beginning was,
    and is drawn once.
    """

    def __init__(self, seed: int, *, of: int, size: int) -> None:
        self._draws = random.Random(seed)  # noqa: S311  (river's generator, so that the samples are river's)
        self.of, self.size = of, size
        self._unread = b""  # the highest bytes of words that no sample has used yet
        self._drawn = np.zeros((0, size), dtype=np.uint8 if self.pooled else np.intp)

    def __len__(self) -> int:
        """Return the number of samples that are drawn."""
        return len(self._drawn)

    def first(self, count: int) -> Integer[np.ndarray, "{count} size"]:
        """Return the samples of the first tests."""
        if len(self._drawn) < count:
            draw_ahead([self], [count])
        return self._drawn[:count]

    @property
    def pooled(self) -> bool:
        """True if Python draws them from a pool."""
        return self.of <= POOLED and self.size > 5

    def sample(self) -> list[int]:
        """Draw the next one, where it is not drawn from a pool."""
        return self._draws.sample(range(self.of), self.size)

    def runs(self, count: int) -> list[bytes]:
        """Return the bytes of each of the next samples, `count` of them or some more."""
        pool, runs = _pool(self.of, self.size), list[bytes]()
        while len(runs) < count:
            mean = pool.words_each * (count - len(runs))
            words = math.ceil(mean + 4 * math.sqrt(mean))  # most often enough of them at once
            self._unread += self._draws.getrandbits(32 * words).to_bytes(4 * words, "little")[3::4]
            found = pool.run.findall(self._unread)
            # What is left is a run that is not whole; one that began later within it would not be either.
            self._unread = self._unread[sum(map(len, found)) :]
            runs += found
        return runs

    def add(self, samples: Integer[np.ndarray, "some size"]) -> None:
        self._drawn = np.concatenate([self._drawn, samples])


def draw_ahead(samples: Sequence[Samples], counts: Sequence[int]) -> None:
    """Draw until each has its count; all are of one size."""
    lacking = [(each, count - len(each)) for each, count in zip(samples, counts, strict=True) if len(each) < count]
    if not lacking:
        return
    if not samples[0].pooled:
        for each, missing in lacking:
            each.add(np.array([each.sample() for _ in range(missing)], dtype=np.intp))
        return
    runs = [each.runs(missing) for each, missing in lacking]
    drawn = _pool(samples[0].of, samples[0].size).take(list(itertools.chain.from_iterable(runs)))
    bounds = np.cumsum([len(some) for some in runs])[:-1]
    for (each, _), some in zip(lacking, np.split(drawn, bounds), strict=True):
        each.add(some)


@dataclasses.dataclass(frozen=True)
class _Pool:
    """The way one sample is taken from a pool: `size` draws, each among one fewer."""

    of: int
    size: int
    run: re.Pattern[bytes]  # the bytes of one sample
    limits: Sequence[int]  # of each draw: a byte is accepted below it,
    shift: Sequence[int]  # and how many bits of an accepted byte are not used
    words_each: float  # that a sample takes, in the mean

    def take(self, runs: Sequence[bytes]) -> UInt8[np.ndarray, "samples size"]:
        """Return the samples that these runs stand for."""
        words = np.frombuffer(b"".join(runs), np.uint8)
        lengths = np.array(list(map(len, runs)))
        at = np.cumsum(lengths) - lengths  # the next byte of each run
        pool = np.tile(np.arange(self.of, dtype=np.uint8), (len(runs), 1))
        flat, start = pool.reshape(-1), np.arange(len(runs)) * self.of
        chosen = np.empty((len(runs), self.size), dtype=np.uint8)
        for draw, (limit, shift) in enumerate(zip(self.limits, self.shift, strict=True)):
            drawn = words[at]
            while len(again := np.flatnonzero(drawn >= limit)):
                at[again] += 1
                drawn[again] = words[at[again]]
            at += 1
            place = start + (drawn >> shift)
            chosen[:, draw] = flat[place]
            flat[place] = pool[:, self.of - draw - 1]  # the last takes the place of the one that is gone
        return chosen


@functools.cache
def _pool(of: int, size: int) -> _Pool:
    left = range(of, of - size, -1)
    shift = [8 - count.bit_length() for count in left]
    limits = [count << bits for count, bits in zip(left, shift, strict=True)]
    run = b"".join(rb"[\x%02x-\xff]*+." % limit for limit in limits)
    words_each = sum(2**8 / limit for limit in limits)
    return _Pool(of, size, re.compile(run, re.DOTALL), limits, shift, words_each)


# Tests that KSWIN computes at once, at least and at most in each deployment and in all of them: an alarm makes
# those after it useless.
BATCHES: Final = (32, 128, 4096)


class Kswin(Detector):
    """KSWIN with river's alarms (a test holds them against each other).

    river's detector computes a p-value at every step, at 0.3 ms each; two samples of one size have a p-value that
    depends on their distance alone, so here the distance is compared.

    Args:
        alpha: the probability of a false alarm of one test.
        window: errors of a test, the earlier ones and the last.
        recent: the last errors, and as many that are sampled from those before.

    >>> trigger = Kswin(alpha=0.001)
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
        """Run the tests of all deployments side by side, a batch of each at a time."""
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
    """Return the place of each value in order of size; equal values share one."""
    order = np.argsort(values)
    ordered = values[order]
    ranks = np.zeros(len(values), dtype=np.uint32)
    ranks[order[1:]] = np.cumsum(ordered[1:] > ordered[:-1])
    return ranks


def _ends_of_windows(
    ranks: UInt32[np.ndarray, "values"], window: int, recent: int
) -> UInt32[np.ndarray, "windows recent"]:
    """Return the last values of the window that begins at each value: a view."""
    if len(ranks) < window:
        return np.zeros((0, recent), dtype=ranks.dtype)
    return np.lib.stride_tricks.sliding_window_view(ranks, recent)[window - recent :]


def _steps_apart(
    first: UInt32[np.ndarray, "tests size"], second: UInt32[np.ndarray, "tests size"], *, tied: bool
) -> Int[np.ndarray, "tests"]:
    """Return the largest distance of the distribution functions of two samples of one size, given as ranks.

    It is counted in steps of one observation.
    """
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
    """Return the fewest steps apart at which the test rejects: one sample lies so many places after the other."""
    from scipy import stats

    values = np.arange(size, dtype=float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", category=RuntimeWarning)  # as river does: no exact p, an asymptotic one
        p_values = [stats.ks_2samp(values, values + steps).pvalue for steps in range(size + 1)]
    rejected = [steps for steps, p in enumerate(p_values) if p <= alpha and steps / size > 0.1]
    return rejected[0] if rejected else size + 1
