"""What is known from where in a stream a fork lies, without any signal: yardsticks, not rules.

In a registered study every stream drifts alike, so that (direction, k) alone may say where updating pays. A rule
that reads it reads the schedule, which no deployment knows. But a signal that earns no more has shown nothing
beyond time.

Two yardsticks are fitted on the other checkpoints, like every threshold: `position_table` fires where the mean dR
at that (direction, k) is positive, and `direction_clock` fires, in each direction, from some k on or up to some
k. `stratified_auc` asks what a signal knows at a fixed place: pairs of forks with one (direction, k), pooled.
"""

import math
from typing import Final

import numpy as np
from jaxtyping import Bool, Float, Int

from worldfork.desk.scoring.judgement import StratifiedAuc
from worldfork.desk.scoring.partition import group_means
from worldfork.desk.scoring.policies import fires, fit_threshold, policy_total
from worldfork.desk.scoring.undefined import Figure, Undefined

__all__ = ["direction_clock", "position_table", "strata", "stratified_auc"]

ROUNDING: Final = 1e-9


def strata(direction: Int[np.ndarray, "forks"], k: Int[np.ndarray, "forks"]) -> Int[np.ndarray, "forks"]:
    """A number for each (direction, k)."""
    _, found = np.unique(np.stack([direction, k]), axis=1, return_inverse=True)
    return found.reshape(-1)


def position_table(
    delta: Float[np.ndarray, "forks"], stratum: Int[np.ndarray, "forks"], checkpoint: Int[np.ndarray, "forks"]
) -> Bool[np.ndarray, "forks"]:
    """Fires where the mean dR of the other checkpoints' forks in the same place is positive.

    A place where no other checkpoint has a fork is not in the table: no fire. A mean that is 0 but for rounding is
    not positive.
    """
    count = int(stratum.max(initial=-1)) + 1
    fired = np.zeros(len(delta), bool)
    for left_out in np.unique(checkpoint):
        others = checkpoint != left_out
        mean = group_means(delta[others], stratum[others], count)
        size = group_means(np.abs(delta[others]), stratum[others], count)
        positive = np.nan_to_num(mean, nan=-math.inf) > ROUNDING * np.nan_to_num(size)
        fired[~others] = positive[stratum[~others]]
    return fired


def direction_clock(
    delta: Float[np.ndarray, "forks"],
    direction: Int[np.ndarray, "forks"],
    k: Int[np.ndarray, "forks"],
    checkpoint: Int[np.ndarray, "forks"],
) -> Bool[np.ndarray, "forks"]:
    """Fires, in each direction, from some k on or up to some k, whichever earned the other checkpoints more.

    The two senses matter: a world that drifts back is at its worst when the stream begins. Equal totals go to
    "from some k on".
    """
    fired = np.zeros(len(delta), bool)
    clock = k.astype(np.float64)
    for way in np.unique(direction):
        for left_out in np.unique(checkpoint):
            others = (direction == way) & (checkpoint != left_out)
            chosen = (direction == way) & (checkpoint == left_out)
            best, earned = clock, -math.inf
            for signal in (clock, -clock):
                threshold = fit_threshold(signal[others], delta[others])
                total = policy_total(fires(signal[others], threshold), delta[others])
                if total > earned + ROUNDING * max(1.0, abs(total)):
                    best, earned = signal, total
                    fired[chosen] = fires(best[chosen], threshold)
    return fired


def stratified_auc(
    signal: Float[np.ndarray, "forks"],
    positive: Bool[np.ndarray, "forks"],
    stratum: Int[np.ndarray, "forks"],
    checkpoint: Int[np.ndarray, "forks"],
) -> StratifiedAuc:
    """AUC within (direction, k), ties counting a half, missing signals left out, pairs pooled over strata."""
    known = ~np.isnan(signal)
    signal, positive, stratum, checkpoint = (part[known] for part in (signal, positive, stratum, checkpoint))
    first, second = _pairs(positive, stratum)
    ordered = np.where(signal[first] > signal[second], 1.0, np.where(signal[first] == signal[second], 0.5, 0.0))
    owners = np.stack([checkpoint[first], checkpoint[second]])
    shares = [_share(ordered[(owners != left_out).all(axis=0)]) for left_out in np.unique(checkpoint)]
    defined = [share for share in shares if not isinstance(share, Undefined)]
    alone = Undefined("leaving any checkpoint out leaves no pair of forks at one place")
    return StratifiedAuc(
        auc=_share(ordered),
        pairs=len(ordered),
        strata=len(np.unique(stratum[first])),
        without_one_low=min(defined) if defined else alone,
        without_one_high=max(defined) if defined else alone,
    )


def _pairs(
    positive: Bool[np.ndarray, "forks"], stratum: Int[np.ndarray, "forks"]
) -> tuple[Int[np.ndarray, "pairs"], Int[np.ndarray, "pairs"]]:
    """Every pair of a fork with dR > 0 and one without at one place, as indices of both."""
    first, second = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    order = np.argsort(stratum, kind="stable")
    for inside in np.split(order, np.flatnonzero(np.diff(stratum[order])) + 1):
        helped, others = inside[positive[inside]], inside[~positive[inside]]
        first.append(np.repeat(helped, len(others)))
        second.append(np.tile(others, len(helped)))
    return np.concatenate(first), np.concatenate(second)


def _share(ordered: Float[np.ndarray, "pairs"]) -> Figure:
    if not len(ordered):
        return Undefined("no place (direction, k) has forks both with dR > 0 and without")
    return float(ordered.mean())
