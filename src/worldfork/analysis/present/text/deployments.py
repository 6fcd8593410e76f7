"""Does following a trigger all the way beat never updating? The answer of one task in sentences."""

import dataclasses
from collections import Counter
from collections.abc import Mapping
from typing import Final, Literal

from worldfork.analysis.present.text.formatting import digits_for, known, listed, number, percent, rate, with_span
from worldfork.analysis.score.deployment_records import Advantage, PolicyOutcome, TaskDeployment
from worldfork.analysis.score.intervals import SIGNIFICANT
from worldfork.analysis.score.judgement import Grade
from worldfork.analysis.score.undefined import Undefined

__all__ = [
    "AN_ORDER",
    "FollowedAnswer",
    "best_first",
    "followed_answer",
    "followed_digits",
    "gains_over_never",
    "realised",
]

NEVER: Final = "never"  # the policy that every other one is compared with
NAMED: Final = 4  # policies that a sentence lists by name
AN_ORDER: Final = (
    "An order alone does not show that the ledger's labels of single forks know anything: how often a policy "
    "fires, times the mean dR of its update, may order policies as well."
)


@dataclasses.dataclass(frozen=True)
class FollowedAnswer:
    """One task: what following the policies came to, what to do, and how certain that is."""

    task: str
    verdict: Literal["helpful", "harmful", "unresolved"]
    policy: str  # the one that the answer is about; empty where nothing can be compared
    grade: Grade | None
    sentence: str
    advice: str
    certainty: str


def followed_answer(task: str, one: TaskDeployment) -> FollowedAnswer:
    """The best policy against never, and which others can be told apart from it."""
    gains = gains_over_never(one)
    if not gains:
        return FollowedAnswer(
            task, "unresolved", "", None, "No policy was followed that could be compared with never.", "", ""
        )
    ranked = [name for name in best_first(one) if name in gains]
    better = [name for name in ranked if _told_apart(gains[name], upward=True)]
    worse = [name for name in reversed(ranked) if _told_apart(gains[name], upward=False)]
    # The best of many has an interval above 0 by chance often enough: advice rests on one that correction leaves.
    lasting = [name for name in better if _survives_correction(gains[name])]
    best = (lasting or better or ranked)[0]
    verdict: Literal["helpful", "harmful", "unresolved"] = "unresolved"
    if lasting:
        verdict, resolved = "helpful", _grade(gains[best]) == "resolved"
        beats = "beats" if resolved else "returned more than"
        sentence = (
            f"Following {best} all the way {beats} never updating ({_grade(gains[best])}): {_size(one, best)}."
        )
        if others := [name for name in better if name != best]:
            verb = ("does" if len(others) == 1 else "do") if resolved else "did"
            sentence += f" So {verb} {_listed(gains, others, others=True)}."
        if worse:
            sentence += f" {_listed(gains, worse)} returned less than never."
        advice = f"Follow {best}" if resolved else f"Rather follow {best} than never update"
        advice += f", in hindsight the best of {len(lasting)} such." if lasting[1:] else "."
        advice += _beside_always(one, best)
    elif len(worse) == len(gains):
        verdict, best = "harmful", ranked[0]
        every = "Every policy returned" if len(gains) > 1 else f"Following {best} all the way returned"
        nearest = f" The nearest to it is {best}" if len(gains) > 1 else " It comes to"
        sentence = f"{every} less than never updating.{nearest}: {_size(one, best)}."
        sure = all(_grade(gains[name]) == "resolved" for name in gains)
        advice = "Leave the model frozen." if sure else "Rather leave the model frozen."
    else:
        if better:
            sentence = (
                f"Not resolved. {best} returned more than never updating, as one of {len(gains)} policies may by "
                f"chance: {_size(one, best)}."
            )
            if better[1:]:
                sentence += f" So did {_listed(gains, better[1:], others=True)}."
        else:
            first = f"The best of {len(gains)} policies, {best}," if len(gains) > 1 else f"Following {best}"
            sentence = f"Not resolved. {first} can not be told apart from never updating: {_size(one, best)}."
        if worse:
            sentence += f" {_listed(gains, worse)} returned less than never."
        advice = "No advice yet."
    if silent := [name for name in ranked if one.policies[name].updates == 0]:
        named = listed(silent) if len(silent) <= NAMED else f"{len(silent)} policies"
        sentence += f" {named} never fired, and returned what never did."
    return FollowedAnswer(task, verdict, best, _grade(gains[best]), sentence, advice, _certainty(one, gains[best]))


