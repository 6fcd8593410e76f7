"""Tables of a study that stops: every question with its answer, and every look."""

from worldfork.analysis.present.table import Cells, Column, Row, Table
from worldfork.analysis.present.text.formatting import decimals, number, span, unsigned, word
from worldfork.analysis.present.text.stopping import question_words
from worldfork.analysis.score.result import Score
from worldfork.analysis.score.verdicts import LookFigures, QuestionAnswer

KEYS = ("Task", "Question")


def stopping(score: Score) -> Table:
    """Return every question with its answer and the look that gave it."""
    rows, budget = [], score.stopping.budget if score.stopping else 0
    for asked in score.stopping.questions if score.stopping else ():
        cells: Cells = [
            (Column("answer", words=True), f"{asked.answer} 0" if asked.answer else "none"),
            ("checkpoints", f"{asked.checkpoints} of {budget}"),
            ("looks", word(len(asked.looks))),
            *_figures(asked),
        ]
        rows.append(Row((asked.task, question_words(score, asked)), cells))
    return Table.of(
        "stopping",
        "Questions that the study stops by, at the look that answered them or else at the last one. The interval "
        "holds at all looks together. A question is answered where the statistic reaches the bound.",
        KEYS,
        rows,
    )


def looks(score: Score) -> Table:
    """Return every look at every question."""
    return Table.of(
        "looks",
        "Every look at a question until its answer: the mean of so many checkpoints, with the interval that holds "
        "at all looks together.",
        (*KEYS, "Checkpoints"),
        [
            Row((asked.task, question_words(score, asked), str(look.checkpoints)), _figures(look))
            for asked in (score.stopping.questions if score.stopping else ())
            for look in asked.looks
        ],
    )


def _figures(found: QuestionAnswer | LookFigures) -> Cells:
    digits = decimals(abs(found.mean))
    return [
        ("mean", number(found.mean, digits)),
        ("interval", span(found.interval, digits)),
        ("statistic", number(found.statistic, 2)),
        ("bound", unsigned(found.bound, 2)),
    ]
