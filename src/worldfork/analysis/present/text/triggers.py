"""Sentences on which candidate triggers knew when to update."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Final

from worldfork.analysis.present.text.formatting import defined, estimate, listed, span
from worldfork.analysis.present.text.terms import BEATEN
from worldfork.analysis.score.intervals import SIGNIFICANT, MeanOf
from worldfork.analysis.score.policies import count_deployments
from worldfork.analysis.score.records import TaskScore
from worldfork.analysis.score.triggers import TriggerScore
from worldfork.analysis.score.undefined import divide, divide_bounds
from worldfork.counting import plural

USEFUL: Final = (
    "A useful trigger also beats the fires of other checkpoints, the better of never and always, and "
    f"{BEATEN['position_table']}."
)


@dataclasses.dataclass(frozen=True)
class Candidates:
    """Registered candidate triggers of a task, and how far each of them comes."""

    read: Sequence[str]
    registered: int
    unread: int  # that could not be read here; others that are missing were not asked for
    passing: Sequence[str]  # beat chance
    paying: Sequence[str]  # of these, those that beat the better of never and always too
    missed: Mapping[str, Sequence[str]]  # of those that pass, what each does not beat
    useful: Sequence[str]  # those that beat everything they have to

    @property
    def others(self) -> str:
        """Number of candidates that are not among those that are compared, in brackets."""
        return _not_compared(self.registered - len(self.read), self.unread)


def candidates(score: TaskScore) -> Candidates:
    """Return how far each registered candidate comes, on all attempted forks."""
    triggers = score.triggers.all_attempted
    read = [name for name, figures in triggers.items() if figures.standing == "candidate"]
    passing = [name for name in read if triggers[name].passes_control is True]
    judged = {name: useful for name in read if (useful := defined(triggers[name].useful)) is not None}
    missed = {name: judged[name].does_not_beat for name in passing if name in judged}
    return Candidates(
        read=read,
        registered=max(score.candidates, len(read)),
        unread=score.candidates_unread,
        passing=passing,
        paying=[name for name, unbeaten in missed.items() if "better_of_both" not in unbeaten],
        missed=missed,
        useful=[name for name, useful in judged.items() if useful.useful],
    )


def trigger_words(score: TaskScore) -> str:
    """Return which registered candidates knew when to update; empty where there is none."""
    found = candidates(score)
    count = plural(found.registered, "candidate trigger")
    if not found.read:
        return f"None of {count} was read." if found.registered else ""
    of_these = f"Of {count}{found.others}"
    if found.useful:
        beat = "beats" if len(found.useful) == 1 else "beat"
        return f"{of_these}, {', '.join(found.useful)} {beat} all that a useful one has to."
    if not found.passing:
        return f"None of {count}{found.others} beats chance after correction."
    both, passing = len(found.paying), len(found.passing)
    if passing == 1:
        beat = f"{of_these}, {found.passing[0]} beats chance{' and the better of never and always' if both else ''}"
    else:
        beat = f"{passing} of {count}{found.others} beat chance"
        if both:
            also = "all" if both == passing else f"{both} of these"
            beat += f", and {also} also beat the better of never and always"
    none = "It is not called" if found.registered == 1 else "None is called"
    return f"{beat}. {none} useful."


def not_beaten(score: TaskScore) -> str:
    """Return which candidate comes nearest to being useful where none is, and what it does not beat."""
    found = candidates(score)
    if found.useful or not (missed := found.missed):
        return ""

    def distance(name: str) -> tuple[int, float]:
        earned = defined(score.triggers.all_attempted[name].policy_total)
        return len(missed[name]), math.inf if earned is None else -earned

    nearest = min(missed, key=distance)
    unbeaten = listed([BEATEN[test] for test in missed[nearest]], last="or")
    anew = _lost_anew(score.triggers.all_attempted[nearest], missed[nearest])
    if len(missed) == 1:
        return f"{nearest} is not shown to beat {unbeaten}{anew}."
    return f"{nearest} comes nearest: it is not shown to beat {unbeaten}{anew}."


def _lost_anew(trigger: TriggerScore, missed: Sequence[str]) -> str:
    """Return that a trigger would beat never and always if its thresholds were given; else nothing."""
    gains, p = defined(trigger.gains), defined(trigger.adjusted["better_of_both"])
    gain = gains["better_of_both"] if gains else None
    anew = defined(gain.refitted) if gain else None
    beats_naively = "better_of_both" in missed and p is not None and p < SIGNIFICANT
    if not beats_naively or anew is None or not anew.low <= 0 <= anew.high:
        return ""
    return (
        f". With its threshold fitted anew without each checkpoint, the interval of a checkpoint's gain over never "
        f"and always contains 0: {span(anew, 1)}"
    )


def gain_words(name: str, score: TaskScore) -> str:
    """Return what a candidate earns more than the better of never and always in a deployment, with the interval
    that counts the uncertainty of its threshold."""
    gains = defined(score.triggers.all_attempted[name].gains)
    assert gains is not None  # it beats them
    gain, forks = gains["better_of_both"], score.evidence.forks
    kept = count_deployments(forks.take(score.evidence.scored("all_attempted")))
    more = MeanOf(
        mean=divide(gain.mean, kept.of_checkpoint), student_t=divide_bounds(gain.refitted, kept.of_checkpoint)
    )
    better = "always" if (defined(score.policies.all_attempted.always) or 0.0) > 0 else "never"
    anew = "thresholds fitted anew without each checkpoint"
    return f"{estimate(more)} per deployment more than {better} updating ({anew})"


def triggers_everywhere(scores: Mapping[str, TaskScore]) -> str:
    """Return which candidates are useful in a study, whose scores come by name; empty where none was read."""
    found = {name: candidates(score) for name, score in scores.items()}
    read = {name for task in found.values() for name in task.read}
    if not read:
        return ""
    if useful := [f"{listed(task.useful)} on {name}" for name, task in found.items() if task.useful]:
        return f"Useful: {'; '.join(useful)}."
    beating = sum(bool(task.passing) for task in found.values())
    paying = sum(bool(task.paying) for task in found.values())
    chance = (
        f"Some beat chance in {_of_cases(beating, len(scores))}" if beating else "None beats chance in any of them"
    )
    if paying:
        chance += f", and the better of never and always in {_of_cases(paying, len(scores))}"
    registered = max(len(read), *(score.candidates for score in scores.values()))
    others = _not_compared(registered - len(read), min(task.unread for task in found.values()))
    count = f"{plural(registered, 'candidate')}{others}"
    return f"None of {count} is useful in any of the {len(scores)} cases below. {chance}."


def _not_compared(missing: int, unread: int) -> str:
    """Return how many registered candidates are not among those that are compared, and why.

    >>> _not_compared(3, unread=1)
    ' (1 of them can not be read here, 2 were not asked for and still count in the correction)'
    """
    unread = min(max(missing, 0), unread)
    others = missing - unread
    words = [f"{unread} of them can not be read here"] if unread else []
    if others > 0:
        who = f"{others}{'' if unread else ' of them'}"
        did = "was not asked for and still counts" if others == 1 else "were not asked for and still count"
        words.append(f"{who} {did} in the correction")
    return f" ({', '.join(words)})" if words else ""


def _of_cases(count: int, cases: int) -> str:
    """Return how many of some cases, in words.

    >>> _of_cases(2, 2), _of_cases(6, 6), _of_cases(1, 6)
    ('both', 'all 6', '1 of them')
    """
    if count == cases > 1:
        return "both" if cases == 2 else f"all {cases}"
    return f"{count} of them"
