"""Intervals on a handful of clusters (paper, "Measurement error, plasticity, and the dose interval").

The percentile bootstrap is the paper's interval, Student-t the one to believe: with five clusters the former covers
about 84% (docs/scoring.md has the simulation).
"""

import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
from jaxtyping import Float, Int, Int8
from scipy import special, stats

from worldfork.analysis.score.judgement import Grade, LeaveOneOut
from worldfork.analysis.score.numerics import ROUNDING, figure_draws, middle_95
from worldfork.analysis.score.records import ClusterMean
from worldfork.analysis.score.undefined import Bounds, Figure, Interval, Undefined

ENUMERATED = 6  # up to so many clusters all n**n resamples are listed: exact, no seed
RESAMPLES = 20_000
REMEMBERED = 1 << 22  # counts, over all resamples: 32 MB


def bootstrap(values: Float[np.ndarray, "clusters"], *, seed: int, task: str) -> Bounds:
    """Return the 95% percentile interval of the mean over resampled clusters."""
    if len(values) < 2:
        return Undefined(_too_few(len(values)))
    return _bootstrap(np.asarray(values, np.float64).tobytes(), seed, task)


@functools.lru_cache(maxsize=1024)
def _bootstrap(content: bytes, seed: int, task: str) -> Interval:
    """Compute `bootstrap`, remembered: the same values come up where nothing diverged, or two policies fire
    alike."""
    values = np.frombuffer(content)
    if len(values) <= ENUMERATED:
        means = values.take(_all_resamples(len(values))).mean(axis=1)
    else:
        means = np.concatenate([times @ values for times in times_drawn(len(values), seed, task)]) / len(values)
    return Interval(*middle_95(means).tolist())


def student_t(values: Float[np.ndarray, "clusters"]) -> Bounds:
    """Return the 95% interval of the mean with n - 1 degrees of freedom."""
    if len(values) < 2:
        return Undefined(_too_few(len(values)))
    half = _t_quantile(len(values) - 1) * float(values.std(ddof=1)) / math.sqrt(len(values))
    centre = float(values.mean())
    return Interval(centre - half, centre + half)


def no_spread(values: Float[np.ndarray, "clusters"]) -> Undefined | None:
    """Return why an effect has neither interval nor p where every cluster has the same one; None where they differ.

    A spread of 0 says that the measure is too coarse to show one, or that the clusters are copies, and not that the
    effect is known exactly. No effect anywhere is what it is: 0.
    """
    if len(values) < 2 or not values.any() or not np.ptp(values) <= ROUNDING * np.abs(values).max():
        return None
    return Undefined(
        f"all {len(values)} checkpoints have the same mean, and without a spread there is no interval: are they "
        "copies of one, or is the return too coarse to tell them apart?"
    )


def difference_t(values: Float[np.ndarray, "clusters"]) -> Bounds:
    """Return the 95% interval of a mean that is 0 where there is no effect; undefined without a spread."""
    return no_spread(values) or student_t(values)


@functools.cache
def _t_quantile(degrees: int) -> float:
    """Return Student's t at .975, which takes longer than the interval around it."""
    return float(stats.t.ppf(0.975, degrees))


def detectable(values: Float[np.ndarray, "clusters"]) -> Figure:
    """Return the minimum detectable effect at 80% power: (t_{.975, n-1} + z_{.80}) s / sqrt(n)."""
    if len(values) < 2:
        return Undefined(_too_few(len(values)))
    error = float(values.std(ddof=1)) / math.sqrt(len(values))
    return float(_t_quantile(len(values) - 1) + stats.norm.ppf(0.80)) * error


def cluster_interval(values: Float[np.ndarray, "clusters"], *, seed: int, task: str) -> ClusterMean:
    """Return the mean over clusters with its bootstrap interval; below three clusters their range, and it says
    so."""
    if not len(values):
        raise ValueError("no clusters: say why before coming here")
    if len(values) < 3:
        spread = Interval(float(values.min()), float(values.max()))
        return _mean(values, spread, "min-max")
    return _mean(values, bootstrap(values, seed=seed, task=task), "bootstrap")


def _mean(values: Float[np.ndarray, "clusters"], interval: Bounds, kind: str) -> ClusterMean:
    return ClusterMean(
        value=float(values.mean()),
        interval=interval,
        kind=kind,
        student_t=student_t(values),
        clusters=len(values),
    )


def _too_few(count: int) -> str:
    return f"an interval over checkpoints needs at least two of them, and there {'is one' if count else 'are none'}"


def resamples(count: int, seed: int, task: str) -> Iterable[Int[np.ndarray, "some {count}"]]:
    """Return every resample, or as many as are drawn, in batches that stay small with many clusters."""
    return (_all_resamples(count),) if count <= ENUMERATED else _drawn(count, seed, task)


