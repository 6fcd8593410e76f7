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

from worldfork.analysis.score.judgement import SwappedControl
from worldfork.analysis.score.numerics import figure_draws
from worldfork.analysis.score.undefined import Undefined

__all__ = ["cross_totals", "swapped_control", "swapped_controls"]

ENUMERATED: Final = 8  # up to so many checkpoints all n! orders are listed: exact, no seed
CHUNK: Final = 1 << 18
REMEMBERED: Final = 1 << 22  # checkpoints, over all orders: 32 MB


def cross_totals(
    fired: Bool[np.ndarray, "*policies forks"],
    delta: Float[np.ndarray, "forks"],
    scored: Bool[np.ndarray, "forks"],
    place: Int[np.ndarray, "forks"],
    checkpoint: Int[np.ndarray, "forks"],
) -> Float[np.ndarray, "*policies givers takers"]:
    """What the fires of each checkpoint earn on the scored forks of each, place by place.

    `place` numbers (direction, stream seed, k), which a checkpoint has once. Where a checkpoint has no fork it does
    not fire; what is not scored earns nothing.
    """
    checkpoints, owner = np.unique(checkpoint, return_inverse=True)
    shape = (len(checkpoints), int(place.max(initial=-1)) + 1)
    fires, earns = np.zeros((*fired.shape[:-1], *shape)), np.zeros(shape)
    fires[..., owner, place] = fired
    earns[owner[scored], place[scored]] = delta[scored]
    return fires @ earns.T


def swapped_control(
    totals: Float[np.ndarray, "givers takers"], *, permutations: int, seed: int, task: str
) -> SwappedControl | Undefined:
    """p: the share of orders of the checkpoints in which their fires earn as much as in their own."""
    return swapped_controls(totals[None], permutations=permutations, seed=seed, task=task)[0]


def swapped_controls(
    totals: Float[np.ndarray, "policies givers takers"], *, permutations: int, seed: int, task: str
) -> list[SwappedControl | Undefined]:
    """The control of each of several policies, whose fires are exchanged in the same orders."""
    policies, count, _ = totals.shape
    if count < 2:
        return [Undefined("exchanging the fires of checkpoints needs at least two of them")] * policies
    earned = np.concatenate([_earned(totals, some) for some in _orders(count, permutations, seed, task)], axis=1)
    exact, controls = count <= ENUMERATED, list[SwappedControl | Undefined]()
    for own, sums in zip(totals, earned, strict=True):
        observed = float(np.trace(own))
        reached = int((sums >= observed - 1e-9 * max(1.0, abs(observed))).sum())
        p = reached / len(sums) if exact else (1 + reached) / (1 + len(sums))
        controls.append(SwappedControl(mean=float(sums.sum()) / len(sums), p=p, orders=len(sums), exact=exact))
    return controls


def _earned(
    totals: Float[np.ndarray, "policies givers takers"], orders: Int[np.ndarray, "takers orders"]
) -> Float[np.ndarray, "policies orders"]:
    """What all policies earn in some orders: one taker after the other is given the fires of its giver."""
    by_taker = np.ascontiguousarray(totals.transpose(2, 1, 0))
    sums = np.zeros((orders.shape[1], len(totals)))
    given = np.empty_like(sums)
    for table, givers in zip(by_taker, orders, strict=True):
        table.take(givers, axis=0, out=given, mode="clip")
        sums += given
    return np.ascontiguousarray(sums.T)


def _orders(count: int, permutations: int, seed: int, task: str) -> Iterable[Int[np.ndarray, "{count} some"]]:
    """Orders of the checkpoints: who gives to each taker. As many as are kept in memory serve every policy of a
    task; beyond that they are drawn for each."""
    if count <= ENUMERATED:
        return (_every_order(count),)
    if count * permutations <= REMEMBERED:
        return _remembered(count, permutations, seed, task)
    return _drawn(count, permutations, seed, task)


@functools.cache
def _every_order(count: int) -> Int[np.ndarray, "{count} orders"]:
    every = itertools.chain.from_iterable(itertools.permutations(range(count)))
    orders = np.fromiter(every, np.int64, math.factorial(count) * count).reshape(-1, count)
    return np.ascontiguousarray(orders.T)


@functools.lru_cache(maxsize=1)
def _remembered(count: int, permutations: int, seed: int, task: str) -> tuple[Int[np.ndarray, "{count} some"], ...]:
    return tuple(_drawn(count, permutations, seed, task))


def _drawn(count: int, permutations: int, seed: int, task: str) -> Iterator[Int[np.ndarray, "{count} some"]]:
    draws = figure_draws("swap", seed=seed, task=task)
    rows = max(1, CHUNK // count)
    for start in range(0, permutations, rows):
        some = np.tile(np.arange(count), (min(rows, permutations - start), 1))
        yield np.ascontiguousarray(draws.permuted(some, axis=1).T)
