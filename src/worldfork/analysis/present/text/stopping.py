"""Questions of a study that stops, in sentences."""

from typing import Final

from worldfork.analysis.present.text.formatting import decimals, percent, with_span
from worldfork.analysis.score.result import Score
from worldfork.analysis.score.stopping import StoppingScore
from worldfork.analysis.score.verdicts import LookFigures, QuestionAnswer
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


def question_words(score: Score, asked: QuestionAnswer) -> str:
    """Return what is asked for: `dR of gentle`, or `gentle - corrected`."""
    if asked.against is None:
        return f"dR of {score.label(asked.arm) or asked.arm}"
    return f"{score.label(asked.arm)} - {score.label(asked.against)}"


def found_words(found: QuestionAnswer | LookFigures) -> str:
    """Return the mean at a look with the interval that holds at all looks."""
    return with_span(found.mean, found.interval, decimals(abs(found.mean)))


def answered_words(asked: QuestionAnswer, budget: int) -> str:
    """Return the answer of a question and the look that gave it."""
    if asked.answer is None:
        return f"not answered after {asked.checkpoints} of {budget} checkpoints: {found_words(asked)}"
    return f"{asked.answer} 0, known after {asked.checkpoints} of {budget} checkpoints: {found_words(asked)}"


def question_answers(score: Score, stopping: StoppingScore) -> list[str]:
    """Return a sentence for each question."""
    several = len(stopping.tasks) > 1
    return [
        f"{f'{asked.task}, ' if several else ''}{question_words(score, asked)}: "
        f"{answered_words(asked, stopping.budget)}."
        for asked in stopping.questions
    ]


def outcome_words(stopping: StoppingScore) -> str:
    """Return after how many checkpoints the study stopped, as a sentence."""
    return f"{stopping.outcome[0].upper()}{stopping.outcome[1:]}."


def rule_words(stopping: StoppingScore) -> str:
    """Return what was tested, at which error rate, and what it means for all other tests."""
    shared = f", shared by {plural(len(stopping.questions), 'question')}" if len(stopping.questions) > 1 else ""
    return (
        f"Tested: {NULLS[stopping.null]}; the chance of any wrong answer over all looks is "
        f"{percent(stopping.error_rate, signed=False)}{shared}. Intervals hold at all looks together. "
        f"{NOT_ADJUSTED}"
    )


def graded_by_rule(asked: QuestionAnswer) -> str:
    """Return what the grade of a mean rests on that was asked for."""
    after = plural(asked.checkpoints, "checkpoint")
    if asked.answer is None:
        return f"Its question has no answer after {after}: {found_words(asked)}."
    return f"Resolved: its question was answered after {after} ({asked.answer} 0, {found_words(asked)})."
