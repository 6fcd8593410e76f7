"""The samples that KSWIN compares with: those that Python's `random.sample` draws, many at once.

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
from collections.abc import Sequence
from typing import Final

import numpy as np
from jaxtyping import Integer, UInt8

__all__ = ["Samples", "draw_ahead"]

POOLED: Final = 85  # Python's `sample` draws more than five of at most so many from a pool, and else otherwise


class Samples:
    """Which of the earlier errors each test compares with: river seeds its generator anew after every alarm, so all
    that follows an alarm is sampled as the beginning was, and is drawn once."""

    def __init__(self, seed: int, *, of: int, size: int) -> None:
        self._draws = random.Random(seed)  # noqa: S311  (river's generator, so that the samples are river's)
        self.of, self.size = of, size
        self._unread = b""  # the highest bytes of words that no sample has used yet
        self._drawn = np.zeros((0, size), dtype=np.uint8 if self.pooled else np.intp)

    def __len__(self) -> int:
        """How many are drawn."""
        return len(self._drawn)

    def first(self, count: int) -> Integer[np.ndarray, "{count} size"]:
        """The samples of the first tests."""
        if len(self._drawn) < count:
            draw_ahead([self], [count])
        return self._drawn[:count]

    @property
    def pooled(self) -> bool:
        """Whether Python draws them from a pool."""
        return self.of <= POOLED and self.size > 5

    def sample(self) -> list[int]:
        """The next one, where it is not drawn from a pool."""
        return self._draws.sample(range(self.of), self.size)

    def runs(self, count: int) -> list[bytes]:
        """The bytes of each of the next samples, `count` of them or some more."""
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
    """How one sample is taken from a pool: `size` draws, each among one fewer."""

    of: int
    size: int
    run: re.Pattern[bytes]  # the bytes of one sample
    limits: Sequence[int]  # of each draw: a byte is accepted below it,
    shift: Sequence[int]  # and how many bits of an accepted byte are not used
    words_each: float  # that a sample takes, in the mean

    def take(self, runs: Sequence[bytes]) -> UInt8[np.ndarray, "samples size"]:
        """The samples that these runs stand for."""
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
