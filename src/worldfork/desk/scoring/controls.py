"""Does a policy earn more than firing as often at random (paper, "Trigger rankings do not demonstrably transfer")?

Three nulls, all keeping the number of fires in every cell: fires permuted freely within the cell, permuted within
contiguous time blocks of it, and shifted around it in a circle. Signals and dR are both autocorrelated along a
stream, and only the shift respects that (docs/scoring.md has the false-positive rates).

Every policy is tested against the same draws. For one cell and one draw, dR is put in random order; a policy with n
fires there earns the sum of n in a row. So one sort serves all policies, and a matrix product adds them up.
"""

import concurrent.futures
import dataclasses
import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import numpy as np
from jaxtyping import Bool, Float, Int, UInt

from worldfork.desk.reading.prefork import Prefork
from worldfork.desk.scoring.draws import cell_draws
from worldfork.desk.scoring.records import RandomControl
from worldfork.desk.scoring.undefined import Interval

__all__ = ["BLOCKS", "Policies", "control_totals", "intervals", "judge", "p_value"]

_Totals = dict[str, Float[np.ndarray, "permutations _"]]  # under each null, of a set's policies
Job = TypeVar("Job")
Result = TypeVar("Result")

BLOCKS: Final = (2, 4, 6)
VARIANTS: Final = ("random", *(f"blocks-{count}" for count in BLOCKS), "shift")
FORKS_PER_JOB: Final = 1000  # fixed, so that sums are added in one order on any machine
TURNS: Final = 4  # draws from one random order
ROWS: Final = 1250  # orders sorted at a time,
CHUNK: Final = 1 << 16  # and elements at most: few enough to stay in the cache


@dataclasses.dataclass(frozen=True)
class Policies:
    """Decisions of several policies on the forks where `scored`; the rest of the forks are left out."""

    scored: Bool[np.ndarray, "forks"]
    fired: Bool[np.ndarray, "forks policies"]


def control_totals(
    prefork: Prefork,
    delta: Float[np.ndarray, "forks"],
    sets: Sequence[Policies],
    *,
    permutations: int,
    seed: int,
    advance: Callable[[int], None] = lambda forks: None,
) -> list[_Totals]:
    """For each set of policies and each variant, the totals under that null. `advance` hears of finished forks."""
    totals, jobs = [_nothing(policies, permutations) for policies in sets], _jobs(prefork)

    def work(job: list[tuple[int, slice]]) -> list[_Totals]:
        same = _same(sets, slice(job[0][1].start, job[-1][1].stop))
        distinct = [sets[index] for index in dict.fromkeys(same)]
        earned = [_nothing(policies, permutations) for policies in distinct]
        cells = [
            _Cell(
                cell_draws("control", prefork.cells[index], seed=seed, task=prefork.task),
                _groups(delta[span], distinct, span),
                forks=span.stop - span.start,
            )
            for index, span in job
        ]
        _add_cells(earned, cells, permutations)
        return [earned[list(dict.fromkeys(same)).index(first)] for first in same]

    import threadpoolctl  # a machine that fits thresholds and scores nothing need not have it

    # The sorts and products release the interpreter's lock, so threads are enough; a product that starts threads of
    # its own would only get in their way.
    with (
        threadpoolctl.threadpool_limits(1, user_api="blas"),
        concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool,
    ):
        for job, earned in zip(jobs, _bounded_map(pool, work, jobs), strict=True):
            for total, more in zip(totals, earned, strict=True):
                for name in VARIANTS:
                    total[name] += more[name]
            advance(sum(span.stop - span.start for _, span in job))
    return totals


def judge(observed: float, totals: Float[np.ndarray, "permutations"]) -> RandomControl:
    """Mean and 95% interval of the null, and p: the share of draws, with the policy itself, that earn as much.

    A draw within rounding of the observed total earns as much, so that always firing has p = 1.
    """
    return RandomControl(
        mean=float(totals.mean()),
        interval=Interval(*intervals(totals).tolist()),
        p=p_value(observed, totals),
        permutations=len(totals),
    )


