"""What to do, and how sure that is: never, always, when a signal says so, or not resolved."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Literal

import numpy as np

from worldfork.counting import plural
from worldfork.desk.scoring.few_clusters import SIGNIFICANT
from worldfork.desk.scoring.policies import fit_threshold
from worldfork.desk.scoring.records import TaskScore, TriggerScore
from worldfork.desk.scoring.undefined import Undefined
from worldfork.desk.triggers import is_reference
from worldfork.desk.wording.numbers import known, listed, rate
from worldfork.desk.wording.terms import BEATEN

__all__ = ["Advice", "advise", "not_beaten", "trigger_words", "triggers_everywhere", "useful_triggers"]


@dataclasses.dataclass(frozen=True)
class Advice:
    """One sentence of advice, and one of how certain it is."""

    kind: Literal["never", "always", "when", "unresolved"]
    what: str
    certainty: str

    @property
    def sentence(self) -> str:
        """Both."""
        return f"{self.what} {self.certainty}"


def advise(score: TaskScore) -> Advice:
    """What the verdict and the triggers come to, on all attempted forks."""
    useful = useful_triggers(score)
    if useful:
        name, figures = max(useful.items(), key=lambda item: known(item[1].policy_total) or -math.inf)
        return Advice("when", f"Update when {_condition(score, name)}.", _why_useful(figures, score))
    if not score.evidence.forks.delta.any():
        return Advice("unresolved", "Nothing to decide.", "dR is 0 at every fork: updating changes no return.")
    verdict, grade = known(score.verdict), known(score.judgement.grade)
    # Where a trigger earns more than never and always do, the better of the two is not all that can be had.
    paying = bool(_beat_both(score))
    if verdict is None:
        why = "One checkpoint has no spread: it takes at least six to resolve a mean"
        if score.effect.all_attempted.clusters > 1 and isinstance(score.verdict, Undefined):
            why = f"{score.verdict.why[0].upper()}{score.verdict.why[1:]}"
        return Advice("unresolved", "No advice.", why if why.endswith("?") else f"{why}.")
    if verdict == "harmful":
        sure = grade == "resolved"
        what = "Leave the model frozen" if sure else "Rather leave the model frozen"
        instead = f" {'rather than' if sure else 'than'} update at every decision point" if paying else ""
        return Advice("never", f"{what}{instead}.", _certainty(score))
    if verdict == "helpful":
        what = "Rather update than not."
        if grade == "resolved":
            what = f"Update at every decision point{' rather than never' if paying else ''}."
        return Advice("always", what, _certainty(score))
    return Advice("unresolved", "No advice yet.", _certainty(score))


def useful_triggers(score: TaskScore) -> dict[str, TriggerScore]:
    """The registered candidates that beat everything they have to."""
    return {
        name: figures
        for name, figures in score.triggers_all_attempted.items()
        if figures.standing == "candidate"
        and not is_reference(name)
        and (judged := known(figures.useful)) is not None
        and judged.useful
    }


def trigger_words(score: TaskScore) -> str:
    """Whether any registered candidate knew when to update; empty where there is none."""
    candidates = {
        name: figures for name, figures in score.triggers_all_attempted.items() if figures.standing == "candidate"
    }
    registered = max(score.candidates, len(candidates))
    count = plural(registered, "candidate trigger")
    if not candidates:
        return f"None of {count} was read." if registered else ""
    useful = list(useful_triggers(score))
    passing = [name for name, figures in candidates.items() if figures.passes_control is True]
    others = _not_compared(registered - len(candidates), score.candidates_unread)
    if useful:
        return (
            f"Of {count}{others}, {', '.join(useful)} beat{'s' if len(useful) == 1 else ''} all that a useful one "
            "has to."
        )
    if passing:
        both = len(_beat_both(score))
        if len(passing) == 1:
            beat = f"{passing[0]} beats chance{' and the better of never and always' if both else ''}"
        else:
            beat = f"{len(passing)} beat chance"
            if both:
                also = "all of these" if both == len(passing) else f"{both} of these"
                beat += f", {also} also the better of never and always"
        return f"Of {count}{others}, {beat}; {'it is not' if registered == 1 else 'none is'} useful."
    return f"None of {count}{others} beats chance after correction."


def _not_compared(missing: int, unread: int) -> str:
    """How many registered candidates are not among those that are compared, and whether a reader chose so.

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


