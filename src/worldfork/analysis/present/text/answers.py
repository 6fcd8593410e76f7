"""Answer of one task in sentences: is updating worth it, what to do, and how sure that is."""

import dataclasses
import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from worldfork.analysis.present.table import Tone
from worldfork.analysis.present.text.formatting import (
    decimals,
    defined,
    digits_for,
    estimate,
    listed,
    number,
    percent,
    rate,
    unsigned,
)
from worldfork.analysis.present.text.stopping import PREDICTIONS_AS_FIXED, graded_by_rule, graded_mean, stops
from worldfork.analysis.present.text.terms import BEATEN
from worldfork.analysis.present.text.triggers import candidates, gain_words, not_beaten, trigger_words
from worldfork.analysis.score.deployment_records import Advantage
from worldfork.analysis.score.effects import Helped, Scale
from worldfork.analysis.score.intervals import SIGNIFICANT
from worldfork.analysis.score.records import Equivalence, PredictionAnswer, TaskScore
from worldfork.analysis.score.result import Score
from worldfork.analysis.score.sign_flips import ENUMERATED_SIGNS
from worldfork.analysis.score.triggers import TriggerScore
from worldfork.analysis.score.undefined import Undefined, settle
from worldfork.analysis.score.verdicts import Grade, Judgement
from worldfork.counting import plural
from worldfork.fixed_policies import FIXED_POLICIES

UNIT: Final = " return per episode"
VERBS: Final = {"harmful": "hurts", "helpful": "helps"}
TONES: Final[Mapping[str, Tone]] = {"harmful": "bad", "helpful": "good", "unresolved": "open", "undecided": "open"}
CAME_TO: Final = ("held", "falsified", "unresolved", "not tested")  # of predictions
FEW: Final = 0.05  # of forks: where so few make half of all |dR|, the mean is theirs
MANY: Final = 6  # verdicts of one study, beyond which screen and index give each a line, or count them


@dataclasses.dataclass(frozen=True)
class Advice:
    """Advice in a sentence, and how certain it is."""

    kind: Literal["never", "always", "when", "unresolved"]
    what: str
    certainty: str


@dataclasses.dataclass(frozen=True)
class Answer:
    """Answer of a task in an arm: the verdict in a word and in a sentence, and what to do."""

    word: str
    verdict: str  # harmful, helpful, unresolved, undecided
    grade: Grade | None
    ungraded: str  # why there is no grade, in two words
    mean: str  # with its interval
    scale: Scale
    of: str  # in per cent of the frozen and of the clean return, or these returns where they are not positive
    helped: Helped
    diverged: str  # the share of forks that did, or why none could; empty where none did
    advice: Advice
    equivalent: float | None  # the registered margin within which updating is equivalent to not updating
    triggers: str  # did any candidate know when to update
    not_beaten: str  # which trigger comes nearest to being useful; empty where one is

    @property
    def graded(self) -> str:
        """The grade where it adds anything: a mean that is unresolved says so already."""
        return self.grade or self.ungraded if self.verdict != "unresolved" else ""

    @property
    def lead(self) -> str:
        """The verdict with its grade."""
        return f"{self.word} ({self.graded})" if self.graded else self.word

    @property
    def tone(self) -> Tone:
        """Good, bad or open."""
        return TONES[self.verdict]

    @property
    def outcome(self) -> str:
        """Verdict and grade for a cell of a table: `hurts (resolved)`."""
        verb = VERBS.get(self.verdict) if self.word != NO_DIFFERENCE else None
        return f"{verb} ({self.graded})" if verb else f"{self.lead[0].lower()}{self.lead[1:]}"

    @property
    def size(self) -> str:
        """The mean with its unit, what it is of the frozen and the clean return, and without diverged forks."""
        return f"{self.mean}{UNIT} on this schedule{f', {self.of}' if self.of else ''}{self.diverged}."

    @property
    def helped_words(self) -> str:
        """Share of decision points at which updating helped."""
        share, low, high = (
            percent(part, signed=False) for part in (self.helped.share, self.helped.low, self.helped.high)
        )
        spread = "" if low == high else f" ({low} to {high} by checkpoint)"
        return f"Updating helped at {share} of the decision points{spread}"


NO_DIFFERENCE: Final = "No difference"
EQUIVALENT: Final = "Equivalent to not updating within ±{}"
WORDS: Final = {
    "harmful": "Updating every time hurts",
    "helpful": "Updating every time helps",
    "unresolved": "Not resolved",
}


