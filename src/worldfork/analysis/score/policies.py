"""Totals of a policy by checkpoint, with an interval, beside baselines that cost nothing to know.

A total over all forks says nothing about the next checkpoint. Each checkpoint has a total of its own; their mean
has a Student-t interval, and so has the paired difference with never updating, always updating, the better of
these two in hindsight, and two baselines that read the schedule.
"""

import dataclasses
from collections.abc import Mapping
from typing import Final

import numpy as np
from jaxtyping import Float

from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.read.prefork import ForkCodes, ForkFlags, ForkValues
from worldfork.analysis.score.clusters import partition, strata
from worldfork.analysis.score.decisions import ALONE, fires, fit_threshold, leave_one_checkpoint_out, policy_total
from worldfork.analysis.score.intervals import ROUNDING, SIGNIFICANT, MeanOf, difference_t, jackknife
from worldfork.analysis.score.permutation_nulls import SwappedControl
from worldfork.analysis.score.sign_flips import sign_flip_p, student_p
from worldfork.analysis.score.undefined import Bounds, Figure, Interval, Undefined, divide, divide_bounds, undefined

NOT_REFITTED = Undefined("it is fitted anew for registered candidates, and their fitted thresholds alone")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Earned:
    """The mean total of a checkpoint."""

    mean: Figure
    student_t: Bounds
    by_checkpoint: Mapping[str, Figure]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Gain:
    """The difference of two policies' totals in a checkpoint, on average."""

    mean: Figure
    student_t: Bounds
    p_student_t: Figure
    p_sign_flip: Figure
    checkpoints: int
    won: int  # checkpoints in which it earns more
    # Student's t with thresholds and baselines fitted anew without each checkpoint: of registered candidates alone.
    refitted: Bounds = NOT_REFITTED


@dataclasses.dataclass(frozen=True, kw_only=True)
class Usefulness:
    """The verdict on a policy: useful where it beats everything it has to, and what it does not beat."""

    useful: bool
    does_not_beat: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReferencePolicies:
    """The totals of the policies that need no trigger; the last two read the schedule."""

    never: Figure
    always: Figure
    oracle: Figure
    position_table: Figure
    direction_clock: Figure
    earned: Mapping[str, Earned]  # of each but `never`, which earns nothing
    per_deployment: Mapping[str, MeanOf]  # of the same


@dataclasses.dataclass(frozen=True, kw_only=True)
class PolicyFigures:
    """The total of a policy and its returns by checkpoint, its gains over the baselines, and the exchange of
    checkpoints."""

    policy_total: Figure
    fires: int | Undefined
    by_direction: Mapping[str, Figure] | Undefined
    gradient_steps: int | Undefined
    earned: Earned | Undefined
    gains: Mapping[str, Gain] | Undefined  # over never, always, the better of both, and what reads the schedule
    swapped: SwappedControl | Undefined


def checkpoint_totals(
    fired: ForkFlags, delta: ForkValues, checkpoint: ForkCodes, *, count: int
) -> Float[np.ndarray, "present"]:
    """Return the total of each checkpoint that has forks, in order."""
    present = np.bincount(checkpoint, minlength=count) > 0
    # Without a single fire bincount counts in integers.
    return np.bincount(checkpoint[fired], weights=delta[fired], minlength=count)[present].astype(np.float64)


def earned(totals: Float[np.ndarray, "checkpoints"] | Undefined, names: tuple[str, ...]) -> Earned:
    """Return the mean over checkpoints, and its interval."""
    if isinstance(totals, Undefined):
        return undefined(Earned, totals, by_checkpoint=dict.fromkeys(names, totals))
    return Earned(
        mean=float(totals.mean()) if len(totals) else Undefined("there are no forks"),
        student_t=difference_t(totals),
        by_checkpoint={name: float(total) for name, total in zip(names, totals, strict=True)},
    )


def gains(
    totals: Float[np.ndarray, "checkpoints"],
    baselines: Mapping[str, Float[np.ndarray, "checkpoints"] | Undefined],
    *,
    seed: int,
    task: str,
) -> dict[str, Gain]:
    """Return a policy less each baseline, checkpoint by checkpoint; undefined beside a baseline that is."""
    return {
        name: undefined(Gain, than, checkpoints=0, won=0)
        if isinstance(than, Undefined)
        else gain(totals, than, seed=seed, task=task)
        for name, than in baselines.items()
    }


def gain(
    totals: Float[np.ndarray, "checkpoints"], than: Float[np.ndarray, "checkpoints"], *, seed: int, task: str
) -> Gain:
    difference = totals - than
    # Two policies that fire alike differ by nothing, whatever the order their sums were added in.
    difference[np.abs(difference) <= 1e-9 * np.maximum(np.abs(totals), np.abs(than))] = 0.0
    return Gain(
        mean=float(difference.mean()) if len(difference) else Undefined("there are no forks"),
        student_t=difference_t(difference),
        p_student_t=student_p(difference),
        p_sign_flip=sign_flip_p(difference, seed=seed, task=task),
        checkpoints=len(difference),
        won=int((difference > 0).sum()),
    )


