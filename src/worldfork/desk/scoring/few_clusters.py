"""What a mean over a handful of checkpoints can be held to.

Student-t trusts that checkpoint means are normal. Sign flips trust only that they are as likely above the truth
as below it by the same amount: under no effect every pattern of signs is then as likely as the one seen, and p is
exact (Fisher 1935; for approximate symmetry Canay, Romano and Shaikh, "Randomization tests under an approximate
symmetry assumption", Econometrica 2017). The wild bootstrap stands beside both where clusters are few, with
Webb's six weights, since two would give only 2^n distinct samples (Webb, "Reworking wild bootstrap-based
inference for clustered errors", Queen's Economics Department working paper 1315).

The grade of a mean, at 5%:
  resolved    the Student-t interval excludes 0, and after Holm's adjustment over the registered family of means
              both the Student-t p and the sign-flip p are below .05
  leaning     the interval excludes 0, and one of the others fails
  unresolved  the interval contains 0
"""

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from jaxtyping import Float, UInt8
from scipy import special, stats

from worldfork.desk.scoring.draws import figure_draws
from worldfork.desk.scoring.intervals import difference_t, no_spread, student_t
from worldfork.desk.scoring.judgement import Grade, LeaveOneOut
from worldfork.desk.scoring.undefined import Figure, Undefined

__all__ = [
    "SIGNIFICANT",
    "grade",
    "leave_one_out",
    "more_checkpoints",
    "sign_flip_p",
    "sign_flip_ps",
    "student_p",
    "wild_p",
]


SIGNIFICANT: Final = 0.05
ENUMERATED_SIGNS: Final = 16  # up to so many clusters all 2**n patterns are listed: exact, no seed
ENUMERATED_WEIGHTS: Final = 6  # all 6**n of Webb's
RESAMPLES: Final = 100_000
TESTS_AT_ONCE: Final = 16  # and patterns of signs, whose sums stay in the cache
PATTERNS_AT_ONCE: Final = 4096
DRAWN_AT_ONCE: Final = 64  # clusters up to which all random signs are drawn at once, beyond it in batches
WILD_BELOW: Final = 12
FARTHEST: Final = 10_000  # checkpoints beyond which "how many more" is not worth an answer
WEBB: Final = tuple(sign * math.sqrt(half / 2) for half in (1, 2, 3) for sign in (-1, 1))


def student_p(values: Float[np.ndarray, "clusters"]) -> Figure:
    """Two-sided p of no effect by Student-t with n - 1 degrees of freedom."""
    if len(values) < 2:
        return _too_few(len(values))
    if not values.any():
        return 1.0
    if alike := no_spread(values):
        return alike
    distance = abs(values.mean()) / float(values.std(ddof=1)) * math.sqrt(len(values))
    return float(2 * special.stdtr(len(values) - 1, -distance))  # what `stats.t.sf` is, without its preparations


def sign_flip_p(values: Float[np.ndarray, "clusters"], *, seed: int, task: str) -> Figure:
    """Two-sided p of no effect: the share of sign patterns whose mean is as far from 0 as the one seen.

    With n clusters it is at least 2^(1 - n): .0625 with five.
    """
    return sign_flip_ps(values[None], seed=seed, task=task)[0]


def sign_flip_ps(values: Float[np.ndarray, "tests clusters"], *, seed: int, task: str) -> list[Figure]:
    """The p of each of several tests, all by the same patterns; tests of the same values are done once."""
    clusters = values.shape[1]
    if clusters < 2:
        return [_too_few(clusters)] * len(values)
    exact = clusters <= ENUMERATED_SIGNS
    distinct = {row.tobytes(): row for row in values}
    found: dict[bytes, Figure] = {}
    for start in range(0, len(distinct), TESTS_AT_ONCE):
        names = list(distinct)[start : start + TESTS_AT_ONCE]
        some = np.array([distinct[name] for name in names])
        patterns = _all_flipped(some) if exact else _flipped_sums(some, _signs(clusters, seed, task))
        reached = np.abs(some.sum(axis=1)) - 1e-9 * np.abs(some).sum(axis=1)
        extreme, count = np.zeros(len(some)), 0
        for sums in patterns:
            extreme += np.ones(len(sums)) @ (np.abs(sums) >= reached)  # counts in half the time of a sum
            count += len(sums)
        shares = extreme / count if exact else (1 + extreme) / (1 + count)
        found |= zip(names, shares.tolist(), strict=True)
    return [found[row.tobytes()] for row in values]


def wild_p(values: Float[np.ndarray, "clusters"], *, seed: int, task: str) -> Figure:
    """Two-sided p of no effect by the wild cluster bootstrap of Student's t, with Webb's six weights."""
    if not 2 <= len(values) < WILD_BELOW:
        why = f"the wild bootstrap is for 2 to {WILD_BELOW - 1} checkpoints, and there are {len(values)}"
        return Undefined(why)
    if not values.any():
        return 1.0
    drawn = _weights(len(values), seed, task) * values
    observed, resampled = _squared_t(values[None])[0], _squared_t(drawn)
    extreme = int((resampled >= observed * (1 - 1e-9)).sum())
    return extreme / len(drawn) if len(values) <= ENUMERATED_WEIGHTS else (1 + extreme) / (1 + len(drawn))


