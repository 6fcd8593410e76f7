"""What to do, and how sure that is: never, always, when a signal says so, or not resolved."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from worldfork.analysis.present.text.formatting import (
    digits_for,
    known,
    listed,
    number,
    percent,
    rate,
    with_span,
)
from worldfork.analysis.present.text.terms import BEATEN
from worldfork.analysis.read.triggers import is_reference
from worldfork.analysis.score.intervals import SIGNIFICANT
from worldfork.analysis.score.judgement import Grade, Helped, Scale
from worldfork.analysis.score.records import Contrast, TaskScore, TriggerScore
from worldfork.analysis.score.result import Score
from worldfork.analysis.score.undefined import Undefined
from worldfork.counting import plural


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
        for name, figures in score.triggers.all_attempted.items()
        if figures.standing == "candidate"
        and not is_reference(name)
        and (judged := known(figures.useful)) is not None
        and judged.useful
    }


def trigger_words(score: TaskScore) -> str:
    """Whether any registered candidate knew when to update; empty where there is none."""
    candidates = {
        name: figures for name, figures in score.triggers.all_attempted.items() if figures.standing == "candidate"
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
        of_task = {name: one for name, one in score.triggers.all_attempted.items() if one.standing == "candidate"}
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
        for name, figures in score.triggers.all_attempted.items()
        if figures.standing == "candidate" and figures.passes_control is True
        if (judged := known(figures.useful)) is not None
    }
    if not missed:
        return ""

    def distance(name: str) -> tuple[int, float]:
        earned = known(score.triggers.all_attempted[name].policy_total)
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
        for name, figures in score.triggers.all_attempted.items()
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
    fitted = known(score.triggers.all_attempted[name].threshold)
    if fitted is None:
        return f"{name} raises an alarm"
    reached = "has any value" if isinstance(fitted.value, Undefined) else f"reaches {fitted.value:.4g}"
    return f"{name} {reached} (here at {percent(known(fitted.share) or 0.0, signed=False)} of the decision points)"


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


UNIT: Final = " return per episode"
WORDS: Final = {"harmful": "Updating hurts", "helpful": "Updating helps", "unresolved": "Not resolved"}


MANY: Final = 6  # verdicts of one study, beyond which screen and index say each in a line, or count them


@dataclasses.dataclass(frozen=True)
class Answer:
    """One task in one arm: what it says in a word, in a sentence, and what to do."""

    word: str
    verdict: str  # harmful, helpful, unresolved, undecided
    grade: Grade | None
    mean: str  # with its interval
    scale: Scale
    of: str  # in per cent of the frozen and of the clean return; empty where neither is positive
    helped: Helped
    diverged: str  # how many forks did, as the end of a sentence; empty where none did
    advice: Advice
    triggers: str  # whether any candidate knew when to update
    not_beaten: str  # which trigger comes nearest to being useful; empty where one is

    @property
    def graded(self) -> str:
        """The grade where it adds anything: a mean that is unresolved says so already."""
        return self.grade or "no interval" if self.verdict != "unresolved" else ""

    @property
    def helped_words(self) -> str:
        """How often updating helped, and how many updates diverged: the mean beside it has these in it."""
        share, low, high = (
            percent(part, signed=False) for part in (self.helped.share, self.helped.low, self.helped.high)
        )
        spread = "" if low == high else f" ({low} to {high} by checkpoint)"
        return f"Updating helped at {share} of the decision points{spread}{self.diverged}"

    @property
    def sentence(self) -> str:
        """The verdict, its grade, its size."""
        graded = f" ({self.graded})" if self.graded else ""
        of = f", {self.of}" if self.of else ""
        return f"{self.word}{graded}: {self.mean} return per episode{of}."


@dataclasses.dataclass(frozen=True)
class ContrastAnswer:
    """Two arms on one task."""

    first: str
    second: str
    task: str
    grade: Grade | None
    difference: str  # with its interval
    sentence: str


def answer(score: TaskScore) -> Answer:
    """What one task says, on all attempted forks."""
    effect, shown, forks = score.effect.all_attempted, score.scale, score.forks
    verdict = known(score.verdict) or "undecided"
    return Answer(
        word=WORDS.get(verdict, "Not decided") if score.evidence.forks.delta.any() else "No difference",
        verdict=verdict,
        grade=known(score.judgement.grade),
        mean=with_span(effect.mean, effect.student_t, digits_for(effect)),
        scale=shown,
        of=_of(shown),
        helped=score.helped,
        diverged=f"; {forks.diverged} of {plural(forks.attempted, 'fork')} diverged" if forks.diverged else "",
        advice=advise(score),
        triggers=trigger_words(score),
        not_beaten=not_beaten(score),
    )


def contrast_answer(pair: str, task: str, contrast: Contrast | Undefined) -> ContrastAnswer:
    """One arm less another, in a sentence."""
    first, _, second = pair.partition(" - ")
    if isinstance(contrast, Undefined):
        return ContrastAnswer(first, second, task, None, "undefined", f"{task}: {contrast.why}.")
    digits = digits_for(contrast)
    graded = None if isinstance(contrast.grade, Undefined) else contrast.grade
    difference = with_span(contrast.mean, contrast.student_t, digits)
    mean = known(contrast.mean)
    if graded in ("resolved", "leaning") and mean is not None:
        comparison = f"{'better' if mean > 0 else 'worse'} ({graded})"
    else:
        comparison = "not resolved"
    return ContrastAnswer(
        first,
        second,
        task,
        graded,
        difference,
        f"{task}: {first} less {second} is {difference}, {comparison}; "
        f"updating is worth {number(contrast.first, digits)} with the one and "
        f"{number(contrast.second, digits)} with the other.",
    )


def contrast_summary(
    pair: str,
    answers: Sequence[ContrastAnswer],
    contrasts: Mapping[str, Contrast | Undefined],
    *,
    sized: bool = False,
) -> str:
    """All tasks of two arms in one sentence: which speak for which arm, and how surely. Where even the better one
    loses, updates cost less with it: "worth more" would read as if it paid.

    `sized` adds the difference where there is one task; those of several stand in a table.
    """
    first, _, second = pair.partition(" - ")
    differing: dict[str, list[str]] = {}
    neither: list[str] = []
    for one in answers:
        contrast = contrasts[one.task]
        mean = None if isinstance(contrast, Undefined) else known(contrast.mean)
        if mean is None or isinstance(contrast, Undefined) or one.grade not in ("resolved", "leaning"):
            neither.append(one.task)
            continue
        both = [known(contrast.first), known(contrast.second)]
        lose = all(value is not None and value < 0 for value in both)
        verb = ("cost less" if mean > 0 else "cost more") if lose else f"are worth {'more' if mean > 0 else 'less'}"
        differing.setdefault(verb, []).append(f"{one.task} ({one.grade})")
    parts = [
        f"updates {verb} with {first} than with {second} on {listed(tasks)}" for verb, tasks in differing.items()
    ]
    if neither:
        between = "" if parts else f" between {first} and {second}"
        parts.append(f"no difference{between} can be told on {listed(neither)}")
    text = "; ".join(parts)
    if sized and text and len(answers) == 1 and answers[0].difference != "undefined":
        text += f": {answers[0].difference}{UNIT}"
    return f"{text[0].upper()}{text[1:]}." if text else f"{first} and {second} have no task in common."


def corrected(score: Score) -> str:
    """What was corrected for how many tests."""
    means, candidates = len(score.family.means), len(score.family.candidates)
    where = "registered" if score.family.registered else "in the table"
    parts = []
    if means > 1:
        parts.append(f"Verdicts are corrected (Holm) over the {plural(means, 'mean')} {where}")
    if candidates:
        over = f" \N{MULTIPLICATION SIGN} {plural(means, 'mean')} = {candidates * means} tests" if means > 1 else ""
        subject = "triggers" if parts else "Triggers are corrected (Holm)"
        parts.append(f"{subject} over {plural(candidates, 'candidate')}{over}")
    if not parts:
        return "One mean, no candidate trigger: nothing to correct for."
    return f"{', '.join(parts)}. References are not tested."


def read_as(score: Score) -> list[str]:
    """How a flat table was read: which of two returns is the better one, and what failed; nothing of a study."""
    if score.higher_is_better is None:
        return []
    words = [
        "Larger is better: dR is r_update less r_hold."
        if score.higher_is_better
        else "Smaller is better: a return is a cost with its sign turned, so dR is r_hold less r_update."
    ]
    if score.failed:
        (failure,) = {
            one.evidence.forks.failure_return for arm in score.arms.values() for one in arm.tasks.values()
        }
        cost = failure if score.higher_is_better or failure is None else 0.0 - failure
        words.append(
            f"{plural(len(score.failed), 'row')} with a return that is missing or not finite: such a branch counts "
            f"as {cost:g} among all attempted forks, and its fork is not retained."
        )
    return words


def _of(shown: Scale) -> str:
    shares = []
    if not isinstance(shown.of_frozen, Undefined):
        frozen = f"{shown.frozen:,.{_digits(shown.frozen)}f}"
        shares.append(f"{percent(shown.of_frozen)} of the {frozen} that the frozen model returned")
    if not isinstance(shown.of_clean, Undefined) and not isinstance(shown.clean, Undefined):
        clean = f"{shown.clean:,.{_digits(shown.clean)}f}"
        shares.append(f"{percent(shown.of_clean)} of its {clean} in the clean world")
    return ", ".join(shares)


def _digits(value: float) -> int:
    return 0 if value >= 100 else 1 if value >= 10 else 2
