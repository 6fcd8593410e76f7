"""What policies earn where their fires are permuted within cells, within blocks of them, or shifted around them.

Every policy is tested against the same draws. For one cell and one draw, dR is put in random order; a policy with n
fires there earns the sum of n in a row. So one sort serves all policies of all arms, and a matrix product adds up
those of an arm.
"""

import concurrent.futures
import dataclasses
import functools
import itertools
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import numpy as np
from jaxtyping import Bool, Float, Int, UInt

from worldfork.analysis.read.prefork import Prefork
from worldfork.analysis.score.numerics import cell_draws, middle_95, on_one_thread
from worldfork.analysis.score.records import RandomControl
from worldfork.analysis.score.undefined import Interval

Totals = Float[np.ndarray, "nulls permutations _"]  # of the policies of a set
Cells = Sequence[tuple[int, slice]]  # the number of each, and where its forks are

BLOCKS: Final = (2, 4, 6)
ORDERED: Final = (1, *BLOCKS)  # blocks of the nulls that put forks in random order
VARIANTS: Final = ("random", *(f"blocks-{count}" for count in BLOCKS), "shift")
SHIFT: Final = VARIANTS.index("shift")
TURNS: Final = 4  # draws from one random order
ROWS: Final = 1250  # orders that are sorted and multiplied at a time (more or fewer may round otherwise),
CHUNK: Final = 1 << 16  # and elements at most: few enough to stay in the cache


@dataclasses.dataclass(frozen=True)
class Policies:
    """Decisions of several policies on the forks where `scored`; the rest of the forks are left out."""

    scored: Bool[np.ndarray, "forks"]
    fired: Bool[np.ndarray, "forks policies"]


@dataclasses.dataclass(frozen=True)
class ArmPolicies:
    """What is tested in one task of one arm: sets of policies on the same forks."""

    prefork: Prefork
    delta: Float[np.ndarray, "forks"]
    sets: Sequence[Policies]


