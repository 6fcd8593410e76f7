"""Does a policy earn more than firing as often at random (paper, "Trigger rankings do not demonstrably transfer")?

Three nulls, all keeping the number of fires in every cell: fires permuted freely within the cell, permuted within
contiguous time blocks of it, and shifted around it in a circle. Signals and dR are both autocorrelated along a
stream, and only the shift respects that (docs/scoring.md has the false-positive rates).

Every policy is tested against the same draws. For one cell and one draw, dR is put in random order; a policy with n
fires there earns the sum of n in a row. So one sort serves all policies, and a matrix product adds them up.
"""

import concurrent.futures
import dataclasses
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

import numpy as np
import threadpoolctl
from jaxtyping import Bool, Float, UInt

from worldfork.desk.reading.prefork import Prefork
from worldfork.desk.scoring.draws import cell_draws
from worldfork.desk.scoring.records import RandomControl
from worldfork.desk.scoring.undefined import Interval

__all__ = ["BLOCKS", "Policies", "control_totals", "interval", "judge", "p_value"]

Job = TypeVar("Job")
Result = TypeVar("Result")

BLOCKS: Final = (2, 4, 6)
VARIANTS: Final = ("random", *(f"blocks-{count}" for count in BLOCKS), "shift")
FORKS_PER_JOB: Final = 1000  # fixed, so that sums are added in one order on any machine
TURNS: Final = 4  # draws from one random order
CHUNK: Final = 1 << 16  # elements sorted at a time: small enough to stay in cache


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
) -> list[dict[str, Float[np.ndarray, "permutations policies"]]]:
    """For each set of policies and each variant, the totals under that null. `advance` hears of finished forks."""
    widths = [policies.fired.shape[1] for policies in sets]

    def nothing() -> dict[str, Float[np.ndarray, "permutations policies"]]:
        return {name: np.zeros((permutations, sum(widths))) for name in VARIANTS}

    def work(job: list[tuple[int, slice]]) -> dict[str, Float[np.ndarray, "permutations policies"]]:
        earned = nothing()
        for index, span in job:
            _add_cell(earned, prefork, index, span, delta, sets, seed)
        return earned

    totals, jobs = nothing(), _jobs(prefork)
    # The sorts and products release the interpreter's lock, so threads are enough; a product that starts threads of
    # its own would only get in their way.
    with (
        threadpoolctl.threadpool_limits(1, user_api="blas"),
        concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool,
    ):
        for job, earned in zip(jobs, _bounded_map(pool, work, jobs), strict=True):
            for name in VARIANTS:
                totals[name] += earned[name]
            advance(sum(span.stop - span.start for _, span in job))
    bounds = np.cumsum([0, *widths])
    return [{name: totals[name][:, start:stop] for name in VARIANTS} for start, stop in itertools.pairwise(bounds)]


def judge(observed: float, totals: Float[np.ndarray, "permutations"]) -> RandomControl:
    """Mean and 95% interval of the null, and p: the share of draws, with the policy itself, that earn as much.

    A draw within rounding of the observed total earns as much, so that always firing has p = 1.
    """
    return RandomControl(
        mean=float(totals.mean()),
        interval=interval(totals),
        p=p_value(observed, totals),
        permutations=len(totals),
    )


def interval(totals: Float[np.ndarray, "permutations"]) -> Interval:
    """The 95% interval of a null."""
    low, high = np.quantile(totals, [0.025, 0.975])
    return Interval(float(low), float(high))


def p_value(observed: float, totals: Float[np.ndarray, "permutations"]) -> float:
    """The share of draws, with the policy itself, that earn as much."""
    reached = int((totals >= observed - 1e-9 * max(1.0, abs(observed))).sum())
    return (1 + reached) / (1 + len(totals))


