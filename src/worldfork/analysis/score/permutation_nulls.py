"""Totals of policies whose fires are permuted within cells, within blocks of them, or shifted around them.

Every policy is tested against the same draws. For one cell and one draw, dR is put in random order; a policy with n
fires there earns the sum of n in a row. So one sort serves all policies of an arm, and a matrix product adds up
what they earn.
"""

import concurrent.futures
import dataclasses
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
from jaxtyping import Bool, Float, Int

from worldfork.analysis.read.prefork import Prefork
from worldfork.analysis.score.numerics import cell_draws, middle_95, on_one_thread
from worldfork.analysis.score.records import RandomControl
from worldfork.analysis.score.undefined import Interval

Totals = Float[np.ndarray, "nulls permutations _"]  # of the policies of a set

BLOCKS: Final = (2, 4, 6)
ORDERED: Final = (1, *BLOCKS)  # blocks of the nulls that put forks in random order
VARIANTS: Final = ("random", *(f"blocks-{count}" for count in BLOCKS), "shift")
SHIFT: Final = VARIANTS.index("shift")
TURNS: Final = 4  # draws from one random order
ROWS: Final = 1250  # orders that are sorted and multiplied at a time,
CHUNK: Final = 1 << 16  # and elements at most: few enough to stay in the cache


@dataclasses.dataclass(frozen=True)
class Policies:
    """Decisions of several policies on the forks where `scored`; the rest of the forks are left out."""

    scored: Bool[np.ndarray, "forks"]
    fired: Bool[np.ndarray, "forks policies"]


@dataclasses.dataclass(frozen=True)
class ArmPolicies:
    """The policies that are tested in one task of one arm: sets of them on the same forks."""

    prefork: Prefork
    delta: Float[np.ndarray, "forks"]
    sets: Sequence[Policies]


def control_totals(
    arms: Sequence[ArmPolicies],
    *,
    permutations: int,
    seed: int,
    advance: Callable[[int], None] = lambda forks: None,
) -> Iterator[list[dict[str, Float[np.ndarray, "permutations policies"]]]]:
    """Yield, for each arm, the totals of each of its sets of policies under each null.

    Only a few arms are computed ahead: their totals are large. `advance` hears of finished forks.
    """
    workers = os.cpu_count() or 1
    # The sorts and products release the interpreter's lock, so threads are enough.
    with on_one_thread(), concurrent.futures.ThreadPoolExecutor(max_workers=workers) as pool:
        for start in range(0, len(arms), workers):
            some = arms[start : start + workers]
            for arm, sets in zip(
                some, pool.map(lambda arm: _totals(arm, permutations=permutations, seed=seed), some), strict=True
            ):
                advance(len(arm.delta))
                yield [dict(zip(VARIANTS, totals, strict=True)) for totals in sets]


def _totals(arm: ArmPolicies, *, permutations: int, seed: int) -> list[Totals]:
    """Return what the policies of each set earn under each null, added up over cells."""
    totals = [np.zeros((len(VARIANTS), permutations, policies.fired.shape[1])) for policies in arm.sets]
    for index, span in arm.prefork.spans():
        draws = cell_draws("control", arm.prefork.cells[index], seed=seed, task=arm.prefork.task)
        # The draws of a cell are made in one order, shifts first and then sort keys, whatever is scored in it.
        shift, forks = draws.random(permutations), span.stop - span.start
        kind = np.uint32 if forks <= 32 else np.uint64
        groups = [_Group(arm, span, totals, kind, sets) for sets in _on_the_same_forks(arm.sets, span)]
        for group in groups:
            group.add_shifted(shift)
        rows = max(1, min(ROWS, CHUNK // forks))
        for start in range(0, permutations, rows * TURNS):
            some = slice(start, min(start + rows * TURNS, permutations))
            shape = (-(-(some.stop - some.start) // TURNS), forks)
            keys = draws.integers(0, np.iinfo(kind).max, shape, dtype=kind, endpoint=True)
            for group in groups:
                group.add_ordered(keys, some)
    return totals


def _on_the_same_forks(sets: Sequence[Policies], span: slice) -> list[list[int]]:
    """Return the sets, by number, in groups that score the same forks of a cell: most often all of them do."""
    groups: dict[bytes, list[int]] = {}
    for number, policies in enumerate(sets):
        if policies.scored[span].any() and policies.fired.shape[1]:
            groups.setdefault(policies.scored[span].tobytes(), []).append(number)
    return list(groups.values())


class _Group:
    """Policies that are scored on the same forks of a cell, and these forks in random order.

    The order is random within the whole cell, and within each time block of it, longer blocks first.

    A sort key holds a fork's block in its three highest bits, its place in the lowest, random bits between: sorting
    the keys orders the places at random within each block. A random order read from any place around its circle is
    as random, so each serves a few draws.
    """

    def __init__(
        self, arm: ArmPolicies, span: slice, totals: Sequence[Totals], kind: type[Any], sets: Sequence[int]
    ) -> None:
        scored = arm.sets[sets[0]].scored[span]
        forks, width = int(scored.sum()), np.iinfo(kind).bits
        place_bits = max(1, (forks - 1).bit_length())
        self.totals = [totals[number] for number in sets]
        self.columns = np.flatnonzero(scored)
        self.delta = arm.delta[span][scored]
        self.fired = np.hstack([arm.sets[number].fired[span][scored] for number in sets])
        self.earning = np.stack([_earning(self.fired, count) for count in ORDERED])
        block = np.stack([_layout(forks, count)[0] for count in ORDERED])[:, None]
        self.label = (block.astype(kind) << kind(width - 3)) | np.arange(forks, dtype=kind)
        self.place = kind((1 << place_bits) - 1)
        self.random = kind((1 << (width - 3)) - (1 << place_bits))

    def add_shifted(self, shift: Float[np.ndarray, "permutations"]) -> None:
        """Add the totals with fires moved around the cell by these shares of it."""
        moved = (shift * len(self.delta)).astype(np.int64)
        self._add(_circular(self.delta, self.fired)[moved], nulls=SHIFT, draws=slice(None))

    def add_ordered(self, keys: np.ndarray, draws: slice) -> None:
        """Add the totals in the draws that these keys give, `TURNS` for each row."""
        labelled = (keys[:, self.columns] & self.random) | self.label
        labelled.sort(axis=2)
        ordered = self.delta[(labelled & self.place).astype(np.intp)]
        earned = (ordered @ self.earning).reshape(len(ORDERED), len(keys) * TURNS, -1)
        self._add(earned[:, : draws.stop - draws.start], nulls=slice(len(ORDERED)), draws=draws)

    def _add(self, earned: Float[np.ndarray, "*nulls draws policies"], *, nulls: int | slice, draws: slice) -> None:
        start = 0
        for total in self.totals:
            total[nulls, draws] += earned[..., start : start + total.shape[2]]
            start += total.shape[2]


def _earning(
    fired: Bool[np.ndarray, "forks policies"], blocks: int
) -> Float[np.ndarray, "forks turns_and_policies"]:
    """Return which places each policy earns in each turn: with n fires in a block, n from where the turn starts."""
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


def _circular(
    delta: Float[np.ndarray, "forks"], fired: Bool[np.ndarray, "forks policies"]
) -> Float[np.ndarray, "forks policies"]:
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
