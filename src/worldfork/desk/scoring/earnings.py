"""What a policy earns per checkpoint, with an interval, beside what costs nothing to know.

A total over all forks says nothing about the next checkpoint. Each checkpoint has a total of its own; their mean
has a Student-t interval, and so has the paired difference with never updating, always updating, the better of
these two in hindsight, and the yardsticks that read the schedule (position.py).
"""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Float, Int

from worldfork.desk.scoring.few_clusters import SIGNIFICANT, sign_flip_ps, student_p
from worldfork.desk.scoring.intervals import difference_t
from worldfork.desk.scoring.judgement import Earned, Gain, Usefulness
from worldfork.desk.scoring.undefined import Figure, Undefined

__all__ = ["checkpoint_totals", "earned", "gain", "gains", "usefulness", "yardsticks"]


def checkpoint_totals(
    fired: Bool[np.ndarray, "forks"],
    delta: Float[np.ndarray, "forks"],
    checkpoint: Int[np.ndarray, "forks"],
    *,
    count: int,
) -> Float[np.ndarray, "present"]:
    """The total of each checkpoint that has forks, in order."""
    present = np.bincount(checkpoint, minlength=count) > 0
    # Without a single fire bincount counts in integers.
    return np.bincount(checkpoint[fired], weights=delta[fired], minlength=count)[present].astype(np.float64)


def earned(totals: Float[np.ndarray, "checkpoints"] | Undefined, names: tuple[str, ...]) -> Earned:
    """The mean over checkpoints, and its interval."""
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
    """One policy less another, checkpoint by checkpoint."""
    return gains(totals[None], {"than": than}, seed=seed, task=task)[0]["than"]


def gains(
    totals: Float[np.ndarray, "policies checkpoints"],
    yardsticks: Mapping[str, Float[np.ndarray, "checkpoints"] | Undefined],
    *,
    seed: int,
    task: str,
) -> list[dict[str, Gain]]:
    """Each policy less each yardstick; nothing is known beside a yardstick that is undefined."""
    known = {name: earns for name, earns in yardsticks.items() if not isinstance(earns, Undefined)}
    unknown = {name: _no_gain(why) for name, why in yardsticks.items() if isinstance(why, Undefined)}
    than = np.array(list(known.values()))
    differences = totals[:, None] - than
    # Two policies that fire alike differ by nothing, whatever the order their sums were added in.
    differences[np.abs(differences) <= 1e-9 * np.maximum(np.abs(totals[:, None]), np.abs(than))] = 0.0
    flips = iter(sign_flip_ps(differences.reshape(len(totals) * len(than), totals.shape[1]), seed=seed, task=task))
    compared = [
        {name: _gain(difference, next(flips)) for name, difference in zip(known, of_policy, strict=True)}
        for of_policy in differences
    ]
    return [{name: (of_policy | unknown)[name] for name in yardsticks} for of_policy in compared]


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


def yardsticks(
    always: Float[np.ndarray, "checkpoints"], positions: Mapping[str, Float[np.ndarray, "checkpoints"] | Undefined]
) -> dict[str, Float[np.ndarray, "checkpoints"] | Undefined]:
    """What a policy is compared with, by name: never, always, the better of both in hindsight, and what reads the
    schedule."""
    never = np.zeros(len(always))
    better = always if always.sum() > 0 else never
    return {"never": never, "always": always, "better_of_both": better, **positions}


def usefulness(adjusted: Mapping[str, Figure], gains: Mapping[str, Figure]) -> Usefulness:
    """Useful where every p value, adjusted over the registered family, is below .05 and every gain above 0.

    `adjusted` has a p for each control and for each yardstick that has to be beaten (the larger of Student-t's and
    the sign flips'), `gains` the mean gain over each yardstick. An undefined p beats nothing.
    """
    missed = []
    for name, p in adjusted.items():
        mean = gains.get(name, 1.0)
        beaten = not isinstance(p, Undefined) and p < SIGNIFICANT
        if not beaten or isinstance(mean, Undefined) or mean <= 0:
            missed.append(name)
    return Usefulness(useful=not missed, does_not_beat=tuple(missed))
