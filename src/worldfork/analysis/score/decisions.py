"""Signals into decisions, decisions into return (paper, "A ranking score is not policy utility").

A policy fires where its signal reaches a threshold, and its total is the sum of dR over the forks where it fired.
"""

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Final

import numpy as np
from jaxtyping import Bool, Float

from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.read.prefork import ForkCodes, ForkFlags, ForkValues, Prefork
from worldfork.analysis.read.triggers import Alarms, Reading, Signal
from worldfork.analysis.score.clusters import partition
from worldfork.analysis.score.intervals import ROUNDING
from worldfork.analysis.score.undefined import Undefined
from worldfork.triggers.policy import beyond_quantile


def tied(values: Float[np.ndarray, "values"]) -> Float[np.ndarray, "values"]:
    """Return the same values, with all that are equal but for rounding replaced by the smallest of them; NaN stays
    NaN.

    >>> tied(np.array([0.3, 0.1 + 0.2, 0.4])).tolist()
    [0.3, 0.3, 0.4]
    """
    defined = np.flatnonzero(~np.isnan(values))
    order = defined[np.argsort(values[defined], kind="stable")]
    first = np.flatnonzero(rises(values[order]))
    found = values.copy()
    found[order] = np.repeat(values[order][first], np.diff(np.r_[first, len(order)]))
    return found


def rises(ascending: Float[np.ndarray, "values"]) -> Bool[np.ndarray, "values"]:
    """Return where a value in ascending order exceeds the one before it by more than rounding; the first one
    does."""
    below, above = ascending[:-1], ascending[1:]
    # Infinities are equal to themselves: their difference would be undefined.
    with np.errstate(invalid="ignore"):
        gap = np.where(below == above, 0.0, above - below)
    size = np.maximum(np.abs(below), np.abs(above))
    apart = gap > ROUNDING * np.where(np.isinf(size), 0.0, size)
    return np.r_[True, apart][: len(ascending)]


def fires(signal: ForkValues, threshold: float | ForkValues) -> ForkFlags:
    """Return where the signal reaches the threshold. A missing signal never fires."""
    return signal >= threshold


def policy_total(fired: ForkFlags, delta: ForkValues) -> float:
    """Return the total dR where it fires: the gain over never updating."""
    return float(delta[fired].sum())


def fit_threshold(signal: ForkValues, delta: ForkValues) -> float:
    """Return the threshold with the largest total: -inf, a midpoint of consecutive distinct values, or +inf.

    Values that differ by rounding alone are not distinct. Totals that differ by rounding alone are equal, and equal
    totals go to the larger threshold: fewer updates.
    """
    defined = ~np.isnan(signal)
    order = np.argsort(signal[defined], kind="stable")
    values, gains = signal[defined][order], delta[defined][order]
    starts = np.flatnonzero(rises(values))
    # total[i]: fire on everything from the i-th distinct value up; the last entry fires on nothing.
    total = np.r_[np.cumsum(gains[::-1])[::-1][starts], 0.0]
    best = float(total.max())
    cut = int(np.flatnonzero(total >= best - 1e-9 * max(1.0, abs(best)))[-1])
    if cut == len(starts):
        return math.inf
    return -math.inf if cut == 0 else between(float(values[starts[cut] - 1]), float(values[starts[cut]]))


def leave_one_checkpoint_out(
    signal: ForkValues, delta: ForkValues, checkpoint: ForkCodes, *, count: int
) -> Float[np.ndarray, "{count}"]:
    """Return, for each checkpoint, the threshold that suits the other checkpoints' forks best."""
    return np.array(
        [fit_threshold(signal[other], delta[other]) for other in checkpoint != np.arange(count)[:, None]]
    )


def between(below: float, above: float) -> float:
    middle = below + (above - below) / 2
    return middle if below < middle else above  # the two smallest numbers there are have no midpoint


def running_quantile(signal: ForkValues, prefork: Prefork, *, rate: float) -> ForkFlags:
    """Return where the label-free rule fires: above the (1 - rate) quantile of its stream's earlier values."""
    fired = np.zeros(len(signal), bool)
    for _, span in prefork.spans():
        earlier: list[float] = []
        for fork, value in enumerate(signal[span].tolist(), start=span.start):
            if value == value:  # not missing
                fired[fork] = beyond_quantile(earlier, value, rate=rate)
    return fired


