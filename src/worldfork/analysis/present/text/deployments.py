"""Closed-loop deployments in sentences: does following a trigger beat never updating?"""

import dataclasses
from collections import Counter
from collections.abc import Mapping
from typing import Final, Literal

from worldfork.analysis.present.text.answers import certainty
from worldfork.analysis.present.text.formatting import (
    defined,
    digits_for,
    estimate,
    listed,
    percent,
    unsigned,
    with_span,
)
from worldfork.analysis.score.deployment_records import Advantage, PolicyOutcome, TaskDeployment
from worldfork.analysis.score.intervals import SIGNIFICANT
from worldfork.analysis.score.undefined import Undefined
from worldfork.analysis.score.verdicts import Grade
from worldfork.counting import plural

NEVER: Final = "never"  # the policy that every other one is compared with
NAMED: Final = 4  # policies that a sentence lists by name
UNIT: Final = "return per episode"
WORDS: Final = {
    "helpful": "{} beats never updating",
    "harmful": "Every policy returns less than never updating",
    "unresolved": "Not resolved",
}


@dataclasses.dataclass(frozen=True)
class FollowedAnswer:
    """Answer of a task: what deploying its policies came to, what to do, and how certain that is."""

    task: str
    verdict: Literal["helpful", "harmful", "unresolved"]
    policy: str  # the one that the answer is about; empty where nothing can be compared
    grade: Grade | None
    sentence: str
    advice: str
    certainty: str

    @property
    def word(self) -> str:
        """The verdict in a few words."""
        return WORDS[self.verdict].format(self.policy)


def followed_answer(task: str, deployed: TaskDeployment) -> FollowedAnswer:
    """Return how the best policy compares with never, and which others differ from it."""
    gains = gains_over_never(deployed)
    if not gains:
        why = "No policy was deployed that could be compared with never."
        return FollowedAnswer(task, "unresolved", "", None, why, "", "")
    ranked = [name for name in best_first(deployed) if name in gains]
    better = [name for name in ranked if _differs(gains[name], upward=True)]
    worse = [name for name in reversed(ranked) if _differs(gains[name], upward=False)]
    # The best of many has an interval above 0 by chance often enough: advice rests on one that correction leaves.
    # Student's t after Holm alone: sign flips may have too few checkpoints.
    adjusted = {name: defined(gains[name].adjusted_student_t) for name in better}
    lasting = [name for name, p in adjusted.items() if p is not None and p < SIGNIFICANT]
    best = (lasting or better or ranked)[0]
    verdict: Literal["helpful", "harmful", "unresolved"] = "unresolved"
    fewer = (
        f" {_graded_list(gains, worse)} returned {_range(deployed, gains, worse)}less than never." if worse else ""
    )
    if lasting:
        verdict, grade = "helpful", defined(gains[best].grade)
        resolved = grade == "resolved"
        beats = "beats" if resolved else "returned more than"
        sentence = f"Deployed, {best} {beats} never updating ({grade}): {_size(deployed, best)}."
        if others := [name for name in better if name != best]:
            sentence += f" {_graded_list(gains, others, others=True)} returned more too."
        sentence += fewer
        advice = f"Follow {best}" if resolved else f"Rather follow {best} than never update"
        advice += f", in hindsight the best of {len(lasting)} such." if lasting[1:] else "."
        advice += _beside_always(deployed, best)
    elif len(worse) == len(gains):
        verdict, best = "harmful", ranked[0]
        every = "Every policy returned" if len(gains) > 1 else f"Deployed, {best} returned"
        nearest = f" The nearest to it is {best}" if len(gains) > 1 else " It comes to"
        sentence = f"{every} less than never updating.{nearest}: {_size(deployed, best)}."
        sure = all(defined(gains[name].grade) == "resolved" for name in gains)
        advice = "Leave the model frozen." if sure else "Rather leave the model frozen."
    else:
        who = "no policy" if len(gains) > 1 else best
        size = f"{_range(deployed, gains, worse)}{UNIT}" if len(worse) > NAMED else "return"
        cost = f"; {_graded_list(gains, worse)} cost {size}" if worse else ""
        shown = f"On {task} {who} is{'' if len(gains) > 1 else ' not'} shown to beat never updating{cost}."
        sentence = f"{shown} {_unresolved(deployed, gains, better, best)}"
        advice = "Leave the model frozen until a policy is shown to return more."
        if better:
            advice = f"Leave the model frozen, or test {best} on other checkpoints."
    if silent := [name for name in ranked if name in silent_policies(deployed)]:
        named = listed(silent) if len(silent) <= NAMED else f"{len(silent)} policies"
        sentence += f" {named} never fired, and returned what never did."
    return FollowedAnswer(
        task, verdict, best, defined(gains[best].grade), sentence, advice, _certainty(deployed, gains[best])
    )


def _unresolved(deployed: TaskDeployment, gains: Mapping[str, Advantage], better: list[str], best: str) -> str:
    if not better:
        first = f"The best of {len(gains)} policies is {best}" if len(gains) > 1 else f"The policy is {best}"
        return f"{first}; its difference from never updating is unresolved: {_size(deployed, best)}."
    words = (
        f"{best} returned more than never updating, as one of {len(gains)} policies may by chance: "
        f"{_size(deployed, best)}."
    )
    return words + (f" {_graded_list(gains, better[1:], others=True)} returned more too." if better[1:] else "")


def gains_over_never(deployed: TaskDeployment) -> Mapping[str, Advantage]:
    """Return what each policy returned more than never, where that is known."""
    return {
        name: gained
        for name, outcome in deployed.policies.items()
        if (gained := defined(outcome.advantage)) is not None and defined(gained.mean) is not None
    }


