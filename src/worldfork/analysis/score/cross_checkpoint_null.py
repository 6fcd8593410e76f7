"""The null of a policy that knows only where in a deployment it is, and not this checkpoint.

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
from typing import Final

import numpy as np
from jaxtyping import Bool, Float, Int

from worldfork.analysis.score.judgement import SwappedControl
from worldfork.analysis.score.numerics import figure_draws
from worldfork.analysis.score.undefined import Undefined

ENUMERATED: Final = 8  # up to so many checkpoints all n! orders are listed: exact, no seed


def cross_totals(
    fired: Bool[np.ndarray, "*policies forks"],
    delta: Float[np.ndarray, "forks"],
    scored: Bool[np.ndarray, "forks"],
    place: Int[np.ndarray, "forks"],
    checkpoint: Int[np.ndarray, "forks"],
) -> Float[np.ndarray, "*policies givers takers"]:
    """Return what the fires of each checkpoint earn on the scored forks of each, place by place.

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
    """Return p, the share of orders of the checkpoints in which their fires earn as much as in their own."""
    return swapped_controls(totals[None], permutations=permutations, seed=seed, task=task)[0]


def swapped_controls(
    totals: Float[np.ndarray, "policies givers takers"], *, permutations: int, seed: int, task: str
) -> list[SwappedControl | Undefined]:
    """Return the control of each of several policies, whose fires are exchanged in the same orders."""
    policies, count, _ = totals.shape
    if count < 2:
        return [Undefined("exchanging the fires of checkpoints needs at least two of them")] * policies
    exact, orders = count <= ENUMERATED, _orders(count, permutations, seed, task)
    controls = list[SwappedControl | Undefined]()
    for table in totals:
        earned = sum(table[orders[:, taker], taker] for taker in range(count))
        assert isinstance(earned, np.ndarray)
        observed = float(np.trace(table))
        reached = int((earned >= observed - 1e-9 * max(1.0, abs(observed))).sum())
        p = reached / len(earned) if exact else (1 + reached) / (1 + len(earned))
        controls.append(SwappedControl(mean=float(earned.mean()), p=p, orders=len(earned), exact=exact))
    return controls


@functools.lru_cache(maxsize=2)
def _orders(count: int, permutations: int, seed: int, task: str) -> Int[np.ndarray, "orders {count}"]:
    """Return permutations of checkpoints: whose firing pattern each one receives."""
    if count <= ENUMERATED:
        return np.array(list(itertools.permutations(range(count))))
    draws = figure_draws("swap", seed=seed, task=task)
    return draws.permuted(np.tile(np.arange(count), (permutations, 1)), axis=1)
