"""What is known from where in a stream a fork lies, without any signal: yardsticks, not rules.

In a registered study every stream drifts alike, so that (direction, k) alone may say where updating pays. A rule
that reads it reads the schedule, which no deployment knows. But a signal that earns no more has shown nothing
beyond time.

Two yardsticks are fitted on the other checkpoints, like every threshold: `position_table` fires where the mean dR
at that (direction, k) is positive, and `direction_clock` fires, in each direction, from some k on or up to some
k. `stratified_auc` asks what a signal knows at a fixed place: pairs of forks with one (direction, k), pooled.
"""

from typing import Final

import numpy as np
from jaxtyping import Bool, Float, Int

from worldfork.desk.scoring.judgement import StratifiedAuc
from worldfork.desk.scoring.policies import fires, leave_one_checkpoint_out, policy_total
from worldfork.desk.scoring.undefined import Undefined

__all__ = ["direction_clock", "position_table", "strata", "stratified_auc"]

ROUNDING: Final = 1e-9


def strata(direction: Int[np.ndarray, "forks"], k: Int[np.ndarray, "forks"]) -> Int[np.ndarray, "forks"]:
    """A number for each (direction, k)."""
    _, which_direction = np.unique(direction, return_inverse=True)
    ks, which_k = np.unique(k, return_inverse=True)
    return np.unique(which_direction * len(ks) + which_k, return_inverse=True)[1]


def position_table(
    delta: Float[np.ndarray, "forks"], stratum: Int[np.ndarray, "forks"], checkpoint: Int[np.ndarray, "forks"]
) -> Bool[np.ndarray, "forks"]:
    """Fires where the mean dR of the other checkpoints' forks in the same place is positive.

    A place where no other checkpoint has a fork is not in the table: no fire. A mean that is 0 but for rounding is
    not positive.
    """
    mine = strata(checkpoint, stratum)
    sums = [np.bincount(group, weights=delta)[group] for group in (stratum, mine)]
    sizes = [np.bincount(group, weights=np.abs(delta))[group] for group in (stratum, mine)]
    # What is left when a checkpoint's own forks are taken out; where nothing is, nothing is above nothing.
    return sums[0] - sums[1] > ROUNDING * sizes[0]


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
    count = int(checkpoint.max(initial=-1)) + 1
    for way in np.unique(direction):
        inside = direction == way
        gains, owner = delta[inside], checkpoint[inside]
        choices, earned = [], []
        for signal in (k[inside].astype(np.float64), -k[inside].astype(np.float64)):
            thresholds = leave_one_checkpoint_out(signal, gains, owner, count=count)
            choices.append(fires(signal, thresholds[owner]))
            earned.append(_of_others(signal, gains, owner, thresholds))
        backward = earned[1] > earned[0] + ROUNDING * np.maximum(1.0, np.abs(earned[1]))
        fired[inside] = np.where(backward[owner], choices[1], choices[0])
    return fired


def _of_others(
    signal: Float[np.ndarray, "forks"],
    delta: Float[np.ndarray, "forks"],
    checkpoint: Int[np.ndarray, "forks"],
    thresholds: Float[np.ndarray, "checkpoints"],
) -> Float[np.ndarray, "checkpoints"]:
    """For each checkpoint, what its threshold earns on the forks of all others."""
    earned = np.zeros(len(thresholds))
    for threshold in np.unique(thresholds):
        flags = fires(signal, float(threshold))
        own = np.bincount(checkpoint[flags], weights=delta[flags], minlength=len(thresholds))
        chosen = thresholds == threshold
        earned[chosen] = policy_total(flags, delta) - own[chosen]
    return earned


def stratified_auc(
    signal: Float[np.ndarray, "forks"],
    positive: Bool[np.ndarray, "forks"],
    stratum: Int[np.ndarray, "forks"],
    checkpoint: Int[np.ndarray, "forks"],
) -> StratifiedAuc:
    """AUC within (direction, k), ties counting a half, missing signals left out, pairs pooled over strata."""
    known = ~np.isnan(signal)
    signal, positive, stratum, checkpoint = (part[known] for part in (signal, positive, stratum, checkpoint))
    pairs, ordered = _pairs(signal, positive, stratum)
    total, in_order = float(pairs[positive].sum()), float(ordered[positive].sum())
    # Without a checkpoint: less all pairs that one of its forks is in, of which those between two of them are
    # counted twice.
    both = _pairs(signal, positive, strata(checkpoint, stratum))
    owner = np.unique(checkpoint, return_inverse=True)[1]
    left = [
        whole - np.bincount(owner, weights=counted) + np.bincount(owner, weights=np.where(positive, own, 0.0))
        for whole, counted, own in zip((total, in_order), (pairs, ordered), both, strict=True)
    ]
    shares = left[1][left[0] > 0.5] / left[0][left[0] > 0.5]
    alone = Undefined("leaving any checkpoint out leaves no pair of forks at one place")
    return StratifiedAuc(
        auc=in_order / total
        if total
        else Undefined("no place (direction, k) has forks both with dR > 0 and without"),
        pairs=round(total),
        strata=len(np.unique(stratum[pairs > 0])),
        without_one_low=float(shares.min()) if len(shares) else alone,
        without_one_high=float(shares.max()) if len(shares) else alone,
    )


def _pairs(
    signal: Float[np.ndarray, "forks"], positive: Bool[np.ndarray, "forks"], stratum: Int[np.ndarray, "forks"]
) -> tuple[Float[np.ndarray, "forks"], Float[np.ndarray, "forks"]]:
    """For each fork, how many of the other kind are at its place, and how many of these pairs are in order."""
    order = np.lexsort((signal, stratum))
    values, places, helped = signal[order], stratum[order], positive[order].astype(np.float64)
    first = np.r_[True, np.diff(places) != 0][: len(order)]
    new = first | np.r_[True, np.diff(values) != 0][: len(order)]
    pairs, ordered = np.zeros(len(order)), np.zeros(len(order))
    for kind in (helped, 1 - helped):  # forks of one kind, seen from those of the other
        before = np.r_[0.0, np.cumsum(kind)]
        place, run = np.cumsum(first) - 1, np.cumsum(new) - 1
        in_place = np.r_[before[np.flatnonzero(first)], before[-1]]
        in_run = np.r_[before[np.flatnonzero(new)], before[-1]]
        count = (in_place[1:] - in_place[:-1])[place]
        equal = (in_run[1:] - in_run[:-1])[run]
        below = in_run[:-1][run] - in_place[:-1][place]
        from_helped = kind is not helped  # a fork with dR > 0 looks for those without below it
        right = below + equal / 2 if from_helped else count - below - equal / 2
        seen = helped > 0 if from_helped else helped == 0
        pairs[seen], ordered[seen] = count[seen], right[seen]
    back = np.argsort(order)
    return pairs[back], ordered[back]