def answer(score: TaskScore) -> Answer:
    """Return the answer of one task, on all attempted forks."""
    verdict, graded, equivalent = defined(score.verdict) or "undecided", graded_mean(score), _equivalent(score)
    word = WORDS.get(verdict, "Not decided") if equivalent is None else EQUIVALENT.format(f"{equivalent.margin:g}")
    return Answer(
        word=NO_DIFFERENCE if _changes_nothing(score) else word,
        verdict=verdict,
        grade=defined(score.judgement.grade),
        ungraded="no interval" if isinstance(score.effect.all_attempted.student_t, Undefined) else "not graded",
        mean=graded.words,
        scale=score.scale,
        # Shares are of the mean of all checkpoints, which an earlier look did not have.
        of=_shares(score.scale) if graded.checkpoints == score.effect.all_attempted.clusters else "",
        helped=score.helped,
        diverged=_diverged(score),
        advice=advise(score),
        equivalent=None if equivalent is None else equivalent.margin,
        triggers=trigger_words(score),
        not_beaten=not_beaten(score),
    )


def _diverged(score: TaskScore) -> str:
    """Return the share of forks that diverged, and the mean of the others: the paper's second estimand."""
    share = defined(score.forks.diverged_share)
    if not share:
        return _not_ruled(score)
    beyond = score.evidence.divergence.dropped & ~score.evidence.forks.outcomes.failed
    verb = "diverged" if beyond.any() else "failed"
    if share == 1:
        return f"; all forks {verb}"
    digits, kept = digits_for(score.effect.all_attempted), score.effect.retained
    without = number(kept.mean, digits) if stops(score) else estimate(kept, digits)
    return f"; {percent(share, signed=False)} of the forks {verb}, and without them it is {without}"


def _equivalent(score: TaskScore) -> Equivalence | None:
    """Return the registered equivalence to not updating, where it was met and no effect is known.

    In a study that stops its tests are not adjusted for looking.
    """
    if score.verdict != "unresolved" or stops(score):
        return None
    met = [
        prediction.equivalence
        for prediction in score.predictions
        if prediction.figure == "mean" and prediction.against is None and prediction.answer == "held"
    ]
    return min(filter(None, met), key=lambda tested: tested.margin, default=None)


def _not_ruled(score: TaskScore) -> str:
    """Return that a few forks carry the mean where the divergence rule could not drop them; else nothing."""
    delta = score.evidence.forks.delta.tolist()
    sums = list(itertools.accumulate(sorted(map(abs, delta), reverse=True)))
    half = 1 + sum(size < sums[-1] / 2 for size in sums)
    if not score.divergence.off_in or half > FEW * len(delta):
        return ""
    median = statistics.median(delta)
    return (
        "; the divergence rule does not apply where frozen returns are not positive, and "
        f"{plural(half, 'fork')} of {len(delta):,} carr{'ies' if half == 1 else 'y'} half of all |dR|: the median "
        f"dR of a fork is {number(median, decimals(abs(median)))}"
    )


def _changes_nothing(score: TaskScore) -> bool:
    return not score.evidence.forks.delta.any()


def _shares(scale: Scale) -> str:
    frozen, clean = _rounded(scale.frozen), defined(scale.clean)
    if isinstance(scale.of_frozen, Undefined):
        shares = [f"where the frozen model returned {frozen}"]
    else:
        shares = [f"{percent(scale.of_frozen)} of the {frozen} that the frozen model returned"]
    if clean is not None:
        of = "" if isinstance(scale.of_clean, Undefined) else f"{percent(scale.of_clean)} of "
        shares.append(
            f"{of}its {_rounded(clean)} in the clean world" if of else f"and {_rounded(clean)} in the clean world"
        )
    return ", ".join(shares)


def _rounded(value: float) -> str:
    return f"{value:,.{0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2}f}"


def advise(score: TaskScore) -> Advice:
    """Return what the verdict and the triggers come to, on all attempted forks.

    A trigger that is useful is the advice. One that earns more than the better of never and always is the advice
    where the mean gives none, and else stands behind it.
    """
    triggers, found, mean = score.triggers.all_attempted, candidates(score), _advise_on_mean(score)
    named = found.useful or found.paying
    if not named:
        return mean
    name = max(named, key=lambda name: defined(triggers[name].policy_total) or -math.inf)
    condition, earns = _condition(name, triggers[name]), f"By one-step values that earns {gain_words(name, score)}"
    if len(named) > 1:
        earns += f", of {len(named)} such triggers the most in hindsight"
    if found.useful:
        return Advice("when", f"Update only when {condition}.", f"{earns}. {_why_useful(triggers[name], score)}")
    unbeaten = listed([BEATEN[test] for test in found.missed[name]], last="or")
    earns += f"; that it beats {unbeaten} is not shown."
    if mean.kind == "unresolved":
        return Advice("when", f"Rather update when {condition} than always or never.", f"{earns} {mean.certainty}")
    return dataclasses.replace(
        mean, certainty=f"{mean.certainty} A trigger earned more here: update when {condition}. {earns}"
    )


