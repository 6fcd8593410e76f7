"""Tests over checkpoints: sign flips, Student-t, the wild bootstrap, and step-down max-T.

Step-down max-T: tests that share checkpoints, adjusted together (Westfall and Young, "Resampling-Based Multiple
Testing", 1993; Romano and Wolf, "Exact and approximate stepdown methods for multiple hypothesis testing",
Journal of the American Statistical Association 2005).

Were no policy worth anything, each checkpoint's differences would be as likely of one sign as of the other, all of
them together: the signs of a checkpoint are flipped for every policy at once, so that policies that fire alike
count as one. Like all sign flips it assumes that differences are symmetric about 0.
"""

import functools
import math
from collections.abc import Hashable, Mapping
from typing import Final, TypeVar

import numpy as np
from jaxtyping import Float
from scipy import special

from worldfork.analysis.score.clusters import ClusterMeans
from worldfork.analysis.score.intervals import figure_draws, no_spread
from worldfork.analysis.score.undefined import Figure, Undefined

ENUMERATED_SIGNS: Final = 16  # up to so many clusters all 2**n patterns are listed: exact, no seed
ENUMERATED_WEIGHTS: Final = 6  # all 6**n of Webb's
CLUSTER_RESAMPLES: Final = 100_000
WILD_BELOW: Final = 12
WEBB: Final = tuple(sign * math.sqrt(half / 2) for half in (1, 2, 3) for sign in (-1, 1))


def student_p(values: ClusterMeans) -> Figure:
    """Return the two-sided p of no effect by Student-t with n - 1 degrees of freedom."""
    if len(values) < 2:
        return too_few_clusters(len(values))
    if not values.any():
        return 1.0
    if alike := no_spread(values):
        return alike
    distance = abs(values.mean()) / float(values.std(ddof=1)) * math.sqrt(len(values))
    return float(2 * special.stdtr(len(values) - 1, -distance))  # what `stats.t.sf` is, without its preparations


def sign_flip_p(values: ClusterMeans, *, seed: int, task: str) -> Figure:
    """Return the two-sided p of no effect: the share of sign patterns whose mean is as far from 0 as the one seen.

    With n clusters it is at least 2^(1 - n): .0625 with five.
    """
    if len(values) < 2:
        return too_few_clusters(len(values))
    observed = abs(values.sum()) - 1e-9 * np.abs(values).sum()
    sums = sign_patterns(len(values), seed, task) @ values
    reached, itself = int((np.abs(sums) >= observed).sum()), len(values) > ENUMERATED_SIGNS
    return (itself + reached) / (itself + len(sums))  # drawn patterns count the data itself


def wild_p(values: ClusterMeans, *, seed: int, task: str) -> Figure:
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


def _squared_t(samples: Float[np.ndarray, "samples clusters"]) -> Float[np.ndarray, "samples"]:
    """Return Student's t squared but for a constant; infinite where a sample does not vary."""
    mean, variance = samples.mean(axis=1), samples.var(axis=1)
    constant = variance <= 1e-18 * mean**2
    return np.divide(mean**2, variance, out=np.full(len(samples), np.inf), where=~constant)


@functools.lru_cache(maxsize=2)
def sign_patterns(count: int, seed: int, task: str) -> Float[np.ndarray, "patterns {count}"]:
    """Return all patterns of signs with a first sign of +1 up to 16 clusters, and beyond that random ones.

    Flipping all signs changes no distance from 0.
    """
    if count > ENUMERATED_SIGNS:
        draws = figure_draws("signs", seed=seed, task=task)
        return 2.0 * draws.integers(0, 2, (CLUSTER_RESAMPLES, count), dtype=np.int8) - 1
    every = 1.0 - 2 * ((np.arange(1 << (count - 1))[:, None] >> np.arange(count - 1)) & 1)
    return np.hstack([np.ones((len(every), 1)), every])


@functools.lru_cache(maxsize=4)
def _weights(count: int, seed: int, task: str) -> Float[np.ndarray, "resamples {count}"]:
    if count <= ENUMERATED_WEIGHTS:
        return np.array(WEBB)[np.indices((len(WEBB),) * count).reshape(count, -1).T]
    return np.array(WEBB)[
        figure_draws("wild", seed=seed, task=task).integers(0, len(WEBB), (CLUSTER_RESAMPLES, count))
    ]


def too_few_clusters(count: int) -> Undefined:
    return Undefined(
        f"a test over checkpoints needs at least two of them, and there {'is one' if count else 'are none'}"
    )


Key = TypeVar("Key", bound=Hashable)


def max_t(differences: Mapping[Key, ClusterMeans], *, seed: int, task: str) -> dict[Key, float]:
    """Return the adjusted p of each difference being 0 on average; all are of the same clusters.

    All 2^n patterns of signs are listed up to n = 16, and 100,000 random ones drawn beyond. A policy that differs
    nowhere has p = 1, and takes no part: it makes no other test stricter.

    >>> both = {"a": np.array([3.0, 4.0, 5.0, 6.0, 7.0]), "b": np.array([3.0, 4.0, 5.0, 6.0, 7.0])}
    >>> max_t(both, seed=0, task="")
    {'a': 0.0625, 'b': 0.0625}
    """
    there = {key: values for key, values in differences.items() if len(values) > 1 and values.any()}
    adjusted = dict.fromkeys(differences, 1.0)
    if not there:
        return adjusted
    values = np.array(list(there.values()))
    observed = _statistic(values.sum(axis=1)[None], values)[0]
    order = np.argsort(-observed, kind="stable")
    null = _statistic(sign_patterns(values.shape[1], seed, task) @ values.T, values)[:, order]
    # Of each pattern the largest statistic among this test and all that are weaker.
    largest = np.maximum.accumulate(null[:, ::-1], axis=1)[:, ::-1]
    reached = (largest >= observed[order] * (1 - 1e-9)).sum(axis=0)
    itself = values.shape[1] > ENUMERATED_SIGNS
    shares = np.maximum.accumulate((itself + reached) / (itself + len(null)))
    names = list(there)
    return adjusted | {names[place]: float(p) for place, p in zip(order, shares, strict=True)}


def _statistic(
    sums: Float[np.ndarray, "patterns tests"], values: Float[np.ndarray, "tests clusters"]
) -> Float[np.ndarray, "patterns tests"]:
    """Return Student's t, without its sign, of each pattern: flipping signs leaves the sum of squares as it is."""
    count = values.shape[1]
    squares = (values**2).sum(axis=1)
    variance = np.maximum(squares - sums**2 / count, 1e-12 * squares) / (count - 1)
    return np.abs(sums) / np.sqrt(count * variance)
