"""The samples that KSWIN compares with: those that Python's `random.sample` draws, for many deployments at once.

`sample(range(of), size)` takes one place after the other from a pool: a place among those `left` is as many random
bits as `left` has, drawn again until they are below `left`. Every attempt uses one 32-bit word of the generator, so
which words are accepted depends on the words alone, and samples can be drawn word by word for many generators.
"""

import dataclasses
import functools
import math
import random
from collections.abc import Sequence
from typing import Final

import numpy as np
from jaxtyping import Bool, Int, UInt32

__all__ = ["MANY", "Samples", "draw_ahead"]

POOLED: Final = 85  # Python's `sample` draws more than five of at most so many from a pool, and else otherwise
MANY: Final = 24  # deployments from which on it is faster to go over them side by side
AHEAD: Final = 64  # samples that are drawn at once for one of them alone


class Samples:
    """Which of the earlier errors each test compares with: river seeds its generator anew after every alarm, so all
    that follows an alarm is sampled as the beginning was, and is drawn once."""

    def __init__(self, seed: int, *, of: int, size: int) -> None:
        self._draws = random.Random(seed)  # noqa: S311  (river's generator, so that the samples are river's)
        self.of, self.size = of, size
        self._unread = np.zeros(0, dtype=np.uint32)  # words that no sample has used yet
        self._drawn = np.zeros((0, size), dtype=np.intp)

    def __len__(self) -> int:
        """How many are drawn."""
        return len(self._drawn)

    def first(self, count: int) -> Int[np.ndarray, "{count} size"]:
        """The samples of the first tests."""
        if len(self._drawn) < count:
            _draw([self], [max(count, len(self._drawn) + AHEAD)])
        return self._drawn[:count]

    @property
    def pooled(self) -> bool:
        """Whether Python draws them from a pool."""
        return self.of <= POOLED and self.size > 5

    def sample(self) -> list[int]:
        """The next one, where it is not drawn from a pool."""
        return self._draws.sample(range(self.of), self.size)

    def words(self, count: int) -> UInt32[np.ndarray, "{count}"]:
        """The next words of the generator, beginning with those that were not used."""
        missing = count - len(self._unread)
        if missing > 0:
            spelled = self._draws.getrandbits(32 * missing).to_bytes(4 * missing, "little")
            self._unread = np.concatenate([self._unread, np.frombuffer(spelled, dtype="<u4")])
        return self._unread[:count]

    def add(self, samples: Int[np.ndarray, "some size"], *, used: int) -> None:
        """Keep samples that took so many words."""
        self._drawn = np.concatenate([self._drawn, samples])
        self._unread = self._unread[used:]


def draw_ahead(samples: Sequence[Samples], counts: Sequence[int]) -> None:
    """Draw what each will be asked for, where there are enough of them to be faster together."""
    lacking = [index for index, count in enumerate(counts) if len(samples[index]) < count]
    if len(lacking) >= MANY:
        _draw([samples[index] for index in lacking], [counts[index] for index in lacking])


def _draw(samples: Sequence[Samples], counts: Sequence[int]) -> None:
    """Draw until each has its count; all are of one size."""
    if not samples[0].pooled:
        for each, count in zip(samples, counts, strict=True):
            more = [each.sample() for _ in range(count - len(each))]
            each.add(np.array(more, dtype=np.intp), used=0)
        return
    pool = _pool(samples[0].of, samples[0].size)
    lacking = list(samples)
    while lacking:
        missing = max(count - len(each) for each, count in zip(samples, counts, strict=True))
        # Words are drawn for one sample more than the mean takes: most often all have enough of them at once.
        width = math.ceil(pool.words_each * missing + 4 * math.sqrt(pool.words_each * missing))
        words = np.ascontiguousarray(np.stack([each.words(width) for each in lacking]).T)
        accepted = _accepted_of_many(words, pool) if len(lacking) >= MANY else _accepted_of_few(words, pool)
        taken = [np.flatnonzero(column) for column in accepted.T]
        whole = [places[: len(places) // pool.size * pool.size] for places in taken]
        numbers = [words[places, index] for index, places in enumerate(whole)]
        drawn = pool.take(np.concatenate(numbers).reshape(-1, pool.size))
        bounds = np.cumsum([len(places) // pool.size for places in whole])[:-1]
        for each, places, some in zip(lacking, whole, np.split(drawn, bounds), strict=True):
            each.add(some, used=int(places[-1]) + 1 if len(places) else 0)
        lacking = [each for each, count in zip(samples, counts, strict=True) if len(each) < count]


@dataclasses.dataclass(frozen=True)
class _Pool:
    """How one sample is taken from a pool: `size` draws, each among one fewer."""

    of: int
    size: int
    shift: UInt32[np.ndarray, "size"]  # how many bits of a word are not used
    limits: UInt32[np.ndarray, "size"]  # a word is accepted below it
    words_each: float  # that a sample takes, in the mean

    def take(self, words: UInt32[np.ndarray, "samples size"]) -> Int[np.ndarray, "samples size"]:
        """The samples that accepted words stand for."""
        places = (words >> self.shift).astype(np.intp)
        pool = np.tile(np.arange(self.of, dtype=np.uint8), (len(words), 1))
        flat, start = pool.reshape(-1), np.arange(len(words)) * self.of
        chosen = np.empty(places.shape, dtype=np.intp)
        for draw in range(self.size):
            place = start + places[:, draw]
            chosen[:, draw] = flat[place]
            flat[place] = pool[:, self.of - draw - 1]  # the last takes the place of the one that is gone
        return chosen


@functools.cache
def _pool(of: int, size: int) -> _Pool:
    left = range(of, of - size, -1)
    shift = [32 - count.bit_length() for count in left]
    limits = [count << bits for count, bits in zip(left, shift, strict=True)]
    return _Pool(
        of, size, np.array(shift, np.uint32), np.array(limits, np.uint32), sum(2**32 / limit for limit in limits)
    )


def _accepted_of_many(words: UInt32[np.ndarray, "words samples"], pool: _Pool) -> Bool[np.ndarray, "words samples"]:
    limits = np.tile(pool.limits, len(words) // pool.size + 1)
    accepted = np.empty(words.shape, dtype=bool)
    draws = np.zeros(words.shape[1], dtype=np.intp)
    for row, flags in zip(words, accepted, strict=True):
        np.less(row, limits.take(draws), out=flags)
        draws += flags
    return accepted


def _accepted_of_few(words: UInt32[np.ndarray, "words samples"], pool: _Pool) -> Bool[np.ndarray, "words samples"]:
    limits = np.tile(pool.limits, len(words) // pool.size + 1).tolist()
    accepted = np.zeros(words.shape, dtype=bool)
    for flags, column in zip(accepted.T, words.T.tolist(), strict=True):
        places, draws, limit = [], 0, limits[0]
        for place, word in enumerate(column):
            if word < limit:
                places.append(place)
                draws += 1
                limit = limits[draws]
        flags[places] = True
    return accepted