def _advise_on_mean(score: TaskScore) -> Advice:
    """Return which of never and always the verdict advises."""
    if _changes_nothing(score):
        return Advice("unresolved", "Nothing to decide.", "dR is 0 at every fork: updating changes no return.")
    verdict, sure = defined(score.verdict), score.judgement.grade == "resolved"
    better = _more_than_both(score)
    if verdict is None:
        why = "One checkpoint has no spread: it takes at least six to resolve a mean"
        if score.effect.all_attempted.clusters > 1 and isinstance(score.verdict, Undefined):
            why = f"{score.verdict.why[0].upper()}{score.verdict.why[1:]}"
        return Advice("unresolved", "No advice.", why if why.endswith("?") else f"{why}.")
    if verdict == "harmful":
        what = "Leave the model frozen" if sure else "Rather leave the model frozen"
        instead = f" {'rather than' if sure else 'than'} update at every decision point" if better else ""
        return Advice("never", f"{what}{instead}.", _certainty(score))
    if verdict == "helpful":
        always = f"Update at every decision point{' rather than never' if better else ''}."
        return Advice("always", always if sure else "Rather update than not.", _certainty(score))
    if (equivalent := _equivalent(score)) is not None:
        why = (
            f"Two one-sided tests reject (p {rate(equivalent.p)}) that the mean lies outside the registered "
            f"±{equivalent.margin:g}."
        )
        return Advice("unresolved", "Updating or not makes no difference that counts.", why)
    return Advice("unresolved", "No advice yet.", _certainty(score))


def _more_than_both(score: TaskScore) -> bool:
    """Return whether a trigger, or a trial of each update, earns more than never and always: then the better of the
    two is not all that can be had."""
    tried = defined(score.trials)
    trial = tried.by_episodes.get("1") if tried else None
    over = defined(trial.over_better.student_t) if trial else None
    return score.prices.best_at_cost not in FIXED_POLICIES or (over is not None and over.low > 0)


def _condition(name: str, figures: TriggerScore) -> str:
    """Return the signal and the threshold that fits all checkpoints; an alarm has none."""
    fitted = defined(figures.threshold)
    if fitted is None:
        return f"{name} raises an alarm"
    reached = "has any value" if isinstance(fitted.value, Undefined) else f"is {fitted.value:.4g} or more"
    return (
        f"{name} {reached} (here at {percent(defined(fitted.share) or 0.0, signed=False)} of the decision points)"
    )


def _why_useful(figures: TriggerScore, score: TaskScore) -> str:
    worst = max((p for p in figures.adjusted.values() if not isinstance(p, Undefined)), default=math.nan)
    return (
        f"It beats chance, the fires of other checkpoints, the better of never and always, and the schedule "
        f"(largest corrected p {rate(worst)}, {plural(score.effect.all_attempted.clusters, 'checkpoint')})."
    )


def _certainty(score: TaskScore) -> str:
    judged = score.judgement
    if judged.asked is not None:
        return graded_by_rule(judged.asked)
    if isinstance(judged.grade, Undefined):
        return f"Not graded: {judged.grade.why}."
    grade, more = defined(judged.grade), defined(judged.more_checkpoints)
    outlook = ""
    if more:
        outlook = (
            f"; about {plural(more, 'more checkpoint')} would resolve the mean of updating every time, if it and "
            "its spread stay as they are"
        )
    elif grade != "resolved" and isinstance(judged.more_checkpoints, Undefined):
        outlook = f"; {judged.more_checkpoints.why}"
    over = f"{judged.family} means" if judged.family > 1 else ""
    return certainty(judged, score.effect.all_attempted.clusters, over=over, outlook=outlook)


def certainty(judged: Judgement | Advantage, checkpoints: int, *, over: str, outlook: str) -> str:
    """Return what a grade rests on.

    Args:
        judged: the grade, its corrected p values, and what leaving out a checkpoint does.
        checkpoints: how many there are: sign flips of few can not give a small p.
        over: what p is corrected over, in words; empty where it is one test.
        outlook: what more checkpoints would resolve, as the end of a clause.
    """
    grade, least = defined(judged.grade), 2.0 ** (1 - checkpoints)
    by_signs, corrected_over = rate(judged.adjusted_sign_flip), f", corrected over {over}" if over else ""
    # Beyond so many checkpoints patterns of signs are drawn, and p is no longer exact.
    test = "exact test" if checkpoints <= ENUMERATED_SIGNS else "sign-flip test"
    if grade == "resolved":
        words = f"Resolved: the {test} gives p {by_signs}{corrected_over}"
    elif grade != "leaning":
        words = "The mean may lie on either side of 0"
    elif least >= SIGNIFICANT:
        words = f"Not certain: {plural(checkpoints, 'checkpoint')} can not give an exact p below {rate(least, 4)}"
    else:
        student = rate(judged.adjusted_student_t)
        words = f"Not certain: the {test} gives p {by_signs} and Student's t {student}{corrected_over}"
    without = defined(judged.leave_one_out)
    crosses = without.crosses if without and grade != "unresolved" else ()
    ends = f". Without checkpoint {listed(crosses, last='or')} the interval reaches 0" if crosses else ""
    return f"{words}{outlook}{ends}."