def totals_in(arms: Sequence[ArmPolicies], cells: Cells, *, permutations: int, seed: int) -> list[list[Totals]]:
    """For each arm and each of its sets, what the policies earn in these cells under each null: some draws of all
    cells at a time, so that their totals stay in the cache."""
    prefork, every = arms[0].prefork, slice(cells[0][1].start, cells[-1][1].stop)
    same = [_same(arm.sets, every) for arm in arms]
    earned = [
        {first: nothing(arm.sets[first], permutations) for first in firsts}
        for arm, firsts in zip(arms, same, strict=True)
    ]
    drawn = [
        _Cell(
            cell_draws("control", prefork.cells[index], seed=seed, task=prefork.task),
            [group for arm, totals in zip(arms, earned, strict=True) for group in _groups(arm, totals, span)],
            forks=span.stop - span.start,
        )
        for index, span in cells
    ]
    scratch = _Scratch()
    for cell in drawn:
        cell.add_shifts(permutations, scratch)
    rows = max(1, min(ROWS, *(CHUNK // cell.forks for cell in drawn)))
    for start in range(0, permutations, rows * TURNS):
        for cell in drawn:
            cell.add_orders(slice(start, min(start + rows * TURNS, permutations)), scratch)
    return [[totals[first] for first in firsts] for totals, firsts in zip(earned, same, strict=True)]


def nothing(policies: Policies, permutations: int) -> Totals:
    """Totals to add to."""
    return np.zeros((len(VARIANTS), permutations, policies.fired.shape[1]))


def _same(sets: Sequence[Policies], span: slice) -> list[int]:
    """For each set, the first one that is the same on these forks: most often nothing was dropped from them, and
    one sum serves retained and all attempted forks."""

    def alike(one: Policies, other: Policies) -> bool:
        return all(
            np.array_equal(getattr(one, name)[span], getattr(other, name)[span]) for name in ("scored", "fired")
        )

    return [next(first for first, known in enumerate(sets) if alike(known, policies)) for policies in sets]


class _Cell:
    """One cell's draws, in the order in which they are made: shifts first, then sort keys."""

    def __init__(self, draws: np.random.Generator, groups: Sequence["_Group"], *, forks: int) -> None:
        self.forks = forks
        self._draws, self._groups = draws, groups
        self._kind = np.uint32 if forks <= 32 else np.uint64
        by_forks: dict[bytes, list[_Group]] = {}  # groups of all arms: on the same forks one order serves them
        for group in groups:
            by_forks.setdefault(group.scored.tobytes(), []).append(group)
        self._orders = [_Orders(of_forks, self._kind) for of_forks in by_forks.values()]

    def add_shifts(self, permutations: int, scratch: "_Scratch") -> None:
        shift = self._draws.random(permutations)
        for group in self._groups:
            moved = (shift * len(group.delta)).astype(np.int64)
            around = _circular(group.delta, group.fired)
            earned = scratch.array("shifted", (len(shift), around.shape[1]), np.float64)
            np.take(around, moved, axis=0, out=earned, mode="clip")
            group.add(earned, nulls=SHIFT, draws=slice(None))

    def add_orders(self, draws: slice, scratch: "_Scratch") -> None:
        shape = (-(-(draws.stop - draws.start) // TURNS), self.forks)
        keys = self._draws.integers(0, np.iinfo(self._kind).max, shape, dtype=self._kind, endpoint=True)
        for order in self._orders:
            order.add(draws, keys, scratch)


class _Scratch:
    """Arrays that are filled again and again: asking the system for new ones takes as long as filling them."""

    def __init__(self) -> None:
        self._kept: dict[str, np.ndarray] = {}

    def array(self, name: str, shape: tuple[int, ...], kind: Any) -> Any:
        """The array of that name in this shape, with whatever it was last filled with."""
        size = math.prod(shape)
        kept = self._kept.get(name)
        if kept is None or kept.size < size or kept.dtype != kind:
            kept = self._kept[name] = np.empty(size, kind)
        return kept[:size].reshape(shape)


@dataclasses.dataclass(frozen=True)
class _Group:
    """Policies of some of an arm's sets that are scored on the same forks of a cell. What they earn has a column
    for each policy: of each set in turn, or of all sets at once where they fire alike."""

    totals: Sequence[Totals]  # of these sets
    alike: bool
    scored: Bool[np.ndarray, "attempted"]
    delta: Float[np.ndarray, "forks"]
    fired: Bool[np.ndarray, "forks policies"]

    def add(self, earned: Float[np.ndarray, "*nulls draws policies"], *, nulls: int | slice, draws: slice) -> None:
        """Add the columns to the totals of the sets that they are for, under these nulls and in these draws."""
        start = 0
        for total in self.totals:
            width = total.shape[2]
            total[nulls, draws] += earned[..., start : start + width]
            start += 0 if self.alike else width


def _groups(arm: ArmPolicies, totals: Mapping[int, Totals], span: slice) -> list[_Group]:
    """The groups of those of an arm's sets that have totals."""
    delta = arm.delta[span]
    scored = [arm.sets[index].scored[span] for index in totals]
    fired = [arm.sets[index].fired[span] for index in totals]
    if all(keep.all() for keep in scored):  # as in most cells: one shuffled dR for all sets,
        alike = all(np.array_equal(fired[0], flags) for flags in fired[1:])  # and in many of them one product
        groups = [_Group(list(totals.values()), alike, scored[0], delta, fired[0] if alike else np.hstack(fired))]
    else:
        groups = [
            _Group([total], False, keep, delta[keep], flags[keep])
            for total, keep, flags in zip(totals.values(), scored, fired, strict=True)
        ]
    return [group for group in groups if group.scored.any() and group.fired.shape[1]]


class _Orders:
    """Forks in random order within the whole cell and within each time block of it, longer blocks first, and what
    groups of policies on these forks earn by it.

    A sort key holds a fork's block in its three highest bits, its place in the lowest, random bits between: sorting
    the keys orders the places at random within each block. A random order read from any place around its circle is
    as random, so each serves a few draws.
    """

    def __init__(self, groups: Sequence[_Group], kind: type[np.unsignedinteger[Any]]) -> None:
        scored = groups[0].scored
        forks = int(scored.sum())
        self.columns = None if scored.all() else np.flatnonzero(scored)
        self.groups = [(group, np.stack([_earning(group.fired, count) for count in ORDERED])) for group in groups]
        width, place_bits = np.iinfo(kind).bits, max(1, (forks - 1).bit_length())
        block = np.stack([_layout(forks, count)[0] for count in ORDERED])[:, None]
        self.label = (block.astype(kind) << kind(width - 3)) | np.arange(forks, dtype=kind)
        self.place = kind((1 << place_bits) - 1)
        self.random = kind((1 << (width - 3)) - (1 << place_bits))

    def add(self, draws: slice, keys: UInt[np.ndarray, "rows attempted"], scratch: _Scratch) -> None:
        """Add what each group earns in the draws that these keys give, `TURNS` for each row."""
        places = self.places(keys, scratch)
        ordered = scratch.array("ordered", places.shape, np.float64)
        for group, earning in self.groups:
            group.delta.take(places, out=ordered, mode="clip")  # none is out of bounds, and clipping costs nothing
            earned = scratch.array("earned", (*places.shape[:2], earning.shape[2]), np.float64)
            np.matmul(ordered, earning, out=earned)
            turned = earned.reshape(len(ORDERED), len(keys) * TURNS, -1)[:, : draws.stop - draws.start]
            group.add(turned, nulls=slice(len(ORDERED)), draws=draws)

    def places(
        self, keys: UInt[np.ndarray, "rows attempted"], scratch: _Scratch
    ) -> Int[np.ndarray, "nulls rows forks"]:
        """The forks in the orders that these keys give; filled anew by the next call."""
        drawn = keys if self.columns is None else keys[:, self.columns]
        labelled = scratch.array("labelled", (len(ORDERED), *drawn.shape), drawn.dtype)
        np.bitwise_and(drawn, self.random, out=labelled)
        labelled |= self.label
        labelled.sort(axis=2)
        labelled &= self.place
        places = scratch.array("places", labelled.shape, np.intp)
        places[...] = labelled
        return np.asarray(places)


def _earning(
    fired: Bool[np.ndarray, "forks policies"], blocks: int
) -> Float[np.ndarray, "forks turns_and_policies"]:
    """Which places each policy earns in each turn: with n fires in a block, n of it from where the turn starts."""
    forks, policies = fired.shape
    block, rank = _layout(forks, blocks)
    fires = (np.arange(blocks)[:, None] == block).astype(np.int64) @ fired
    earning = rank[:, :, None] < fires[block][:, None]
    return earning.reshape(forks, TURNS * policies).astype(np.float64)


@functools.cache
def _layout(forks: int, blocks: int) -> tuple[Int[np.ndarray, "{forks}"], Int[np.ndarray, "{forks} turns"]]:
    """The block of each place, and how far the place is from where each turn starts in its block."""
    pieces = np.array_split(np.arange(forks), blocks)
    block = np.repeat(np.arange(blocks), [len(piece) for piece in pieces])
    turned = [np.arange(len(piece))[:, None] - np.arange(TURNS) * len(piece) // TURNS for piece in pieces]
    return block, np.concatenate([places % max(len(places), 1) for places in turned])


def _circular(
    delta: Float[np.ndarray, "forks"], fired: Bool[np.ndarray, "forks policies"]
) -> Float[np.ndarray, "forks policies"]:
    """The total of each policy with its fires moved on by 0, 1, ... places around the cell."""
    spectrum = np.fft.rfft(delta)[:, None] * np.conj(np.fft.rfft(fired, axis=0))
    return np.fft.irfft(spectrum, n=len(delta), axis=0)


Job = TypeVar("Job")
Result = TypeVar("Result")

FORKS_PER_JOB: Final = 1000  # fixed, so that sums are added in one order on any machine
SHARING: Final = 4  # arms at most that are shuffled by one sort: the totals of all of them are held at once


def control_totals(
    arms: Sequence[ArmPolicies],
    *,
    permutations: int,
    seed: int,
    advance: Callable[[int], None] = lambda forks: None,
) -> Iterator[list[dict[str, Float[np.ndarray, "permutations policies"]]]]:
    """For each arm, for each of its sets of policies, the totals under each null.

    One arm after the other is yielded, and the next ones are computed meanwhile. Arms beside one another that have
    the same task and cells are shuffled by one sort. `advance` hears of finished forks.
    """
    together = _sharing_cells(arms)
    jobs = [(sharing, job) for sharing in together for job in _jobs(sharing[0].prefork)]

    def work(job: tuple[Sequence[ArmPolicies], Cells]) -> list[list[Totals]]:
        return totals_in(*job, permutations=permutations, seed=seed)

    # The sorts and products release the interpreter's lock, so threads are enough.
    with (
        on_one_thread(),
        concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool,
    ):
        finished = _bounded_map(pool, work, jobs)
        for sharing in together:
            totals = [[nothing(policies, permutations) for policies in arm.sets] for arm in sharing]
            for job in _jobs(sharing[0].prefork):
                for total, more in zip(itertools.chain(*totals), itertools.chain(*next(finished)), strict=True):
                    total += more
                advance(len(sharing) * sum(span.stop - span.start for _, span in job))
            yield from ([dict(zip(VARIANTS, total, strict=True)) for total in of_arm] for of_arm in totals)


def judge(observed: float, totals: Float[np.ndarray, "permutations"]) -> RandomControl:
    """Mean and 95% interval of the null, and p: the share of draws, with the policy itself, that earn as much.

    A draw within rounding of the observed total earns as much, so that always firing has p = 1.
    """
    return RandomControl(
        mean=float(totals.mean()),
        interval=Interval(*middle_95(totals).tolist()),
        p=p_value(observed, totals),
        permutations=len(totals),
    )


def p_value(observed: float, totals: Float[np.ndarray, "permutations"]) -> float:
    """The share of draws, with the policy itself, that earn as much."""
    return (1 + reached(observed, totals)) / (1 + len(totals))


def reached(observed: float, totals: Float[np.ndarray, "permutations"]) -> int:
    """How many draws earn as much."""
    return int((totals >= observed - 1e-9 * max(1.0, abs(observed))).sum())


def _sharing_cells(arms: Sequence[ArmPolicies]) -> list[list[ArmPolicies]]:
    """Arms beside one another, a few at a time, that have the same task and as many forks in every cell."""

    def alike(one: Prefork, other: Prefork) -> bool:
        same_cells = (one.task, one.cells) == (other.task, other.cells)
        return same_cells and np.array_equal(one.cell, other.cell)

    together: list[list[ArmPolicies]] = []
    for arm in arms:
        if together and len(together[-1]) < SHARING and alike(together[-1][0].prefork, arm.prefork):
            together[-1].append(arm)
        else:
            together.append([arm])
    return together


def _jobs(prefork: Prefork) -> Sequence[Cells]:
    jobs: list[list[tuple[int, slice]]] = []
    size = FORKS_PER_JOB
    for index, span in prefork.spans():
        if size >= FORKS_PER_JOB:
            jobs.append([])
            size = 0
        jobs[-1].append((index, span))
        size += span.stop - span.start
    return jobs


def _bounded_map(
    pool: concurrent.futures.ThreadPoolExecutor, work: Callable[[Job], Result], jobs: Sequence[Job]
) -> Iterator[Result]:
    """Results in order, with only a few jobs ahead: each holds arrays as large as the answer."""
    ahead = 2 * (os.cpu_count() or 1)
    waiting = [pool.submit(work, job) for job in jobs[:ahead]]
    for job in [*jobs[ahead:], *[None] * min(ahead, len(jobs))]:
        yield waiting.pop(0).result()
        if job is not None:
            waiting.append(pool.submit(work, job))