@dataclasses.dataclass(frozen=True)
class Divergence:
    """The forks that the divergence rule drops, and the cells in which it does not apply."""

    dropped: ForkFlags
    off: tuple[str, ...]  # one reason per cell without the rule


def diverged(forks: Forks, fraction: float | None) -> Divergence:
    """Return the forks that diverged: r_update < fraction * mean r_hold of the cell's attempted forks.

    Below a mean of zero a fraction of it would be a reward for collapse: the rule is off in such cells. A
    `fraction` of None switches it off everywhere. A branch without a finite return has diverged by any rule.
    """
    dropped = forks.outcomes.failed.copy()
    off = []
    if fraction is not None:
        for index, span in forks.prefork.spans():
            reference = float(forks.outcomes.r_hold[span].mean())
            if reference > 0:
                dropped[span] |= forks.outcomes.r_update[span] < fraction * reference
            else:
                key = forks.prefork.cells[index]
                off.append(
                    f"cell {key.checkpoint}/{key.direction}/{key.stream_seed}: mean r_hold is {reference:.4g}, "
                    "and the divergence rule needs a positive one"
                )
    return Divergence(dropped, tuple(off))


def quarantined(forks: Forks) -> ForkFlags:
    """Return the forks that lack everything that was recorded before a fork, where other forks of the task have it.

    Such rows are of an earlier format, or of a run that logged nothing. Their returns count in every mean, and no
    trigger is scored on them: a missing signal never fires, and would pass for a decision not to update.
    """
    signals = list(forks.prefork.signals.values())
    missing = np.isnan(signals).all(axis=0) if signals else np.ones(len(forks), bool)
    return np.asarray(missing) if not missing.all() else np.zeros(len(forks), bool)


ALONE: Final = Undefined("leave-one-checkpoint-out needs at least two checkpoints")
NO_SIGNAL: Final = Undefined("an alarm is a decision already: it has no level to rank or to threshold")


@dataclasses.dataclass(frozen=True)
class Decisions:
    """The decisions of a trigger on every attempted fork."""

    signal: np.ndarray | None  # values that differ by rounding alone made equal; None for alarms
    threshold: np.ndarray | None  # per fork, that of its checkpoint; None where there is none
    threshold_of_all: float | None  # fitted on all scored forks together; None where there is no signal
    fired: ForkFlags | Undefined
    running: ForkFlags | Undefined


@dataclasses.dataclass(frozen=True)
class Evidence:
    """The forks that the figures of a task were computed from, which diverged, and where every trigger fired."""

    forks: Forks
    divergence: Divergence
    retained: Mapping[str, Decisions]  # thresholds fitted on retained forks
    all_attempted: Mapping[str, Decisions]
    quarantined: ForkFlags

    def scored(self, estimand: str) -> ForkFlags:
        """Return the forks of an estimand on which triggers are scored."""
        kept = ~self.quarantined
        return kept & ~self.divergence.dropped if estimand == "retained" else kept

    @functools.cached_property
    def kept(self) -> Forks:
        """The retained forks; where nothing diverged, the very same record as all attempted."""
        dropped = self.divergence.dropped
        return self.forks.take(~dropped) if dropped.any() else self.forks


def decide(
    readings: Mapping[str, Reading], forks: Forks, *, scored: ForkFlags, rate: float
) -> dict[str, Decisions]:
    """Return where every trigger fires.

    Thresholds are fitted on the scored forks, and are undefined where those with the signal are all of one
    checkpoint: whatever the others attempted, there is nothing to fit on. The running quantile reads no label and
    sees all attempted forks.
    """
    parts = partition(forks.prefork)
    checkpoint, count = parts.checkpoint, len(parts.checkpoints)
    decisions = {}
    for name, reading in readings.items():
        if isinstance(reading, Alarms):
            decisions[name] = Decisions(None, None, None, reading.fired, NO_SIGNAL)
        elif isinstance(reading, Signal):
            signal, threshold = tied(reading.values), None
            fired: np.ndarray | Undefined = ALONE
            if len(np.unique(checkpoint[scored & ~np.isnan(signal)])) > 1:
                delta, of_scored = forks.delta[scored], checkpoint[scored]
                threshold = leave_one_checkpoint_out(signal[scored], delta, of_scored, count=count)[checkpoint]
                fired = fires(signal, threshold)
            of_all = fit_threshold(signal[scored], forks.delta[scored])
            running = running_quantile(signal, forks.prefork, rate=rate)
            decisions[name] = Decisions(signal, threshold, of_all, fired, running)
    return decisions