def detectable(score: TaskScore) -> str:
    """Return the effect that the study would find, and what a larger one would buy; empty where it is not known."""
    if isinstance(score.design, Undefined):
        return ""
    digits = digits_for(score.effect.all_attempted)
    doubled = ", ".join(f"{name} {unsigned(mde, digits)}" for name, mde in score.design.mde_at_double.items())
    return (
        f"Detectable now {unsigned(score.design.mde, digits)}; with twice as many {doubled}: "
        f"{score.design.buys_most} buy most."
    )


def corrected(score: Score) -> str:
    """Return what was corrected for how many tests."""
    means, candidates = len(score.family.means), len(score.family.candidates)
    where = "registered" if score.family.registered else "in the table"
    parts = []
    if score.stopping is not None:
        parts.append("Verdicts are by the stopping rule")
    elif means > 1:
        parts.append(f"Verdicts are corrected (Holm) over the {plural(means, 'mean')} {where}")
    if candidates:
        over = f" \N{MULTIPLICATION SIGN} {plural(means, 'mean')} = {candidates * means} tests" if means > 1 else ""
        subject = "triggers" if parts else "Triggers are corrected (Holm)"
        subject += " are corrected (Holm)" if score.stopping is not None else ""
        parts.append(f"{subject} over {plural(candidates, 'candidate')}{over}")
    if not parts:
        return "One mean, no candidate trigger: nothing to correct for."
    return f"{', '.join(parts)}. References are not tested."


def read_as(score: Score) -> list[str]:
    """Return how a flat table was read: which return is the better one, and what failed; nothing of a study."""
    if score.higher_is_better is None:
        return []
    words = [
        "Larger is better: dR is r_update less r_hold."
        if score.higher_is_better
        else "Smaller is better: a return is a cost with its sign turned, so dR is r_hold less r_update."
    ]
    if score.failed:
        (failure,) = {
            figures.evidence.forks.failure_return for arm in score.arms.values() for figures in arm.tasks.values()
        }
        cost = failure if score.higher_is_better or failure is None else 0.0 - failure
        words.append(
            f"{plural(len(score.failed), 'row')} with a return that is missing or not finite: such a branch counts "
            f"as {cost:g} among all attempted forks, and its fork is not retained."
        )
    return words


def predictions_answered(answers: Sequence[PredictionAnswer], *, stopped: bool = False) -> str:
    """Return how many registered predictions held, and what became of the others; empty where there are none.

    `stopped` says that the rows decided how many checkpoints there are: predictions do not adjust for that.
    """
    if stopped and answers:
        return f"{predictions_answered(answers)} {PREDICTIONS_AS_FIXED}"
    if not answers:
        return ""
    counts = {name: sum(prediction.answer == name for prediction in answers) for name in CAME_TO}
    came_to = [f"{count} {name}" for name, count in counts.items() if count]
    margins = {prediction.equivalence.margin if prediction.equivalence else None for prediction in answers}
    words = f"Registered predictions: {', '.join(came_to)}"
    if None in margins or counts["held"] < len(answers):
        return f"{words}."
    return f"{words} (equivalent within {f'±{margins.pop():g}' if len(margins) == 1 else 'their margins'})."


def predicted_digits(prediction: PredictionAnswer, digits: int) -> int:
    """Return the decimals of what was predicted: those of the task's returns, and two at least where all of it lies
    within 1, as correlations, slopes and shares do."""
    values = [defined(prediction.value), *(defined(prediction.interval) or ())]
    return max(digits, 2) if all(value is None or abs(value) <= 1 for value in values) else digits


def undefined_figures(score: Score) -> dict[str, list[str]]:
    """Return the figures that are undefined, by the reason."""
    _, reasons = settle({"arms": score.arms, "contrasts": score.contrasts})
    figures: dict[str, list[str]] = {}
    for reason in reasons:
        figures.setdefault(reason["why"], []).append(reason["figure"])
    return figures
