"""Intervals on a handful of clusters (paper, "Measurement error, plasticity, and the dose interval").

The percentile bootstrap is the paper's interval, Student-t the one to believe: with five clusters the former covers
about 84% (docs/scoring.md has the simulation).
"""

import functools
import math
from collections.abc import Iterable, Iterator

import numpy as np
from jaxtyping import Float, Int
from scipy import stats

from worldfork.desk.scoring.draws import figure_draws
from worldfork.desk.scoring.quantiles import middle_95
from worldfork.desk.scoring.records import ClusterMean
from worldfork.desk.scoring.ties import ROUNDING
from worldfork.desk.scoring.undefined import Bounds, Figure, Interval, Undefined

__all__ = [
    "bootstrap",
    "cluster_interval",
    "detectable",
    "difference_t",
    "no_spread",
    "resamples",
    "student_t",
    "times_drawn",
]

ENUMERATED = 6  # up to so many clusters all n**n resamples are listed: exact, no seed
RESAMPLES = 20_000
REMEMBERED = 1 << 22  # counts, over all resamples: 32 MB


def bootstrap(values: Float[np.ndarray, "clusters"], *, seed: int, task: str) -> Bounds:
    """95% percentile interval of the mean over resampled clusters."""
    if len(values) < 2:
        return Undefined(_too_few(len(values)))
    return _bootstrap(np.asarray(values, np.float64).tobytes(), seed, task)


@functools.lru_cache(maxsize=1024)
def _bootstrap(spelled: bytes, seed: int, task: str) -> Interval:
    """The same values come up where retained forks are all that were attempted, or two policies fire alike."""
    values = np.frombuffer(spelled)
    if len(values) <= ENUMERATED:
        means = values.take(_all_resamples(len(values))).mean(axis=1)
    else:
        means = np.concatenate([times @ values for times in times_drawn(len(values), seed, task)]) / len(values)
    return Interval(*middle_95(means).tolist())


def student_t(values: Float[np.ndarray, "clusters"]) -> Bounds:
    """95% interval of the mean with n - 1 degrees of freedom."""
    if len(values) < 2:
        return Undefined(_too_few(len(values)))
    half = _t_quantile(len(values) - 1) * float(values.std(ddof=1)) / math.sqrt(len(values))
    centre = float(values.mean())
    return Interval(centre - half, centre + half)


def no_spread(values: Float[np.ndarray, "clusters"]) -> Undefined | None:
    """Why an effect has neither interval nor p where every cluster has the same one; None where they differ.

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
    """95% interval of a mean that is 0 where there is no effect; undefined without a spread."""
    return no_spread(values) or student_t(values)


@functools.cache
def _t_quantile(degrees: int) -> float:
    """Student's t at .975, which takes longer than the interval around it."""
    return float(stats.t.ppf(0.975, degrees))


def detectable(values: Float[np.ndarray, "clusters"]) -> Figure:
    """Minimum detectable effect at 80% power: (t_{.975, n-1} + z_{.80}) s / sqrt(n)."""
    if len(values) < 2:
        return Undefined(_too_few(len(values)))
    error = float(values.std(ddof=1)) / math.sqrt(len(values))
    return float(_t_quantile(len(values) - 1) + stats.norm.ppf(0.80)) * error


def cluster_interval(values: Float[np.ndarray, "clusters"], *, seed: int, task: str) -> ClusterMean:
    """The mean over clusters with its bootstrap interval; below three clusters their range, and it says so."""
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
    """Every resample, or as many as are drawn, in batches that stay small with many clusters."""
    return (_all_resamples(count),) if count <= ENUMERATED else _drawn(count, seed, task)


def times_drawn(count: int, seed: int, task: str) -> Iterable[Float[np.ndarray, "some {count}"]]:
    """How often each resample has each cluster. As many as are kept in memory serve all figures of a task; beyond
    that they are drawn for each."""
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
