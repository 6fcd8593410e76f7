"""Does a policy earn more than firing as often at random (paper, "Trigger rankings do not demonstrably transfer")?

Three nulls, all keeping the number of fires in every cell: fires permuted freely within the cell, permuted within
contiguous time blocks of it, and shifted around it in a circle (shuffles.py). Signals and dR are both correlated
along a stream, and only the shift respects that (docs/scoring.md has the false-positive rates).
"""

import concurrent.futures
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

import numpy as np
from jaxtyping import Float

from worldfork.desk.reading.prefork import Prefork
from worldfork.desk.scoring.products import on_one_thread
from worldfork.desk.scoring.quantiles import middle_95
from worldfork.desk.scoring.records import RandomControl
from worldfork.desk.scoring.shuffles import (
    BLOCKS,
    VARIANTS,
    ArmPolicies,
    Cells,
    Policies,
    Totals,
    nothing,
    totals_in,
)
from worldfork.desk.scoring.undefined import Interval

__all__ = ["BLOCKS", "VARIANTS", "ArmPolicies", "Policies", "control_totals", "judge", "p_value", "reached"]

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