def _add_cell(
    totals: dict[str, Float[np.ndarray, "permutations policies"]],
    prefork: Prefork,
    index: int,
    span: slice,
    delta: Float[np.ndarray, "forks"],
    sets: Sequence[Policies],
    seed: int,
) -> None:
    """Add what each set's policies earn in one cell under each null."""
    groups = _groups(delta[span], sets, span)
    permutations = len(totals["random"])
    forks = span.stop - span.start
    draws = cell_draws("control", prefork.cells[index], seed=seed, task=prefork.task)
    shift = draws.random(permutations)
    for group in groups:
        moved = (shift * len(group.delta)).astype(np.int64)
        earned = _circular(group.delta, group.fired).take(moved, axis=0)
        for columns in group.columns:
            totals["shift"][:, columns] += earned
    kind = np.uint32 if forks <= 32 else np.uint64
    orders = [
        (totals[variant], group, _Order(group, blocks, kind))
        for group in groups
        for variant, blocks in zip(VARIANTS, (1, *BLOCKS), strict=False)
    ]
    rows = max(1, CHUNK // forks)
    for start in range(0, permutations, rows * TURNS):
        stop = min(start + rows * TURNS, permutations)
        shape = (-(-(stop - start) // TURNS), forks)
        keys = draws.integers(0, np.iinfo(kind).max, shape, dtype=kind, endpoint=True)
        for total, group, order in orders:
            earned = order.totals(keys)[: stop - start]
            for columns in group.columns:
                total[start:stop, columns] += earned


@dataclasses.dataclass(frozen=True)
class _Group:
    """Policies that are scored on the same forks of a cell, and the columns their totals are for."""

    columns: tuple[slice, ...]
    scored: Bool[np.ndarray, "attempted"]
    delta: Float[np.ndarray, "forks"]
    fired: Bool[np.ndarray, "forks policies"]


def _groups(delta: Float[np.ndarray, "attempted"], sets: Sequence[Policies], span: slice) -> list[_Group]:
    bounds = np.cumsum([0, *(policies.fired.shape[1] for policies in sets)]).tolist()
    columns: list[tuple[slice, ...]] = [(slice(start, stop),) for start, stop in itertools.pairwise(bounds)]
    scored = [policies.scored[span] for policies in sets]
    fired = [policies.fired[span] for policies in sets]
    if all(keep.all() for keep in scored):  # as in most cells: one sort for all sets,
        if all(np.array_equal(fired[0], flags) for flags in fired[1:]):  # and in many of them one product
            columns, fired = [tuple(column[0] for column in columns)], fired[:1]
        else:
            columns, fired = [(slice(0, bounds[-1]),)], [np.hstack(fired)]
        scored = scored[:1]
    return [
        _Group(where, keep, delta[keep], flags[keep])
        for where, keep, flags in zip(columns, scored, fired, strict=True)
        if keep.any() and flags.shape[1]
    ]


class _Order:
    """dR in random order within each time block of a cell, longer blocks first.

    A sort key holds a fork's block in its three highest bits, its place in the lowest, random bits between: sorting
    the keys orders the places at random within each block. A random order read from any place around its circle is
    as random, so each serves a few draws.
    """

    def __init__(self, group: _Group, blocks: int, kind: type[np.unsignedinteger[Any]]) -> None:
        forks, policies = group.fired.shape
        pieces = np.array_split(np.arange(forks), blocks)
        self.columns = None if group.scored.all() else np.flatnonzero(group.scored)
        self.delta = group.delta
        earning = np.zeros((forks, TURNS, policies))  # once sorted, a policy earns n of each block from the start
        for piece in pieces:
            place = np.arange(len(piece))[:, None] - np.arange(TURNS) * len(piece) // TURNS
            earning[piece] = (place % max(len(piece), 1))[:, :, None] < group.fired[piece].sum(axis=0)
        self.earning = earning.reshape(forks, TURNS * policies)
        width, place_bits = np.iinfo(kind).bits, max(1, (forks - 1).bit_length())
        block = np.repeat(np.arange(blocks), [len(piece) for piece in pieces]).astype(kind)
        self.label = (block << kind(width - 3)) | np.arange(forks, dtype=kind)
        self.place = kind((1 << place_bits) - 1)
        self.random = kind((1 << (width - 3)) - (1 << place_bits))

    def totals(self, keys: UInt[np.ndarray, "rows attempted"]) -> Float[np.ndarray, "draws policies"]:
        """The draws that these keys give, `TURNS` for each row."""
        labelled = (keys if self.columns is None else keys[:, self.columns]) & self.random
        labelled |= self.label
        labelled.sort(axis=1)
        labelled &= self.place
        earned = self.delta.take(labelled.astype(np.intp)) @ self.earning
        return earned.reshape(len(keys) * TURNS, -1)


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