def gains_over_never(one: TaskDeployment) -> Mapping[str, Advantage]:
    """What each policy returned more than never, where that is known."""
    return {
        name: gained
        for name, outcome in one.policies.items()
        if (gained := known(outcome.advantage)) is not None and known(gained.mean) is not None
    }


def realised(outcome: PolicyOutcome) -> float | None:
    """What following a policy returned more than never; 0 of never itself, None where it is not known."""
    gained = known(outcome.advantage)
    return 0.0 if gained is None else known(gained.mean)


def best_first(one: TaskDeployment) -> list[str]:
    """Every policy by what following it returned, never in its place among them: readers look for who beats it."""
    return sorted(one.policies, key=lambda name: -(realised(one.policies[name]) or 0.0))


def followed_digits(one: TaskDeployment) -> int:
    """Decimals for the returns of this task; what diverged says nothing about them."""
    gains = gains_over_never(one)
    return min((digits_for(gained) for name, gained in gains.items() if not one.policies[name].diverged), default=1)


def _size(one: TaskDeployment, name: str) -> str:
    """The paired difference with its interval, and what it is of never's return."""
    gained, never = gains_over_never(one)[name], known(one.policies[NEVER].returned)
    mean, digits = known(gained.mean), followed_digits(one)
    words = f"{with_span(gained.mean, gained.student_t, digits)} return per episode"
    if mean is None or never is None or never <= 0:
        return words
    return f"{words}, {percent(mean / never)} of the {number(never, digits).lstrip('+')} without any update"


def _beside_always(one: TaskDeployment, name: str) -> str:
    """What the trigger adds to its update: whoever follows it could also update always."""
    added = known(one.policies[name].over_always)
    if added is None:
        return ""
    span = with_span(added.mean, added.student_t, followed_digits(one))
    return f" Beside always firing the same update it returned {span} ({_grade(added) or 'not graded'})."


def _certainty(one: TaskDeployment, gained: Advantage) -> str:
    least = 2.0 ** (1 - one.checkpoints)
    over = f", corrected over {one.family} comparisons" if one.family > 1 else ""
    grade = _grade(gained)
    if grade is None and one.checkpoints > 1:
        return "The same difference at every checkpoint has no spread, and so no interval."
    if grade is None:
        return "One checkpoint has no spread: it takes at least six to resolve a mean."
    if grade == "resolved":
        words = f"Resolved: the exact test gives p {rate(gained.adjusted_sign_flip)}{over}"
    elif grade == "unresolved":
        words = "The difference may lie on either side of 0"
    elif least >= SIGNIFICANT:
        words = f"Not certain: {one.checkpoints} checkpoints can not give an exact p below {rate(least, 4)}"
    else:
        exact, student = rate(gained.adjusted_sign_flip), rate(gained.adjusted_student_t)
        words = f"Not certain: the exact test gives p {exact} and Student's t {student}{over}"
    detectable = known(gained.mde)
    if grade == "unresolved" and detectable is not None:
        size = number(detectable, followed_digits(one)).lstrip("+")
        words += f". With this spread, {one.checkpoints} checkpoints find a difference of {size} four times in five"
    without = known(gained.leave_one_out)
    if without and without.crosses and grade != "unresolved":
        words += f". Without checkpoint {listed(without.crosses, last='or')} the interval reaches 0"
    return words + "."


def _told_apart(gained: Advantage, *, upward: bool) -> bool:
    mean = known(gained.mean)
    return mean is not None and _grade(gained) in ("resolved", "leaning") and (mean > 0) == upward


def _survives_correction(gained: Advantage) -> bool:
    """Whether Student's t stays significant after Holm; the exact test may have too few checkpoints for that."""
    adjusted = known(gained.adjusted_student_t)
    return adjusted is not None and adjusted < SIGNIFICANT


def _grade(gained: Advantage) -> Grade | None:
    return None if isinstance(gained.grade, Undefined) else gained.grade


def _listed(gains: Mapping[str, Advantage], names: list[str], *, others: bool = False) -> str:
    """Policies with their grades; more than a sentence holds are counted, for a table has their names."""
    if len(names) <= NAMED:
        return listed([f"{name} ({_grade(gains[name])})" for name in names])
    counts = Counter(str(_grade(gains[name])) for name in names)
    graded = listed([f"{count} {grade}" for grade, count in sorted(counts.items(), reverse=True)])
    return f"{len(names)} {'others' if others else 'policies'} ({graded})"
