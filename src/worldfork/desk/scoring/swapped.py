"""Does a policy know this deployment, or only where in a deployment it is?

The fires of whole checkpoints are exchanged: what checkpoint i would have fired at is applied to checkpoint j, at
the same direction, stream seed and k. A policy that is a function of position fires alike everywhere, so
exchanging changes nothing and p is 1. If a signal carries something about its own checkpoint's stream, its fires
earn most where they belong. Whole checkpoints move, so that autocorrelation along a stream and what a
checkpoint's two directions share stay as they are; if signal and dR are independent given position, all orders
are equally likely and the test is exact (benchmarks/coverage.py).

The position table alone does not do: it has as many entries as there are places, each the mean of a few noisy
labels, and a signal that is a smooth function of position beats it by being simpler.
"""

import functools
import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
from jaxtyping import Bool, Float, Int

from worldfork.desk.scoring.draws import figure_draws
from worldfork.desk.scoring.judgement import SwappedControl
from worldfork.desk.scoring.undefined import Undefined

__all__ = ["cross_totals", "swapped_control"]

ENUMERATED: Final = 8  # up to so many checkpoints all n! orders are listed: exact, no seed
CHUNK: Final = 1 << 18
REMEMBERED: Final = 1 << 22  # places in the table, over all orders: 32 MB


def cross_totals(
    fired: Bool[np.ndarray, "forks"],
    delta: Float[np.ndarray, "forks"],
    scored: Bool[np.ndarray, "forks"],
    place: Int[np.ndarray, "forks"],
    checkpoint: Int[np.ndarray, "forks"],
) -> Float[np.ndarray, "givers takers"]:
    """What the fires of each checkpoint earn on the scored forks of each, place by place.

    `place` numbers (direction, stream seed, k), which a checkpoint has once. Where a checkpoint has no fork it does
    not fire; what is not scored earns nothing.
    """
    checkpoints, owner = np.unique(checkpoint, return_inverse=True)
    shape = (len(checkpoints), int(place.max(initial=-1)) + 1)
    fires, earns = np.zeros(shape), np.zeros(shape)
    fires[owner, place] = fired
    earns[owner[scored], place[scored]] = delta[scored]
    return fires @ earns.T


def swapped_control(
    totals: Float[np.ndarray, "givers takers"], *, permutations: int, seed: int, task: str
) -> SwappedControl | Undefined:
    """p: the share of orders of the checkpoints in which their fires earn as much as in their own."""
    count = len(totals)
    if count < 2:
        return Undefined("exchanging the fires of checkpoints needs at least two of them")
    observed = float(np.trace(totals))
    enough = observed - 1e-9 * max(1.0, abs(observed))
    exact = count <= ENUMERATED
    reached, earned, orders = 0, 0.0, 0
    for chunk in _orders(count, permutations, seed, task):
        sums = totals.ravel().take(chunk).sum(axis=1)
        reached, earned, orders = (
            reached + int((sums >= enough).sum()),
            earned + float(sums.sum()),
            orders + len(sums),
        )
    p = reached / orders if exact else (1 + reached) / (1 + orders)
    return SwappedControl(mean=earned / orders, p=p, orders=orders, exact=exact)


def _orders(count: int, permutations: int, seed: int, task: str) -> Iterable[Int[np.ndarray, "some {count}"]]:
    """Orders of the checkpoints, as places in the table of totals. As many as are kept in memory serve every policy
    of a task; beyond that they are drawn for each."""
    if count <= ENUMERATED:
        return _every_order(count)
    if count * permutations <= REMEMBERED:
        return _remembered(count, permutations, seed, task)
    return _drawn(count, permutations, seed, task)


@functools.cache
def _every_order(count: int) -> tuple[Int[np.ndarray, "orders {count}"], ...]:
    every = itertools.chain.from_iterable(itertools.permutations(range(count)))
    orders = np.fromiter(every, np.int64, math.factorial(count) * count).reshape(-1, count)
    return (orders * count + np.arange(count),)


@functools.lru_cache(maxsize=1)
def _remembered(count: int, permutations: int, seed: int, task: str) -> tuple[Int[np.ndarray, "some {count}"], ...]:
    return tuple(_drawn(count, permutations, seed, task))


def _drawn(count: int, permutations: int, seed: int, task: str) -> Iterator[Int[np.ndarray, "some {count}"]]:
    draws = figure_draws("swap", seed=seed, task=task)
    rows = max(1, CHUNK // count)
    for start in range(0, permutations, rows):
        some = np.tile(np.arange(count), (min(rows, permutations - start), 1))
        yield draws.permuted(some, axis=1) * count + np.arange(count)