def baseline_totals(
    always: Float[np.ndarray, "checkpoints"], positions: Mapping[str, Float[np.ndarray, "checkpoints"] | Undefined]
) -> dict[str, Float[np.ndarray, "checkpoints"] | Undefined]:
    """Return the baselines of a policy by name: never, always, the better of both in hindsight, and what reads the
    schedule."""
    never = np.zeros(len(always))
    better = always if always.sum() > 0 else never
    return {"never": never, "always": always, "better_of_both": better, **positions}


def usefulness(
    adjusted: Mapping[str, Figure], gains: Mapping[str, Figure], refitted: Mapping[str, Bounds] | None = None
) -> Usefulness:
    """Return whether a policy is useful: every adjusted p value is below .05, and every gain above 0.

    `adjusted` has a p for each control and for each baseline that has to be beaten (the larger of Student-t's and
    the sign flips'), `gains` the mean gain over each baseline. An undefined p beats nothing. Where thresholds and
    baselines were `refitted`, that interval lies above 0 as well: the naive one takes what is fitted as given.
    """
    missed = []
    for name, p in adjusted.items():
        mean, interval = gains.get(name, 1.0), (refitted or {}).get(name, Interval(1.0, 1.0))
        undefined = any(isinstance(figure, Undefined) for figure in (p, mean, interval))
        if undefined or not (p < SIGNIFICANT and mean > 0 and interval.low > 0):  # type: ignore[operator, union-attr]
            missed.append(name)
    return Usefulness(useful=not missed, does_not_beat=tuple(missed))


def position_table(delta: ForkValues, stratum: ForkCodes, checkpoint: ForkCodes) -> ForkFlags:
    """Return where the position table fires: the mean dR of the other checkpoints' forks in the same place is
    positive.

    A place where no other checkpoint has a fork is not in the table: no fire. A mean that is 0 but for rounding is
    not positive.
    """
    mine = strata(checkpoint, stratum)
    sums = [np.bincount(group, weights=delta)[group] for group in (stratum, mine)]
    sizes = [np.bincount(group, weights=np.abs(delta))[group] for group in (stratum, mine)]
    # What is left when a checkpoint's own forks are taken out; where nothing is, nothing is above nothing.
    return sums[0] - sums[1] > ROUNDING * sizes[0]


