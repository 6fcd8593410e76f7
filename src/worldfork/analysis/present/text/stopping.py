"""Questions of a study that stops, in sentences."""

import dataclasses
from typing import Final

from worldfork.analysis.present.text.formatting import decimals, digits_for, percent, with_span
from worldfork.analysis.score.contrasts import Contrast
from worldfork.analysis.score.records import TaskScore
from worldfork.analysis.score.result import Score
from worldfork.analysis.score.stopping import NOT_ASKED, StoppingScore
from worldfork.analysis.score.undefined import Bounds, Figure
from worldfork.analysis.score.verdicts import QuestionAnswer
from worldfork.counting import plural

NULLS: Final = {
    "mean": "that the mean over checkpoints is 0 (Student's t and Hall's, error spent over looks)",
    "symmetry": "that checkpoints lie as likely above 0 as below it by the same amount (bets on signs)",
}
GRADED_BY_RULE: Final = {  # terms, as such a study means them
    "resolved": "A question that the study asks was answered by its rule: the interval of a look, which holds at "
    "all looks together, excludes 0.",
    "unresolved": "A question that the study asks has no answer.",
}
NOT_ADJUSTED: Final = (
    "Tests and intervals of a fixed number of checkpoints, below, are not adjusted for looking. They grade nothing."
)
FIXED_NUMBER: Final = "Student-t: of a fixed number of checkpoints, not adjusted for looking; it grades nothing."
RULE_INTERVAL: Final = "by the stopping rule"  # the head of a column
PREDICTIONS_AS_FIXED: Final = (
    "As registered, predictions are judged on the interval of a fixed number of checkpoints (fixed n), which is "
    "not adjusted for looking."
)


@dataclasses.dataclass(frozen=True)
class GradedMean:
    """A mean with the interval that its grade rests on: that of the stopping rule where it was asked for, at the
    look that answered it or else the last, and Student's t of all checkpoints where not."""

    mean: Figure
    interval: Bounds
    checkpoints: int
    digits: int
    by_rule: bool

    @property
    def words(self) -> str:
        """The mean with its interval."""
        return with_span(self.mean, self.interval, self.digits)


def graded_mean(score: TaskScore) -> GradedMean:
    """Return mean dR over all attempted forks as it was graded."""
    effect, asked = score.effect.all_attempted, score.judgement.asked
    digits = digits_for(effect)
    if asked is None:
        return GradedMean(effect.mean, effect.student_t, effect.clusters, digits, by_rule=False)
    return GradedMean(asked.mean, asked.interval, asked.checkpoints, digits, by_rule=True)


def graded_difference(contrast: Contrast) -> GradedMean:
    """Return the difference of two arms as it was graded."""
    found, digits = contrast.at_look, digits_for(contrast)
    if found is None:
        return GradedMean(contrast.mean, contrast.student_t, len(contrast.means), digits, by_rule=False)
    return GradedMean(found.mean, found.interval, found.checkpoints, digits, by_rule=True)


def stops(score: TaskScore) -> bool:
    """Return whether the rows of the study decided how many checkpoints there are."""
    return score.judgement.asked is not None or score.judgement.grade == NOT_ASKED


def question_words(score: Score, asked: QuestionAnswer) -> str:
    """Return what is asked for: `dR of gentle`, or `gentle - corrected`."""
    if asked.against is None:
        return f"dR of {score.label(asked.arm) or asked.arm}"
    return f"{score.label(asked.arm)} - {score.label(asked.against)}"


def question_answers(score: Score) -> list[str]:
    """Return a sentence for each question of a study that stops: its answer, and the look that gave it."""
    if (stopping := score.stopping) is None:
        return []
    sentences = []
    for asked in stopping.questions:
        after = f"{asked.checkpoints} of {stopping.budget} checkpoints"
        answer = f"not answered after {after}" if asked.answer is None else f"{asked.answer} 0, known after {after}"
        found = with_span(asked.mean, asked.interval, decimals(abs(asked.mean)))
        where = f"{asked.task}, " if len(stopping.tasks) > 1 else ""
        sentences.append(f"{where}{question_words(score, asked)}: {answer}: {found}.")
    return sentences


def outcome_words(stopping: StoppingScore) -> str:
    """Return after how many checkpoints the study stopped, as a sentence."""
    return f"{stopping.outcome[0].upper()}{stopping.outcome[1:]}."


def rule_words(stopping: StoppingScore) -> str:
    """Return what was tested, at which error rate, and what it means for all other tests."""
    shared = f", shared by {plural(len(stopping.questions), 'question')}" if len(stopping.questions) > 1 else ""
    return (
        f"Tested: {NULLS[stopping.null]}; the chance of any wrong answer over all looks is "
        f"meant to be at most {percent(stopping.error_rate, signed=False)}{shared}. "
        f"Intervals hold at all looks together. {NOT_ADJUSTED}"
    )


def graded_by_rule(asked: QuestionAnswer) -> str:
    """Return what the grade of a mean rests on that was asked for."""
    after = plural(asked.checkpoints, "checkpoint")
    if asked.answer is None:
        return f"Its question has no answer after {after}. The interval is that of the stopping rule."
    return f"Resolved: its question was answered after {after}, by the interval of the stopping rule."
