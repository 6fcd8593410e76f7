"""Sentences on which candidate triggers knew when to update."""

import dataclasses
import math
from collections.abc import Mapping, Sequence

from worldfork.analysis.present.text.formatting import defined, listed
from worldfork.analysis.present.text.terms import BEATEN
from worldfork.analysis.read.triggers import is_reference
from worldfork.analysis.score.records import TaskScore
from worldfork.analysis.score.triggers import TriggerScore
from worldfork.counting import plural


@dataclasses.dataclass(frozen=True)
class Candidates:
    """Registered candidate triggers of a task, and how far each of them comes."""

    read: Sequence[str]
    registered: int
    unread: int  # that could not be read here; others that are missing were not asked for
    passing: Sequence[str]  # beat chance
    paying: Sequence[str]  # of these, those that beat the better of never and always too
    missed: Mapping[str, Sequence[str]]  # of those that pass, what each does not beat

    @property
    def others(self) -> str:
        """Number of candidates that are not among those that are compared, in brackets."""
        return _not_compared(self.registered - len(self.read), self.unread)


def candidates(score: TaskScore) -> Candidates:
    """Return how far each registered candidate comes, on all attempted forks."""
    triggers = score.triggers.all_attempted
    read = [name for name, figures in triggers.items() if figures.standing == "candidate"]
    passing = [name for name in read if triggers[name].passes_control is True]
    missed = {
        name: judged.does_not_beat for name in passing if (judged := defined(triggers[name].useful)) is not None
    }
    return Candidates(
        read=read,
        registered=max(score.candidates, len(read)),
        unread=score.candidates_unread,
        passing=passing,
        paying=[name for name, unbeaten in missed.items() if "better_of_both" not in unbeaten],
        missed=missed,
    )


def useful_triggers(score: TaskScore) -> dict[str, TriggerScore]:
    """Return the registered candidates that beat everything they have to."""
    return {
        name: figures
        for name, figures in score.triggers.all_attempted.items()
        if figures.standing == "candidate"
        and not is_reference(name)
        and (judged := defined(figures.useful)) is not None
        and judged.useful
    }


def trigger_words(score: TaskScore) -> str:
    """Return which registered candidates knew when to update; empty where there is none."""
    found, useful = candidates(score), list(useful_triggers(score))
    count = plural(found.registered, "candidate trigger")
    if not found.read:
        return f"None of {count} was read." if found.registered else ""
    of_these = f"Of {count}{found.others}"
    if useful:
        return (
            f"{of_these}, {', '.join(useful)} beat{'s' if len(useful) == 1 else ''} all that a useful one has to."
        )
    if not found.passing:
        return f"None of {count}{found.others} beats chance after correction."
    both = len(found.paying)
    if len(found.passing) == 1:
        beat = f"{found.passing[0]} beats chance{' and the better of never and always' if both else ''}"
    else:
        beat = f"{len(found.passing)} beat chance"
        if both:
            also = "all of these" if both == len(found.passing) else f"{both} of these"
            beat += f", {also} also the better of never and always"
    return f"{of_these}, {beat}; {'it is not' if found.registered == 1 else 'none is'} useful."


def not_beaten(score: TaskScore) -> str:
    """Return which candidate comes nearest to being useful where none is, and what it does not beat."""
    missed = {} if useful_triggers(score) else candidates(score).missed
    if not missed:
        return ""

    def distance(name: str) -> tuple[int, float]:
        earned = defined(score.triggers.all_attempted[name].policy_total)
        return len(missed[name]), math.inf if earned is None else -earned

    nearest = min(missed, key=distance)
    unbeaten = listed([BEATEN[test] for test in missed[nearest]], last="or")
    if len(missed) == 1:
        return f"{nearest} is not shown to beat {unbeaten}."
    return f"{nearest} comes nearest: it is not shown to beat {unbeaten}."


def triggers_everywhere(scores: Mapping[str, TaskScore]) -> str:
    """Return which candidates are useful in a study, whose scores come by name; empty where none was read."""
    found = {name: candidates(score) for name, score in scores.items()}
    read = {name for task in found.values() for name in task.read}
    if not read:
        return ""
    useful = [
        f"{listed([*names])} on {name}" for name, score in scores.items() if (names := useful_triggers(score))
    ]
    if useful:
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