def intervals(totals: Float[np.ndarray, "*nulls permutations"]) -> Float[np.ndarray, "2 *nulls"]:
    """Both ends of the 95% interval of each of several nulls."""
    return np.asarray(np.quantile(totals, [0.025, 0.975], axis=-1))


def p_value(observed: float, totals: Float[np.ndarray, "permutations"]) -> float:
    """The share of draws, with the policy itself, that earn as much."""
    reached = int((totals >= observed - 1e-9 * max(1.0, abs(observed))).sum())
    return (1 + reached) / (1 + len(totals))


def _nothing(policies: Policies, permutations: int) -> _Totals:
    return {name: np.zeros((permutations, policies.fired.shape[1])) for name in VARIANTS}


def _same(sets: Sequence[Policies], span: slice) -> list[int]:
    """For each set, the first one that is the same on these forks: most often nothing was dropped from them, and
    one sum serves retained and all attempted forks."""

    def alike(one: Policies, other: Policies) -> bool:
        return all(
            np.array_equal(getattr(one, name)[span], getattr(other, name)[span]) for name in ("scored", "fired")
        )

    return [next(first for first, known in enumerate(sets) if alike(known, policies)) for policies in sets]


def _add_cells(totals: Sequence[_Totals], cells: Sequence["_Cell"], permutations: int) -> None:
    """Add what each set's policies earn in the cells under each null: some draws of all cells at a time, so that
    their totals stay in the cache."""
    scratch = _Scratch()
    for cell in cells:
        cell.add_shifts([total["shift"] for total in totals], scratch)
    rows = max(1, min(ROWS, *(CHUNK // cell.forks for cell in cells)))
    for start in range(0, permutations, rows * TURNS):
        stop = min(start + rows * TURNS, permutations)
        some = {name: [total[name][start:stop] for total in totals] for name in VARIANTS}
        for cell in cells:
            cell.add_orders(some, scratch)


class _Cell:
    """One cell's draws, in the order in which they are made: shifts first, then sort keys."""

    def __init__(self, draws: np.random.Generator, groups: Sequence["_Group"], *, forks: int) -> None:
        self.forks = forks
        self._draws, self._groups = draws, groups
        self._kind = np.uint32 if forks <= 32 else np.uint64
        self._orders = [
            (variant, group, _Order(group, blocks, self._kind))
            for group in groups
            for variant, blocks in zip(VARIANTS, (1, *BLOCKS), strict=False)
        ]

    def add_shifts(self, totals: Sequence[Float[np.ndarray, "permutations _"]], scratch: "_Scratch") -> None:
        shift = self._draws.random(len(totals[0]))
        for group in self._groups:
            moved = (shift * len(group.delta)).astype(np.int64)
            around = _circular(group.delta, group.fired)
            earned = scratch.array("shifted", (len(shift), around.shape[1]), np.float64)
            np.take(around, moved, axis=0, out=earned, mode="clip")
            group.add(earned, totals)

    def add_orders(self, totals: Mapping[str, Sequence[Float[np.ndarray, "draws _"]]], scratch: "_Scratch") -> None:
        count = len(totals["random"][0])
        shape = (-(-count // TURNS), self.forks)
        keys = self._draws.integers(0, np.iinfo(self._kind).max, shape, dtype=self._kind, endpoint=True)
        for variant, group, order in self._orders:
            group.add(order.totals(keys, scratch)[:count], totals[variant])


class _Scratch:
    """Arrays that are filled again and again: asking the system for new ones takes as long as filling them."""

    def __init__(self) -> None:
        self._kept: dict[str, np.ndarray] = {}

    def array(self, name: str, shape: tuple[int, int], kind: Any) -> Any:
        """The array of that name in this shape, with whatever it was last filled with."""
        size = shape[0] * shape[1]
        kept = self._kept.get(name)
        if kept is None or kept.size < size or kept.dtype != kind:
            kept = self._kept[name] = np.empty(size, kind)
        return kept[:size].reshape(shape)


@dataclasses.dataclass(frozen=True)
class _Group:
    """Policies of some sets that are scored on the same forks of a cell. What they earn has a column for each
    policy: of each set in turn, or of all sets at once where they fire alike."""

    sets: tuple[int, ...]
    alike: bool
    scored: Bool[np.ndarray, "attempted"]
    delta: Float[np.ndarray, "forks"]
    fired: Bool[np.ndarray, "forks policies"]

    def add(
        self, earned: Float[np.ndarray, "draws policies"], totals: Sequence[Float[np.ndarray, "draws _"]]
    ) -> None:
        """Add the columns to the totals of the sets that they are for."""
        start = 0
        for index in self.sets:
            width = totals[index].shape[1]
            totals[index][...] += earned[:, start : start + width]
            start += 0 if self.alike else width


def _groups(delta: Float[np.ndarray, "attempted"], sets: Sequence[Policies], span: slice) -> list[_Group]:
    scored = [policies.scored[span] for policies in sets]
    fired = [policies.fired[span] for policies in sets]
    every = tuple(range(len(sets)))
    if all(keep.all() for keep in scored):  # as in most cells: one sort for all sets,
        alike = all(np.array_equal(fired[0], flags) for flags in fired[1:])  # and in many of them one product
        flags = fired[0] if alike else np.hstack(fired)
        groups = [_Group(every, alike, scored[0], delta, flags)]
    else:
        groups = [
            _Group((index,), False, scored[index], delta[scored[index]], fired[index][scored[index]])
            for index in every
        ]
    return [group for group in groups if group.scored.any() and group.fired.shape[1]]


class _Order:
    """dR in random order within each time block of a cell, longer blocks first.

    A sort key holds a fork's block in its three highest bits, its place in the lowest, random bits between: sorting
    the keys orders the places at random within each block. A random order read from any place around its circle is
    as random, so each serves a few draws.
    """

    def __init__(self, group: _Group, blocks: int, kind: type[np.unsignedinteger[Any]]) -> None:
        forks, policies = group.fired.shape
        block, rank = _layout(forks, blocks)
        self.columns = None if group.scored.all() else np.flatnonzero(group.scored)
        self.delta = group.delta
        fires = (np.arange(blocks)[:, None] == block).astype(np.int64) @ group.fired
        # Once sorted, a policy with n fires in a block earns n of it from the start.
        earning = rank[:, :, None] < fires[block][:, None]
        self.earning = earning.reshape(forks, TURNS * policies).astype(np.float64)
        width, place_bits = np.iinfo(kind).bits, max(1, (forks - 1).bit_length())
        self.label = (block.astype(kind) << kind(width - 3)) | np.arange(forks, dtype=kind)
        self.place = kind((1 << place_bits) - 1)
        self.random = kind((1 << (width - 3)) - (1 << place_bits))

    def totals(
        self, keys: UInt[np.ndarray, "rows attempted"], scratch: _Scratch
    ) -> Float[np.ndarray, "draws policies"]:
        """The draws that these keys give, `TURNS` for each row; filled anew by the next call."""
        drawn = keys if self.columns is None else keys[:, self.columns]
        labelled = scratch.array("labelled", drawn.shape, drawn.dtype)
        np.bitwise_and(drawn, self.random, out=labelled)
        labelled |= self.label
        labelled.sort(axis=1)
        labelled &= self.place
        places = scratch.array("places", labelled.shape, np.intp)
        places[...] = labelled
        ordered = scratch.array("ordered", labelled.shape, np.float64)
        self.delta.take(places, out=ordered, mode="clip")  # no place is out of bounds, and clipping costs nothing
        earned = scratch.array("earned", (len(keys), self.earning.shape[1]), np.float64)
        np.matmul(ordered, self.earning, out=earned)
        return np.asarray(earned).reshape(len(keys) * TURNS, -1)


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


def _jobs(prefork: Prefork) -> list[list[tuple[int, slice]]]:
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
