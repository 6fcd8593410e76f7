"""Tables of a study that stops: every question with its answer, and every look."""

from worldfork.analysis.present.table import Column, Table
from worldfork.analysis.present.text.formatting import decimals, number, span, unsigned, word
from worldfork.analysis.present.text.stopping import question_words
from worldfork.analysis.score.result import Score
from worldfork.analysis.score.verdicts import LookFigures, QuestionAnswer

KEYS = ("Task", "Question")


def stopping(score: Score) -> Table:
    """Return every question with its answer and the look that gave it."""
    found = score.stopping
    return Table.of(
        "stopping",
        "Questions that the study stops by, at the look that answered them or else at the last one. The interval "
        "holds at all looks together. A question is answered where the statistic reaches the bound.",
        KEYS,
        [((asked.task, question_words(score, asked)), asked, _digits(asked)) for asked in found.questions]
        if found
        else [],
        [
            (Column("answer", words=True), lambda asked, _: f"{asked.answer} 0" if asked.answer else "none"),
            ("checkpoints", lambda asked, _: f"{asked.checkpoints} of {found.budget if found else 0}"),
            ("looks", lambda asked, _: word(len(asked.looks))),
            ("mean", lambda asked, digits: number(asked.mean, digits)),
            ("interval", lambda asked, digits: span(asked.interval, digits)),
            ("statistic", lambda asked, _: number(asked.statistic, 2)),
            ("bound", lambda asked, _: unsigned(asked.bound, 2)),
        ],
    )


def looks(score: Score) -> Table:
    """Return every look at every question."""
    found = score.stopping
    return Table.of(
        "looks",
        "Every look at a question until its answer: the mean of so many checkpoints, with the interval that holds "
        "at all looks together.",
        (*KEYS, "Checkpoints"),
        [
            ((asked.task, question_words(score, asked), str(look.checkpoints)), look, _digits(asked))
            for asked in (found.questions if found else ())
            for look in asked.looks
        ],
        [
            ("mean", lambda look, digits: number(look.mean, digits)),
            ("interval", lambda look, digits: span(look.interval, digits)),
            ("statistic", lambda look, _: number(look.statistic, 2)),
            ("bound", lambda look, _: unsigned(look.bound, 2)),
        ],
    )


def _digits(found: QuestionAnswer | LookFigures) -> int:
    return decimals(abs(found.mean))