def times_drawn(count: int, seed: int, task: str) -> Iterable[Float[np.ndarray, "some {count}"]]:
    """Return how often each resample has each cluster. As many as are kept in memory serve all figures of a task;
    beyond that they are drawn for each."""
    if count <= ENUMERATED or count * RESAMPLES <= REMEMBERED:
        return _remembered(count, seed, task)
    return map(_times, resamples(count, seed, task))


@functools.cache
def _all_resamples(count: int) -> Int[np.ndarray, "resamples {count}"]:
    return np.indices((count,) * count).reshape(count, -1).T


@functools.lru_cache(maxsize=2)
def _remembered(count: int, seed: int, task: str) -> tuple[Float[np.ndarray, "some {count}"], ...]:
    return tuple(map(_times, resamples(count, seed, task)))


def _times(chosen: Int[np.ndarray, "some clusters"]) -> Float[np.ndarray, "some clusters"]:
    offset = chosen + chosen.shape[1] * np.arange(len(chosen))[:, None]
    return np.bincount(offset.ravel(), minlength=chosen.size).reshape(chosen.shape).astype(np.float64)


def _drawn(count: int, seed: int, task: str) -> Iterator[Int[np.ndarray, "some {count}"]]:
    draws = figure_draws("clusters", seed=seed, task=task)
    batch = max(1, (1 << 20) // count)
    for start in range(0, RESAMPLES, batch):
        yield draws.integers(0, count, (min(batch, RESAMPLES - start), count))


ALPHA: Final = 0.05
FEWEST: Final = 8  # checkpoints; with fewer the interval is too wide to be of use
SCALE: Final = 1.0  # standard deviation of the mixture over mean / deviation


def anytime_interval(values: Float[np.ndarray, "clusters"]) -> Bounds:
    """Return the 95% interval of the mean, valid at every number of checkpoints at once."""
    if len(values) < FEWEST:
        return Undefined(
            f"an anytime-valid interval is shown from {FEWEST} checkpoints on, and there "
            f"{'is' if len(values) == 1 else 'are'} {len(values)}: with fewer it is too wide to be of use"
        )
    if alike := no_spread(values):
        return alike
    half = half_width(len(values)) * float(values.std(ddof=1)) / math.sqrt(len(values))
    centre = float(values.mean())
    return Interval(centre - half, centre + half)


def half_width(count: int, *, alpha: float = ALPHA) -> float:
    """Return how many standard errors the interval reaches to each side; infinite where no number would do.

    With q = t^2 / (n - 1) and r = 1 + n scale^2 the mixture is sqrt(1 / r) ((1 + q) / (1 + q / r))^(n / 2). It
    stays below 1 / alpha for q up to (K - 1) / (1 - K / r), K = (r / alpha^2)^(1 / n).

    >>> [round(half_width(n), 2) for n in (5, 15, 100)]
    [8.45, 3.54, 3.35]
    """
    ratio = 1 + count * SCALE**2
    bound = (ratio / alpha**2) ** (1 / count)
    if count < 2 or bound >= ratio:
        return math.inf
    return math.sqrt((count - 1) * (bound - 1) / (1 - bound / ratio))


SIGNIFICANT: Final = 0.05
ENUMERATED_SIGNS: Final = 16  # up to so many clusters all 2**n patterns are listed: exact, no seed
ENUMERATED_WEIGHTS: Final = 6  # all 6**n of Webb's
CLUSTER_RESAMPLES: Final = 100_000
PATTERNS_AT_ONCE: Final = 4096  # of signs
KEPT: Final = 256  # clusters up to which random signs are kept for all tests of a task: 26 MB
DRAWN_AT_ONCE: Final = 64  # clusters up to which all random signs are drawn at once, beyond it in batches
WILD_BELOW: Final = 12
FARTHEST: Final = 10_000  # checkpoints beyond which "how many more" is not worth an answer
WEBB: Final = tuple(sign * math.sqrt(half / 2) for half in (1, 2, 3) for sign in (-1, 1))


def student_p(values: Float[np.ndarray, "clusters"]) -> Figure:
    """Return the two-sided p of no effect by Student-t with n - 1 degrees of freedom."""
    if len(values) < 2:
        return _too_few_clusters(len(values))
    if not values.any():
        return 1.0
    if alike := no_spread(values):
        return alike
    distance = abs(values.mean()) / float(values.std(ddof=1)) * math.sqrt(len(values))
    return float(2 * special.stdtr(len(values) - 1, -distance))  # what `stats.t.sf` is, without its preparations


def sign_flip_p(values: Float[np.ndarray, "clusters"], *, seed: int, task: str) -> Figure:
    """Return the two-sided p of no effect: the share of sign patterns whose mean is as far from 0 as the one seen.

    With n clusters it is at least 2^(1 - n): .0625 with five.
    """
    return sign_flip_ps(values[None], seed=seed, task=task)[0]


def sign_flip_ps(values: Float[np.ndarray, "tests clusters"], *, seed: int, task: str) -> list[Figure]:
    """Return the p of each of several tests, all by the same patterns of signs."""
    clusters = values.shape[1]
    if clusters < 2:
        return [_too_few_clusters(clusters)] * len(values)
    reached = np.abs(values.sum(axis=1)) - 1e-9 * np.abs(values).sum(axis=1)
    extreme, count = np.zeros(len(values)), 0
    for signs in sign_patterns(clusters, seed, task):
        extreme += (np.abs(signs @ values.T) >= reached).sum(axis=0)
        count += len(signs)
    return list(share_of_patterns(extreme, count, clusters).tolist())


def share_of_patterns(reached: Float[np.ndarray, "tests"], count: int, clusters: int) -> Float[np.ndarray, "tests"]:
    """Return the p of tests by how many patterns of signs reach them; drawn ones count the data itself."""
    return reached / count if clusters <= ENUMERATED_SIGNS else (1 + reached) / (1 + count)


def wild_p(values: Float[np.ndarray, "clusters"], *, seed: int, task: str) -> Figure:
    """Return the two-sided p of no effect by the wild cluster bootstrap of Student's t, with Webb's six weights."""
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
    """Return the range, over checkpoints left out, of the interval's end that is nearer to 0: the lower end of a
    mean above 0, the upper end of one below."""
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
    """Return the grade of a mean: resolved, leaning or unresolved. Both p values come adjusted over the registered
    family."""
    interval = difference_t(values)
    if isinstance(interval, Undefined):
        return interval
    if interval[0] <= 0 <= interval[1]:
        return "unresolved"
    both = (adjusted_student_p, adjusted_sign_flip_p)
    return "resolved" if all(not isinstance(p, Undefined) and p < SIGNIFICANT for p in both) else "leaning"


def more_checkpoints(values: Float[np.ndarray, "clusters"], *, family: int) -> int | Undefined:
    """Return how many more checkpoints would resolve this mean if it and its spread stayed as they are.

    Each p has to pass the strictest step of Holm's adjustment, `family` times itself, and the sign-flip p can not
    fall below 2^(1 - n). An even chance, not a promise: the mean of more checkpoints moves.
    """
    if len(values) < 2:
        return _too_few_clusters(len(values))
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
    """Return Student's t squared but for a constant; infinite where a sample does not vary."""
    mean, variance = samples.mean(axis=1), samples.var(axis=1)
    constant = variance <= 1e-18 * mean**2
    return np.divide(mean**2, variance, out=np.full(len(samples), np.inf), where=~constant)


def sign_patterns(count: int, seed: int, task: str) -> Iterator[Float[np.ndarray, "some {count}"]]:
    """Yield all patterns of signs with a first sign of +1 up to 16 clusters, and beyond that random ones.

    Flipping all signs changes no distance from 0. What fits into memory is drawn once for all tests of a task.
    """
    batches = _kept_signs(count, seed, task) if count <= KEPT else _drawn_signs(count, seed, task)
    for signs in batches:
        for start in range(0, len(signs), PATTERNS_AT_ONCE):
            yield signs[start : start + PATTERNS_AT_ONCE].astype(np.float64)


@functools.lru_cache(maxsize=4)
def _kept_signs(count: int, seed: int, task: str) -> tuple[Int8[np.ndarray, "some {count}"], ...]:
    if count > ENUMERATED_SIGNS:
        return tuple(_drawn_signs(count, seed, task))
    every = 1 - 2 * ((np.arange(1 << (count - 1))[:, None] >> np.arange(count - 1)) & 1)
    return (np.hstack([np.ones((len(every), 1)), every]).astype(np.int8),)


def _drawn_signs(count: int, seed: int, task: str) -> Iterator[Int8[np.ndarray, "some {count}"]]:
    draws = figure_draws("signs", seed=seed, task=task)
    rows = CLUSTER_RESAMPLES if count <= DRAWN_AT_ONCE else max(1, (1 << 22) // count)
    for start in range(0, CLUSTER_RESAMPLES, rows):
        yield 2 * draws.integers(0, 2, (min(rows, CLUSTER_RESAMPLES - start), count), dtype=np.int8) - 1


@functools.lru_cache(maxsize=4)
def _weights(count: int, seed: int, task: str) -> Float[np.ndarray, "resamples {count}"]:
    if count <= ENUMERATED_WEIGHTS:
        return np.array(WEBB)[np.indices((len(WEBB),) * count).reshape(count, -1).T]
    return np.array(WEBB)[
        figure_draws("wild", seed=seed, task=task).integers(0, len(WEBB), (CLUSTER_RESAMPLES, count))
    ]


def _too_few_clusters(count: int) -> Undefined:
    return Undefined(
        f"a test over checkpoints needs at least two of them, and there {'is one' if count else 'are none'}"
    )
