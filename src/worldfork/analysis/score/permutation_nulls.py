"""Nulls of a policy: fires permuted within cells, within blocks of them, shifted, or exchanged between
checkpoints.

Every policy is tested against the same draws. For one cell and one draw, dR is put in random order; a policy with n
fires there earns the sum of n in a row. So one sort serves all policies, and a matrix product adds up what they
earn.

Exchanging asks about a policy that knows only where in a deployment it is, and not this checkpoint: what checkpoint
i would have fired at is applied to checkpoint j, at the same direction, stream seed and k. A policy that is a
function of position fires alike everywhere, so exchanging changes nothing and p is 1. If a signal carries something
about its own checkpoint's stream, its fires earn most where they belong. Whole checkpoints move, so that
autocorrelation along a stream and what a checkpoint's two directions share stay as they are; if signal and dR are
independent given position, all orders are equally likely and the test is exact (benchmarks/coverage.py). The
position table alone does not do: it has as many entries as there are places, each the mean of a few noisy labels,
and a signal that is a smooth function of position beats it by being simpler.
"""

import dataclasses
import functools
import itertools
from typing import Final

import numpy as np
from jaxtyping import Bool, Float, Int

from worldfork.analysis.read.prefork import ForkCodes, ForkFlags, ForkValues, Prefork
from worldfork.analysis.score.intervals import figure_draws, middle_95
from worldfork.analysis.score.undefined import Bounds, Figure, Interval, Undefined


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomControl:
    """The total of firing as often at random; p counts the draws that earn as much as the policy."""

    mean: Figure
    interval: Bounds
    p: float
    permutations: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class SwappedControl:
    """The total of a policy with the fires of other checkpoints instead of its own."""

    mean: Figure
    p: float
    orders: int
    exact: bool


BLOCKS: Final = (2, 4, 6)
ORDERED: Final = {"random": 1, **{f"blocks-{count}": count for count in BLOCKS}}  # blocks that are put in order
VARIANTS: Final = (*ORDERED, "shift")
TURNS: Final = 4  # draws from one random order
AT_ONCE: Final = 1 << 16  # sort keys: few enough to stay in the cache


