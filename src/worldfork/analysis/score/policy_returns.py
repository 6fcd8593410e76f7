"""Totals of a policy by checkpoint, with an interval, beside baselines that cost nothing to know.

A total over all forks says nothing about the next checkpoint. Each checkpoint has a total of its own; their mean
has a Student-t interval, and so has the paired difference with never updating, always updating, the better of
these two in hindsight, and the baselines that read the schedule (position.py).
"""

import dataclasses
from collections.abc import Mapping
from typing import Final

import numpy as np
from jaxtyping import Bool, Float, Int

from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.score import decisions
from worldfork.analysis.score.clusters import partition
from worldfork.analysis.score.decisions import fires, leave_one_checkpoint_out, policy_total
from worldfork.analysis.score.intervals import SIGNIFICANT, difference_t, sign_flip_ps, student_p
from worldfork.analysis.score.judgement import Earned, Gain, MeanOf, Usefulness
from worldfork.analysis.score.records import ReferencePolicies
from worldfork.analysis.score.undefined import Bounds, Figure, Interval, Undefined, divide, divide_bounds


def checkpoint_totals(
    fired: Bool[np.ndarray, "forks"],
    delta: Float[np.ndarray, "forks"],
    checkpoint: Int[np.ndarray, "forks"],
    *,
    count: int,
) -> Float[np.ndarray, "present"]:
    """Return the total of each checkpoint that has forks, in order."""
    present = np.bincount(checkpoint, minlength=count) > 0
    # Without a single fire bincount counts in integers.
    return np.bincount(checkpoint[fired], weights=delta[fired], minlength=count)[present].astype(np.float64)


def earned(totals: Float[np.ndarray, "checkpoints"] | Undefined, names: tuple[str, ...]) -> Earned:
    """Return the mean over checkpoints, and its interval."""
    if isinstance(totals, Undefined):
        return Earned(mean=totals, student_t=totals, by_checkpoint=dict.fromkeys(names, totals))
    return Earned(
        mean=float(totals.mean()) if len(totals) else Undefined("there are no forks"),
        student_t=difference_t(totals),
        by_checkpoint={name: float(total) for name, total in zip(names, totals, strict=True)},
    )


def gain(
    totals: Float[np.ndarray, "checkpoints"], than: Float[np.ndarray, "checkpoints"], *, seed: int, task: str
) -> Gain:
    """Return one policy less another, checkpoint by checkpoint."""
    return gains(totals[None], {"than": than}, seed=seed, task=task)[0]["than"]


def gains(
    totals: Float[np.ndarray, "policies checkpoints"],
    baselines: Mapping[str, Float[np.ndarray, "checkpoints"] | Undefined],
    *,
    seed: int,
    task: str,
) -> list[dict[str, Gain]]:
    """Return each policy less each baseline; nothing is known beside a baseline that is undefined."""
    defined = {name: earns for name, earns in baselines.items() if not isinstance(earns, Undefined)}
    unknown = {name: _no_gain(why) for name, why in baselines.items() if isinstance(why, Undefined)}
    than = np.array(list(defined.values()))
    differences = totals[:, None] - than
    # Two policies that fire alike differ by nothing, whatever the order their sums were added in.
    differences[np.abs(differences) <= 1e-9 * np.maximum(np.abs(totals[:, None]), np.abs(than))] = 0.0
    flips = iter(sign_flip_ps(differences.reshape(len(totals) * len(than), totals.shape[1]), seed=seed, task=task))
    compared = [
        {name: _gain(difference, next(flips)) for name, difference in zip(defined, of_policy, strict=True)}
        for of_policy in differences
    ]
    return [{name: (of_policy | unknown)[name] for name in baselines} for of_policy in compared]


def _gain(difference: Float[np.ndarray, "checkpoints"], p_sign_flip: Figure) -> Gain:
    return Gain(
        mean=float(difference.mean()) if len(difference) else Undefined("there are no forks"),
        student_t=difference_t(difference),
        p_student_t=student_p(difference),
        p_sign_flip=p_sign_flip,
        checkpoints=len(difference),
        won=int((difference > 0).sum()),
    )


def _no_gain(why: Undefined) -> Gain:
    return Gain(mean=why, student_t=why, p_student_t=why, p_sign_flip=why, checkpoints=0, won=0)


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
    missed, refitted = [], refitted or {}
    for name, p in adjusted.items():
        mean = gains.get(name, 1.0)
        beaten = not isinstance(p, Undefined) and p < SIGNIFICANT
        interval = refitted.get(name, Interval(1.0, 1.0))
        if (
            not beaten
            or isinstance(mean, Undefined)
            or mean <= 0
            or isinstance(interval, Undefined)
            or interval.low <= 0
        ):
            missed.append(name)
    return Usefulness(useful=not missed, does_not_beat=tuple(missed))


ROUNDING: Final = 1e-9


def strata(direction: Int[np.ndarray, "forks"], k: Int[np.ndarray, "forks"]) -> Int[np.ndarray, "forks"]:
    """Return a number for each (direction, k)."""
    _, which_direction = np.unique(direction, return_inverse=True)
    ks, which_k = np.unique(k, return_inverse=True)
    return np.unique(which_direction * len(ks) + which_k, return_inverse=True)[1]


def position_table(
    delta: Float[np.ndarray, "forks"], stratum: Int[np.ndarray, "forks"], checkpoint: Int[np.ndarray, "forks"]
) -> Bool[np.ndarray, "forks"]:
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


def direction_clock(
    delta: Float[np.ndarray, "forks"],
    direction: Int[np.ndarray, "forks"],
    k: Int[np.ndarray, "forks"],
    checkpoint: Int[np.ndarray, "forks"],
) -> Bool[np.ndarray, "forks"]:
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
    signal: Float[np.ndarray, "forks"],
    delta: Float[np.ndarray, "forks"],
    checkpoint: Int[np.ndarray, "forks"],
    thresholds: Float[np.ndarray, "checkpoints"],
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

    def totals(fired: Bool[np.ndarray, "forks"]) -> Float[np.ndarray, "checkpoints"]:
        return checkpoint_totals(fired, delta, checkpoint, count=len(parts.checkpoints))

    place = strata(parts.direction, forks.prefork.k)
    fired = {
        "always": np.ones(len(forks), bool),
        "oracle": delta > 0,
        "position_table": position_table(delta, place, checkpoint),
        "direction_clock": direction_clock(delta, parts.direction, forks.prefork.k, checkpoint),
    }
    always = totals(fired["always"])
    alone = Undefined("leave-one-checkpoint-out needs at least two checkpoints")
    schedule = {name: alone if len(present) < 2 else totals(fired[name]) for name in FITTED}
    by_checkpoint = {"always": always, "oracle": totals(fired["oracle"]), **schedule}

    def fitted(name: str) -> Figure:
        return alone if len(present) < 2 else decisions.policy_total(fired[name], delta)

    deployments, of_policy = (
        count_deployments(forks),
        {
            "always": float(delta.sum()),
            "oracle": decisions.oracle_total(delta),
            "position_table": fitted("position_table"),
            "direction_clock": fitted("direction_clock"),
        },
    )
    of_checkpoint = {name: earned(values, names) for name, values in by_checkpoint.items()}
    figures = ReferencePolicies(
        never=0.0,
        **of_policy,
        earned=of_checkpoint,
        per_deployment={
            name: deployments.mean_of(total, of_checkpoint[name].student_t) for name, total in of_policy.items()
        },
    )
    return Baselines(figures, baseline_totals(always, schedule), names)