def direction_clock(delta: ForkValues, direction: ForkCodes, k: ForkCodes, checkpoint: ForkCodes) -> ForkFlags:
    """Return where the clock of each direction fires: from some k on or up to some k, whichever earned the other
    checkpoints more.

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
    signal: ForkValues, delta: ForkValues, checkpoint: ForkCodes, thresholds: Float[np.ndarray, "checkpoints"]
) -> Float[np.ndarray, "checkpoints"]:
    """Return, for each checkpoint, the total of its threshold on the forks of all others."""
    earned = np.zeros(len(thresholds))
    for threshold in np.unique(thresholds):
        flags = fires(signal, float(threshold))
        here = np.bincount(checkpoint[flags], weights=delta[flags], minlength=len(thresholds))
        chosen = thresholds == threshold
        earned[chosen] = policy_total(flags, delta) - here[chosen]
    return earned


@dataclasses.dataclass(frozen=True)
class Deployments:
    """The deployments (cells with forks) that a total is of, in all and by checkpoint on average."""

    count: int
    of_checkpoint: float

    def mean_of(self, total: Figure, student_t: Bounds) -> MeanOf:
        """Return the total of one deployment. The interval comes as that of the total of a checkpoint."""
        return MeanOf(mean=divide(total, self.count), student_t=divide_bounds(student_t, self.of_checkpoint))


def count_deployments(forks: Forks) -> Deployments:
    """Return how many deployments these forks are of."""
    parts = partition(forks.prefork)
    cells = len(np.unique(parts.cell))
    checkpoints = len(np.unique(parts.checkpoint))
    return Deployments(max(1, cells), max(1.0, cells / max(1, checkpoints)))


FITTED: Final = ("position_table", "direction_clock")  # on the other checkpoints' forks


@dataclasses.dataclass(frozen=True)
class Baselines:
    """Policies without a signal: their figures, and their total in each checkpoint that has forks."""

    figures: ReferencePolicies
    # never, always, better_of_both, and what reads the schedule, which is fitted on other checkpoints
    totals: dict[str, Float[np.ndarray, "checkpoints"] | Undefined]
    names: tuple[str, ...]  # of these checkpoints


def measure(forks: Forks) -> Baselines:
    """Return never, always, the oracle, the position table and the clock of each direction on these forks."""
    parts = partition(forks.prefork)
    checkpoint, delta = parts.checkpoint, forks.delta
    present = np.unique(checkpoint)
    names = tuple(parts.checkpoints[code] for code in present)

    place = strata(parts.direction, forks.prefork.k)
    fired = {
        "always": np.ones(len(forks), bool),
        "oracle": delta > 0,
        "position_table": position_table(delta, place, checkpoint),
        "direction_clock": direction_clock(delta, parts.direction, forks.prefork.k, checkpoint),
    }
    undefined = dict.fromkeys(FITTED, ALONE) if len(present) < 2 else {}
    by_checkpoint = {
        name: undefined.get(name, checkpoint_totals(flags, delta, checkpoint, count=len(parts.checkpoints)))
        for name, flags in fired.items()
    }
    total = {name: undefined.get(name, policy_total(flags, delta)) for name, flags in fired.items()}
    means = {name: earned(values, names) for name, values in by_checkpoint.items()}
    deployments = count_deployments(forks)
    figures = ReferencePolicies(
        never=0.0,
        **total,
        earned=means,
        per_deployment={name: deployments.mean_of(total[name], means[name].student_t) for name in total},
    )
    always = by_checkpoint["always"]
    assert not isinstance(always, Undefined)
    return Baselines(figures, baseline_totals(always, {name: by_checkpoint[name] for name in FITTED}), names)


BESIDE: Final = ("never", "always", "better_of_both", "position_table")  # baselines of a refitted gain


def refitted_gains(forks: Forks, policies: Mapping[str, ForkValues | ForkFlags]) -> dict[str, dict[str, Bounds]]:
    """Return the interval of each policy's gain over each baseline, with everything that is fitted, fitted anew.

    A Student-t interval takes thresholds and the position table as given. Both are fitted on other checkpoints, so
    that one checkpoint moves the decisions on all others. Here each checkpoint is left out in turn, and thresholds,
    table and the better of never and always are chosen again by what is left: the delete-one jackknife of the whole
    pipeline (MacKinnon, Nielsen and Webb, "Fast and reliable jackknife and bootstrap methods for cluster-robust
    inference", Journal of Applied Econometrics 2023). It is conservative where a threshold jumps.

    Args:
        forks: those that are scored.
        policies: by trigger, its signal, or where it alarms: then there is no threshold to fit.
    """
    present, checkpoint = np.unique(partition(forks.prefork).checkpoint, return_inverse=True)
    count, delta = len(present), forks.delta
    if count < 4:
        few = Undefined(f"fitting anew without a checkpoint needs at least four of them, and there are {count}")
        return {name: dict.fromkeys(BESIDE, few) for name in policies}
    forks_of = [checkpoint == index for index in range(count)]
    always = np.array([float(delta[mine].sum()) for mine in forks_of])
    rest = np.append(always.sum(), always.sum() - always)
    baselines = {
        "never": np.zeros((1, count)),
        "always": always[None],
        "better_of_both": np.where(rest[:, None] > 0, always, 0.0),
        "position_table": _refitted_table(forks, checkpoint, count),
    }
    totals = {name: _refitted_policy(values, delta, forks_of) for name, values in policies.items()}
    return {
        name: {beside: _refitted_interval(of_policy - baselines[beside]) for beside in BESIDE}
        for name, of_policy in totals.items()
    }


# The total of each checkpoint: first with none left out, then without each; NaN where it is left out itself.
Refitted = Float[np.ndarray, "left_out checkpoints"]


def _refitted_policy(values: ForkValues | ForkFlags, delta: ForkValues, forks_of: list[ForkFlags]) -> Refitted:
    count = len(forks_of)
    totals = np.full((1 + count, count), np.nan)
    for valued in range(count):
        for left_out in (None, *range(valued)):
            fired = values
            if values.dtype != bool:
                rest = ~forks_of[valued] if left_out is None else ~(forks_of[valued] | forks_of[left_out])
                fired = values >= fit_threshold(values[rest], delta[rest])
            totals[0 if left_out is None else 1 + left_out, valued] = delta[forks_of[valued] & fired].sum()
            if left_out is not None:  # the threshold without both serves either, where the other is left out
                totals[1 + valued, left_out] = delta[forks_of[left_out] & fired].sum()
    return totals


def _refitted_table(forks: Forks, checkpoint: ForkCodes, count: int) -> Refitted:
    """Return the totals of the position table, fitted without a checkpoint's own forks and those left out."""
    place, delta = strata(partition(forks.prefork).direction, forks.prefork.k), forks.delta
    places = int(place.max()) + 1
    sums = np.bincount(checkpoint * places + place, weights=delta, minlength=count * places).reshape(count, places)
    sizes = np.bincount(place, weights=np.abs(delta), minlength=places)
    totals = np.empty((1 + count, count))
    for row in range(1 + count):
        others = sums.sum(axis=0) - (sums[row - 1] if row else 0.0) - sums  # by checkpoint and place
        earned = np.where((others > ROUNDING * sizes)[checkpoint, place], delta, 0.0)
        totals[row] = np.bincount(checkpoint, weights=earned, minlength=count)
    totals[np.arange(1, 1 + count), np.arange(count)] = np.nan
    return totals


def _refitted_interval(gains: Refitted) -> Interval:
    left_out = np.nanmean(gains[1:], axis=1)
    return jackknife(float(gains[0].mean()), left_out - left_out.mean())