def null_totals(
    prefork: Prefork,
    delta: ForkValues,
    scored: ForkFlags,
    fired: Bool[np.ndarray, "forks policies"],
    *,
    permutations: int,
    seed: int,
) -> dict[str, Float[np.ndarray, "permutations policies"]]:
    """Return the totals of several policies under each null, on the forks where `scored`, added up over cells."""
    totals = {name: np.zeros((permutations, fired.shape[1])) for name in VARIANTS}
    for index, span in prefork.spans():
        draws = figure_draws("control", seed=seed, task=prefork.task, cell=prefork.cells[index])
        # The draws of a cell are made in one order, shifts first and then sort keys, whatever is scored in it.
        shift, forks = draws.random(permutations), span.stop - span.start
        columns = np.flatnonzero(scored[span])
        if not len(columns) or not fired.shape[1]:
            continue
        earns, fires = delta[span][columns], fired[span][columns]
        totals["shift"] += _circular(earns, fires)[(shift * len(columns)).astype(np.int64)]
        kind = np.uint32 if forks <= 32 else np.uint64
        rows = max(1, AT_ONCE // forks)
        for start in range(0, permutations, rows * TURNS):
            some = slice(start, min(start + rows * TURNS, permutations))
            shape = (-(-(some.stop - some.start) // TURNS), forks)
            keys = draws.integers(0, np.iinfo(kind).max, shape, dtype=kind, endpoint=True)[:, columns]
            for name, blocks in ORDERED.items():
                earned = earns[_ordered(keys, blocks)] @ _earning(fires, blocks)
                totals[name][some] += earned.reshape(len(keys) * TURNS, -1)[: some.stop - some.start]
    return totals


def _ordered(keys: np.ndarray, blocks: int) -> Int[np.ndarray, "rows forks"]:
    """Return the places of the forks in random order within each time block, longer blocks first.

    A sort key holds a fork's block in its three highest bits, its place in the lowest, random bits between: sorting
    the keys orders the places at random within each block.
    """
    forks, kind, width = keys.shape[1], keys.dtype.type, np.iinfo(keys.dtype).bits
    places = (1 << max(1, (forks - 1).bit_length())) - 1
    label = (_layout(forks, blocks)[0].astype(kind) << kind(width - 3)) | np.arange(forks, dtype=kind)
    labelled = (keys & kind((1 << (width - 3)) - 1 - places)) | label
    labelled.sort(axis=1)
    return (labelled & kind(places)).astype(np.intp)


def _earning(
    fired: Bool[np.ndarray, "forks policies"], blocks: int
) -> Float[np.ndarray, "forks turns_and_policies"]:
    """Return which places each policy earns in each turn: with n fires in a block, n from where the turn starts.

    A random order read from any place around its circle is as random, so each serves a few draws.
    """
    forks, policies = fired.shape
    block, rank = _layout(forks, blocks)
    fires = (np.arange(blocks)[:, None] == block).astype(np.int64) @ fired
    earning = rank[:, :, None] < fires[block][:, None]
    return earning.reshape(forks, TURNS * policies).astype(np.float64)


@functools.cache
def _layout(forks: int, blocks: int) -> tuple[Int[np.ndarray, "{forks}"], Int[np.ndarray, "{forks} turns"]]:
    """Return the block of each place, and how far the place is from where each turn starts in its block."""
    pieces = np.array_split(np.arange(forks), blocks)
    block = np.repeat(np.arange(blocks), [len(piece) for piece in pieces])
    turned = [np.arange(len(piece))[:, None] - np.arange(TURNS) * len(piece) // TURNS for piece in pieces]
    return block, np.concatenate([places % max(len(places), 1) for places in turned])


def _circular(delta: ForkValues, fired: Bool[np.ndarray, "forks policies"]) -> Float[np.ndarray, "forks policies"]:
    """Return the total of each policy with its fires moved on by 0, 1, ... places around the cell."""
    spectrum = np.fft.rfft(delta)[:, None] * np.conj(np.fft.rfft(fired, axis=0))
    return np.fft.irfft(spectrum, n=len(delta), axis=0)


def judge(observed: float, totals: Float[np.ndarray, "permutations"]) -> RandomControl:
    """Return the mean and 95% interval of the null, and p: the share of draws that earn as much as the policy.

    A draw within rounding of the observed total earns as much, so that always firing has p = 1.
    """
    return RandomControl(
        mean=float(totals.mean()),
        interval=Interval(*middle_95(totals).tolist()),
        p=p_value(observed, totals),
        permutations=len(totals),
    )


def p_value(observed: float, totals: Float[np.ndarray, "permutations"]) -> float:
    """Return the share of draws, with the policy itself, that earn as much."""
    return (1 + reached(observed, totals)) / (1 + len(totals))


def reached(observed: float, totals: Float[np.ndarray, "permutations"]) -> int:
    """Return how many draws earn as much."""
    return int((totals >= observed - 1e-9 * max(1.0, abs(observed))).sum())


ENUMERATED: Final = 8  # up to so many checkpoints all n! orders are listed: exact, no seed


def cross_totals(
    fired: ForkFlags, delta: ForkValues, scored: ForkFlags, place: ForkCodes, checkpoint: ForkCodes
) -> Float[np.ndarray, "givers takers"]:
    """Return what the fires of each checkpoint earn on the scored forks of each, place by place.

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
    """Return p, the share of orders of the checkpoints in which their fires earn as much as in their own."""
    count = len(totals)
    if count < 2:
        return Undefined("exchanging the fires of checkpoints needs at least two of them")
    exact, orders = count <= ENUMERATED, _orders(count, permutations, seed, task)
    earned = totals[orders, np.arange(count)].sum(axis=1)
    observed = float(np.trace(totals))
    p = reached(observed, earned) / len(earned) if exact else p_value(observed, earned)
    return SwappedControl(mean=float(earned.mean()), p=p, orders=len(earned), exact=exact)


@functools.lru_cache(maxsize=2)
def _orders(count: int, permutations: int, seed: int, task: str) -> Int[np.ndarray, "orders {count}"]:
    """Return permutations of checkpoints: whose firing pattern each one receives."""
    if count <= ENUMERATED:
        return np.array(list(itertools.permutations(range(count))))
    draws = figure_draws("swap", seed=seed, task=task)
    return draws.permuted(np.tile(np.arange(count), (permutations, 1)), axis=1)
