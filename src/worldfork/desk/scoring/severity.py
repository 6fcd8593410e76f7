"""Mean dR by what drift had done to the frozen model, so that a verdict is not the schedule's.

A mean over a schedule weighs severities as the schedule happens to visit them. Here forks are sorted by r_hold over
the checkpoint's clean return, at registered edges.

r_hold enters the severity and, with the other sign, dR: where a fork's HOLD episodes came out low by chance,
severity and dR are both too high. `fresh` is free of that: half of the episodes say how severe it is and the other
half what updating was worth, with the halves in both roles.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from worldfork.desk.scoring.intervals import difference_t
from worldfork.desk.scoring.judgement import FreshSeverity, Severity
from worldfork.desk.scoring.partition import group_means
from worldfork.desk.scoring.undefined import Undefined

__all__ = ["EDGES", "severity"]

EDGES: Final = (0.5, 0.75, 0.95)  # of r_hold / clean return, where a registration does not say otherwise


class Half(NamedTuple):
    """Every fork placed by one half of its episodes and valued by the other half."""

    severity: Int[np.ndarray, "whole"]
    worth: Float[np.ndarray, "whole"]
    checkpoint: Int[np.ndarray, "whole"]


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
    halves = _halves(hold, update, clean, checkpoint, inner)
    bounds = [None, *(float(edge) for edge in inner), None]
    return tuple(
        _bin(bounds[index], bounds[index + 1], delta, checkpoint, inside == index, halves, index)
        for index in range(len(inner) + 1)
    )


def _bin(
    low: float | None,
    high: float | None,
    delta: Float[np.ndarray, "forks"],
    checkpoint: Int[np.ndarray, "forks"],
    inside: np.ndarray,
    halves: tuple[Half, Half] | Undefined,
    index: int,
) -> Severity:
    here = delta[inside]
    nothing = Undefined("no fork is so severe" if high is not None else "no fork is so mild")
    by_checkpoint = group_means(here, checkpoint[inside], int(checkpoint.max()) + 1)
    by_checkpoint = by_checkpoint[~np.isnan(by_checkpoint)]
    return Severity(
        low=low,
        high=high,
        forks=len(here),
        checkpoints=len(by_checkpoint),
        helped=int((here > 0).sum()),
        mean=float(here.mean()) if len(here) else nothing,
        checkpoint_mean=float(by_checkpoint.mean()) if len(here) else nothing,
        student_t=difference_t(by_checkpoint),
        fresh=halves if isinstance(halves, Undefined) else _fresh(halves, index, nothing),
    )


def _fresh(halves: tuple[Half, Half], index: int, nothing: Undefined) -> FreshSeverity:
    """Either half's mean within a checkpoint, the mean of both (or of the one there is), then over checkpoints.

    All forks of both halves pooled would lean the other way: a fork that the valuing half would have placed here
    too would count once more, in the denominator, and so weigh less than one that it would not have.
    """
    groups = 1 + max(int(half.checkpoint.max()) for half in halves)
    chosen = [half.severity == index for half in halves]
    means = np.array([
        group_means(half.worth[here], half.checkpoint[here], groups)
        for half, here in zip(halves, chosen, strict=True)
    ])  # fmt: skip
    by_checkpoint = np.nanmean(means[:, ~np.isnan(means).all(axis=0)], axis=0)
    even, odd = (int(here.sum()) for here in chosen)
    return FreshSeverity(
        mean=float(by_checkpoint.mean()) if len(by_checkpoint) else nothing,
        student_t=difference_t(by_checkpoint),
        forks_by_even=even,
        forks_by_odd=odd,
        checkpoints=len(by_checkpoint),
    )


def _halves(
    hold: Float[np.ndarray, "forks episodes"] | None,
    update: Float[np.ndarray, "forks episodes"] | None,
    clean: Float[np.ndarray, "forks"],
    checkpoint: Int[np.ndarray, "forks"],
    inner: Float[np.ndarray, "edges"],
) -> tuple[Half, Half] | Undefined:
    """Forks with all of their episodes, placed by the even ones and valued by the odd ones, and the reverse."""
    if hold is None or update is None or hold.shape[1] < 2:
        return Undefined("it needs at least two episodes per fork, in the lists `hold` and `update`")
    whole = ~(np.isnan(hold) | np.isnan(update)).any(axis=1)
    if not whole.any():
        return Undefined("no fork has all of its episodes")
    held, delta, clean = hold[whole], (update - hold)[whole], clean[whole]

    def half(deciding: int) -> Half:
        share = held[:, deciding::2].mean(axis=1) / clean
        worth = delta[:, 1 - deciding :: 2].mean(axis=1)
        return Half(np.searchsorted(inner, share, side="right"), worth, checkpoint[whole])

    return half(0), half(1)
