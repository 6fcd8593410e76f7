"""Step-down max-T: tests that share checkpoints, adjusted together (Westfall and Young, "Resampling-Based Multiple
Testing", 1993; Romano and Wolf, "Exact and approximate stepdown methods for multiple hypothesis testing",
Journal of the American Statistical Association 2005).

Were no policy worth anything, each checkpoint's differences would be as likely of one sign as of the other, all of
them together: the signs of a checkpoint are flipped for every policy at once, so that policies that fire alike
count as one. Like all sign flips it assumes that differences are symmetric about 0.
"""

from collections.abc import Hashable, Mapping
from typing import TypeVar

import numpy as np
from jaxtyping import Float

from worldfork.analysis.score.intervals import share_of_patterns, sign_patterns

Key = TypeVar("Key", bound=Hashable)


def max_t(differences: Mapping[Key, Float[np.ndarray, "clusters"]], *, seed: int, task: str) -> dict[Key, float]:
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
    reached, count = np.zeros(len(values)), 0
    for signs in sign_patterns(values.shape[1], seed, task):
        null = _statistic(signs @ values.T, values)[:, order]
        # Of each pattern the largest statistic among this test and all that are weaker.
        largest = np.maximum.accumulate(null[:, ::-1], axis=1)[:, ::-1]
        reached += (largest >= observed[order] * (1 - 1e-9)).sum(axis=0)
        count += len(signs)
    shares = np.maximum.accumulate(share_of_patterns(reached, count, values.shape[1]))
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