def leave_one_out(values: Float[np.ndarray, "clusters"], names: Sequence[str]) -> LeaveOneOut | Undefined:
    """The range, over checkpoints left out, of the interval's end that is nearer to 0: the lower end of a mean
    above 0, the upper end of one below."""
    if len(values) < 3:
        return Undefined(f"leaving a checkpoint out needs at least three of them, and there are {len(values)}")
    if alike := no_spread(values):
        return alike
    upward = values.mean() > 0
    ends = []
    for index in range(len(values)):
        interval = student_t(np.delete(values, index))
        assert not isinstance(interval, Undefined)
        ends.append(interval[0] if upward else interval[1])
    crosses = tuple(name for name, end in zip(names, ends, strict=True) if (end <= 0 if upward else end >= 0))
    return LeaveOneOut(low=float(min(ends)), high=float(max(ends)), crosses=crosses)


def grade(
    values: Float[np.ndarray, "clusters"], *, adjusted_student_p: Figure, adjusted_sign_flip_p: Figure
) -> Grade | Undefined:
    """Resolved, leaning or unresolved; both p values come adjusted over the registered family of means."""
    interval = difference_t(values)
    if isinstance(interval, Undefined):
        return interval
    if interval[0] <= 0 <= interval[1]:
        return "unresolved"
    both = (adjusted_student_p, adjusted_sign_flip_p)
    return "resolved" if all(not isinstance(p, Undefined) and p < SIGNIFICANT for p in both) else "leaning"


def more_checkpoints(values: Float[np.ndarray, "clusters"], *, family: int) -> int | Undefined:
    """How many more checkpoints would resolve this mean if it and its spread stayed as they are.

    Each p has to pass the strictest step of Holm's adjustment, `family` times itself, and the sign-flip p can not
    fall below 2^(1 - n). An even chance, not a promise: the mean of more checkpoints moves.
    """
    if len(values) < 2:
        return _too_few(len(values))
    if not values.any():
        return Undefined("the mean is 0: no number of checkpoints would resolve it")
    if alike := no_spread(values):
        return alike
    counts = np.arange(len(values) + 1, FARTHEST + 1)
    distance = abs(float(values.mean())) / float(values.std(ddof=1))
    by_t = 2 * stats.t.sf(distance * np.sqrt(counts), counts - 1)
    enough = np.flatnonzero((family * by_t < SIGNIFICANT) & (family * 2.0 ** (1 - counts) < SIGNIFICANT))
    if not len(enough):
        return Undefined(
            f"the mean is too near 0 for its spread: not even {FARTHEST:,} checkpoints would resolve it"
        )
    return int(counts[enough[0]]) - len(values)


def _squared_t(samples: Float[np.ndarray, "samples clusters"]) -> Float[np.ndarray, "samples"]:
    """Student's t squared but for a constant; infinite where a sample does not vary."""
    mean, variance = samples.mean(axis=1), samples.var(axis=1)
    constant = variance <= 1e-18 * mean**2
    return np.divide(mean**2, variance, out=np.full(len(samples), np.inf), where=~constant)


def _all_flipped(values: Float[np.ndarray, "tests clusters"]) -> Iterator[Float[np.ndarray, "patterns tests"]]:
    sums = values.T[:1]  # flipping all signs changes no distance, so the first keeps its own
    for value in values.T[1:]:
        sums = np.concatenate([sums + value, sums - value])
    yield sums


def _flipped_sums(
    values: Float[np.ndarray, "tests clusters"], signs: UInt8[np.ndarray, "bytes resamples"]
) -> Iterator[Float[np.ndarray, "some tests"]]:
    """The sums under every pattern of signs, some at a time, each in the place of the last: of each eight clusters
    all 256 sums are listed once, and looked up."""
    padded = np.zeros((len(values), 8 * len(signs)))
    padded[:, : values.shape[1]] = values
    every = 1.0 - 2.0 * np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)
    listed = np.array([every @ eight.T for eight in padded.reshape(len(values), -1, 8).swapaxes(0, 1)])
    room = np.empty((2, min(PATTERNS_AT_ONCE, signs.shape[1]), len(values)))
    for start in range(0, signs.shape[1], PATTERNS_AT_ONCE):
        some = signs[:, start : start + PATTERNS_AT_ONCE].astype(np.intp)
        sums, looked_up = room[:, : some.shape[1]]
        listed[0].take(some[0], axis=0, out=sums, mode="clip")  # none is out of bounds, and clipping costs nothing
        for table, patterns in zip(listed[1:], some[1:], strict=True):
            table.take(patterns, axis=0, out=looked_up, mode="clip")
            sums += looked_up
        yield sums


@functools.lru_cache(maxsize=4)
def _signs(count: int, seed: int, task: str) -> UInt8[np.ndarray, "bytes resamples"]:
    """Random patterns of signs, eight clusters to a byte: one set serves all tests of a task."""
    draws = figure_draws("signs", seed=seed, task=task)
    rows = RESAMPLES if count <= DRAWN_AT_ONCE else max(1, (1 << 22) // count)
    packed = [
        np.packbits(draws.integers(0, 2, (min(rows, RESAMPLES - start), count), dtype=np.int8) == 0, axis=1)
        for start in range(0, RESAMPLES, rows)
    ]
    return np.ascontiguousarray(np.concatenate(packed).T)


@functools.lru_cache(maxsize=4)
def _weights(count: int, seed: int, task: str) -> Float[np.ndarray, "resamples {count}"]:
    if count <= ENUMERATED_WEIGHTS:
        return np.array(WEBB)[np.indices((len(WEBB),) * count).reshape(count, -1).T]
    return np.array(WEBB)[figure_draws("wild", seed=seed, task=task).integers(0, len(WEBB), (RESAMPLES, count))]


def _too_few(count: int) -> Undefined:
    return Undefined(
        f"a test over checkpoints needs at least two of them, and there {'is one' if count else 'are none'}"
    )