def triggers_everywhere(scores: Mapping[str, TaskScore]) -> str:
    """Which candidates are useful in a study, whose scores come by name; empty where none was read."""
    triggers, beating, paying = set(), 0, 0
    registered = max((score.candidates for score in scores.values()), default=0)
    for score in scores.values():
        of_task = {name: one for name, one in score.triggers_all_attempted.items() if one.standing == "candidate"}
        triggers |= set(of_task)
        beating += any(one.passes_control is True for one in of_task.values())
        paying += bool(_beat_both(score))
    if not triggers:
        return ""
    useful = [
        f"{listed([*names])} on {name}" for name, score in scores.items() if (names := useful_triggers(score))
    ]
    if useful:
        return f"Useful: {'; '.join(useful)}."
    chance = (
        f"Some beat chance in {_of_cases(beating, len(scores))}" if beating else "None beats chance in any of them"
    )
    if paying:
        chance += f", and the better of never and always in {_of_cases(paying, len(scores))}"
    unread = min((score.candidates_unread for score in scores.values()), default=0)
    count = plural(max(registered, len(triggers)), "candidate")
    count += _not_compared(registered - len(triggers), unread)
    return f"None of {count} is useful in any of the {len(scores)} cases below. {chance}."


def not_beaten(score: TaskScore) -> str:
    """Which candidate comes nearest to being useful where none is, and what it does not beat."""
    if useful_triggers(score):
        return ""
    missed = {
        name: judged.does_not_beat
        for name, figures in score.triggers_all_attempted.items()
        if figures.standing == "candidate" and figures.passes_control is True
        if (judged := known(figures.useful)) is not None
    }
    if not missed:
        return ""

    def distance(name: str) -> tuple[int, float]:
        earned = known(score.triggers_all_attempted[name].policy_total)
        return len(missed[name]), math.inf if earned is None else -earned

    nearest = min(missed, key=distance)
    unbeaten = listed([BEATEN[test] for test in missed[nearest]], last="or")
    if len(missed) == 1:
        return f"{nearest} does not beat {unbeaten}."
    return f"{nearest} comes nearest: it does not beat {unbeaten}."


def _beat_both(score: TaskScore) -> list[str]:
    """The candidates that beat chance, and never and always updating too, be they useful or not."""
    return [
        name
        for name, figures in score.triggers_all_attempted.items()
        if figures.standing == "candidate" and figures.passes_control is True
        if (judged := known(figures.useful)) is not None and "better_of_both" not in judged.does_not_beat
    ]


def _of_cases(count: int, cases: int) -> str:
    """How many of some cases, in words.

    >>> _of_cases(2, 2), _of_cases(6, 6), _of_cases(1, 6)
    ('both', 'all 6', '1 of them')
    """
    if count == cases > 1:
        return "both" if cases == 2 else f"all {cases}"
    return f"{count} of them"


def _condition(score: TaskScore, name: str) -> str:
    """The signal and the threshold that fits all checkpoints; an alarm has none."""
    signal = score.evidence.all_attempted[name].signal
    if signal is None:
        return f"{name} raises an alarm"
    forks = score.evidence.forks
    threshold = fit_threshold(signal, forks.delta)
    share = float(np.mean(signal >= threshold))
    return f"{name} reaches {threshold:.4g} (here at {100 * share:.0f}% of the decision points)"


def _why_useful(figures: TriggerScore, score: TaskScore) -> str:
    worst = max((p for p in figures.adjusted.values() if not isinstance(p, Undefined)), default=math.nan)
    return (
        f"It beats chance, the fires of other checkpoints, the better of never and always, and the schedule "
        f"(largest corrected p {rate(worst)}, {plural(score.effect.all_attempted.clusters, 'checkpoint')})."
    )


def _certainty(score: TaskScore) -> str:
    """What the grade rests on."""
    judged, count = score.judgement, score.effect.all_attempted.clusters
    grade, least, more = known(judged.grade), known(judged.least_p), known(judged.more_checkpoints)
    over = f" after correction over {judged.family} means" if judged.family > 1 else ""
    if grade == "resolved":
        words = f"Resolved: the exact test gives p {rate(judged.adjusted_sign_flip)}{over}"
    elif grade == "leaning":
        if least is not None and least >= SIGNIFICANT:
            words = f"Not certain: {plural(count, 'checkpoint')} can not give an exact p below {rate(least, 4)}"
        else:
            words = f"Not certain: the exact test gives p {rate(judged.adjusted_sign_flip)}{over}"
    else:
        words = "The mean may lie on either side of 0"
    if more:
        words += f"; about {plural(more, 'more checkpoint')} would resolve it, if mean and spread stay as they are"
    elif grade != "resolved" and isinstance(judged.more_checkpoints, Undefined):
        words += f"; {judged.more_checkpoints.why}"
    without = known(judged.leave_one_out)
    if without and without.crosses and grade != "unresolved":
        words += f". Without checkpoint {listed(without.crosses, last='or')} the interval reaches 0"
    return words + "."
