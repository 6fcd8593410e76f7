"""Mean dR by what drift had done to the frozen model, so that a verdict is not the schedule's.

A mean over a schedule weighs severities as the schedule happens to visit them. Here forks are sorted by r_hold over
the checkpoint's clean return, at registered edges.

r_hold enters the severity and, with the other sign, dR: where a fork's HOLD episodes came out low by chance,
severity and dR are both too high. `fresh_mean` is free of that: the even episodes say how severe it is, the odd
ones what updating was worth.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from jaxtyping import Float, Int

from worldfork.desk.scoring.intervals import student_t
from worldfork.desk.scoring.judgement import Severity
from worldfork.desk.scoring.partition import group_means
from worldfork.desk.scoring.undefined import Figure, Undefined

__all__ = ["EDGES", "severity"]

EDGES: Final = (0.5, 0.75, 0.95)  # of r_hold / clean return, where a registration does not say otherwise


def severity(
    r_hold: Float[np.ndarray, "forks"],
    delta: Float[np.ndarray, "forks"],
    clean: Float[np.ndarray, "forks"],
    checkpoint: Int[np.ndarray, "forks"],
    *,
    edges: Sequence[float] = EDGES,
    hold: Float[np.ndarray, "forks episodes"] | None = None,
    update: Float[np.ndarray, "forks episodes"] | None = None,
) -> tuple[Severity, ...] | Undefined:
    """Every bin, the most severe first. `clean` is the clean return of each fork's checkpoint."""
    if not len(delta):
        return Undefined("there are no forks")
    if np.isnan(clean).any():
        return Undefined("the ledger does not say the clean return of every checkpoint")
    if (clean <= 0).any():
        return Undefined("a checkpoint's clean return is not positive, so a share of it means nothing")
    inner = np.asarray(edges, dtype=np.float64)
    inside = np.searchsorted(inner, r_hold / clean, side="right")
    fresh = _fresh(hold, update, clean, inner)
    bounds = [None, *(float(edge) for edge in inner), None]
    return tuple(
        _bin(bounds[index], bounds[index + 1], delta, checkpoint, inside == index, fresh, index)
        for index in range(len(inner) + 1)
    )


def _bin(
    low: float | None,
    high: float | None,
    delta: Float[np.ndarray, "forks"],
    checkpoint: Int[np.ndarray, "forks"],
    inside: np.ndarray,
    fresh: tuple[np.ndarray, np.ndarray] | Undefined,
    index: int,
) -> Severity:
    here = delta[inside]
    nothing = Undefined("no fork is so severe" if high is not None else "no fork is so mild")
    by_checkpoint = group_means(here, checkpoint[inside], int(checkpoint.max()) + 1)
    by_checkpoint = by_checkpoint[~np.isnan(by_checkpoint)]
    fresh_mean: Figure
    if isinstance(fresh, Undefined):
        fresh_mean = fresh
    else:
        fresh_here = fresh[1][fresh[0] == index]
        fresh_mean = float(fresh_here.mean()) if len(fresh_here) else nothing
    return Severity(
        low=low,
        high=high,
        forks=len(here),
        checkpoints=len(by_checkpoint),
        helped=int((here > 0).sum()),
        mean=float(here.mean()) if len(here) else nothing,
        checkpoint_mean=float(by_checkpoint.mean()) if len(here) else nothing,
        student_t=student_t(by_checkpoint),
        fresh_mean=fresh_mean,
    )


def _fresh(
    hold: Float[np.ndarray, "forks episodes"] | None,
    update: Float[np.ndarray, "forks episodes"] | None,
    clean: Float[np.ndarray, "forks"],
    inner: Float[np.ndarray, "edges"],
) -> tuple[Int[np.ndarray, "whole"], Float[np.ndarray, "whole"]] | Undefined:
    """The bin of each fork by its even episodes, and its dR by the odd ones, for forks that have them all."""
    if hold is None or update is None or hold.shape[1] < 2:
        return Undefined("it needs at least two episodes per fork, in the lists `hold` and `update`")
    whole = ~(np.isnan(hold) | np.isnan(update)).any(axis=1)
    if not whole.any():
        return Undefined("no fork has all of its episodes")
    even, odd = hold[whole, ::2].mean(axis=1), (update - hold)[whole, 1::2].mean(axis=1)
    return np.searchsorted(inner, even / clean[whole], side="right"), odd