def realised(outcome: PolicyOutcome) -> float | None:
    """Return what a policy returned more than never; 0 of never itself, None where it is not known."""
    gained = defined(outcome.advantage)
    return 0.0 if gained is None else defined(gained.mean)


def best_first(deployed: TaskDeployment) -> list[str]:
    """Return every policy by what it returned, never in its place among them: readers look for who beats it."""
    return sorted(deployed.policies, key=lambda name: -(realised(deployed.policies[name]) or 0.0))


def silent_policies(deployed: TaskDeployment) -> list[str]:
    """Return the policies that never fired: they are never by another name."""
    return [name for name, outcome in deployed.policies.items() if name != NEVER and outcome.updates == 0]


def followed_digits(deployed: TaskDeployment) -> int:
    """Return the decimals for the returns of this task; what diverged says nothing about them."""
    gains = gains_over_never(deployed)
    return min(
        (digits_for(gained) for name, gained in gains.items() if not deployed.policies[name].diverged), default=1
    )


def deployment_words(deployed: TaskDeployment) -> str:
    """Return how many policies were deployed, and on how much."""
    return (
        f"{plural(len(deployed.policies), 'policy', 'policies')} on {plural(deployed.cells, 'cell')} of "
        f"{plural(deployed.checkpoints, 'checkpoint')}, {plural(deployed.episodes, 'episode')} each; the best in "
        f"hindsight is {deployed.best}."
    )


def forecast_words(deployed: TaskDeployment) -> str:
    """Return whether one-step labels order policies as deploying them does, and better than a count of fires."""
    shown = deployed.forecasts
    if isinstance(shown, Undefined):
        return f"Forecasts from one-step labels: undefined, {shown.why}."
    if isinstance(shown.one_step.rank_correlation, Undefined):
        return f"Order of policies by one-step labels: undefined, {shown.one_step.rank_correlation.why}."
    one_step, partial = shown.one_step, shown.partial
    words = (
        f"One-step labels order {deployed.forecast.policies} policies as deploying them does with a rank "
        f"correlation of {with_span(one_step.rank_correlation, defined(one_step.bootstrap), 2)}"
    )
    if isinstance(partial.value, Undefined):
        return f"{words}."
    interval = defined(partial.bootstrap)
    if interval is None or interval.low <= 0:
        return f"{words}. Labels are not shown to know more than a count of fires does."
    # Two updates that lie far apart are easy to put in order: what labels know shows among policies of one update.
    of_one_update = [
        defined(order.bootstrap)
        for order in partial.within.values()
        if not isinstance(order.rank_correlation, Undefined)
    ]
    within = ", and are not shown to among those of each update"
    if all(end is not None and end.low > 0 for end in of_one_update):
        within = ""
    return f"{words}. Of all policies labels know more than a count of fires does{within}."


def _size(deployed: TaskDeployment, name: str) -> str:
    """Return the paired difference with its interval, and what it is of never's return."""
    gained, never = gains_over_never(deployed)[name], defined(deployed.policies[NEVER].returned)
    mean, digits = defined(gained.mean), followed_digits(deployed)
    words = f"{estimate(gained, digits)} {UNIT}"
    if mean is None or never is None or never <= 0:
        return words
    return f"{words}, {percent(mean / never)} of the {unsigned(never, digits)} without any update"


def _beside_always(deployed: TaskDeployment, name: str) -> str:
    """Return what the trigger adds to its update: whoever follows it could also update always."""
    added = defined(deployed.policies[name].over_always)
    if added is None:
        return ""
    grade = defined(added.grade) or "not graded"
    return (
        f" Beside always firing the same update it returned {estimate(added, followed_digits(deployed))} ({grade})."
    )


def _certainty(deployed: TaskDeployment, gained: Advantage) -> str:
    grade = defined(gained.grade)
    if grade is None and deployed.checkpoints > 1:
        return "The same difference at every checkpoint has no spread, and so no interval."
    if grade is None:
        return "One checkpoint has no spread: it takes at least six to resolve a mean."
    outlook = ""
    if grade == "unresolved" and not isinstance(gained.mde, Undefined):
        size = unsigned(gained.mde, followed_digits(deployed))
        outlook = (
            f". With this spread, {deployed.checkpoints} checkpoints find a difference of {size} four times in five"
        )
    over = f"{deployed.family} comparisons" if deployed.family > 1 else ""
    return certainty(gained, deployed.checkpoints, over=over, outlook=outlook)


def _differs(gained: Advantage, *, upward: bool) -> bool:
    mean = defined(gained.mean)
    return mean is not None and defined(gained.grade) in ("resolved", "leaning") and (mean > 0) == upward


def _range(deployed: TaskDeployment, gains: Mapping[str, Advantage], names: list[str]) -> str:
    """Return how much many policies lost, as in "158.5 to 490.5 "; few of them have their sizes in the table."""
    if len(names) <= NAMED:
        return ""
    digits = followed_digits(deployed)
    losses = sorted(-mean for name in names if (mean := defined(gains[name].mean)) is not None)
    return f"{unsigned(losses[0], digits)} to {unsigned(losses[-1], digits)} "


def _graded_list(gains: Mapping[str, Advantage], names: list[str], *, others: bool = False) -> str:
    """Return policies with their grades; more than a sentence holds are counted, for a table has their names."""
    if len(names) <= NAMED:
        return listed([f"{name} ({defined(gains[name].grade)})" for name in names])
    counts = Counter(str(defined(gains[name].grade)) for name in names)
    graded = listed([f"{count} {grade}" for grade, count in sorted(counts.items(), reverse=True)])
    return f"{len(names)} {'others' if others else 'policies'} ({graded})"
