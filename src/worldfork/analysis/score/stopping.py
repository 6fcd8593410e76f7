"""Questions of a study that stops, and what their answers say of verdicts and grades.

How many checkpoints such a study has was decided by looking at its rows. Tests of a fixed number of checkpoints are
not adjusted for that: they are shown, and grade nothing. A question that its rule answered is *resolved*.
"""

import dataclasses
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from worldfork.analysis.score.undefined import Bounds, Interval, Undefined
from worldfork.analysis.score.verdicts import Grade, Judgement, LookFigures, QuestionAnswer
from worldfork.errors import WorldforkError
from worldfork.ledger.looks import QuestionAtLook, checkpoints_of, first_difference, follow, outcome
from worldfork.ledger.row import Rows
from worldfork.ledger.store import Study
from worldfork.registration import Cell, Registration
from worldfork.registration.stopping import Question

NO_SPREAD: Final = Undefined("all checkpoints have the same mean, and without a spread nothing is answered")
NO_END: Final = Undefined("so few checkpoints rule out no mean at this error rate")
NOT_ASKED: Final = Undefined(
    "the rows themselves decided how many checkpoints there are, and no question of [stopping] is about this"
)
BY_RULE: Final = Undefined("a study with [stopping] has as many checkpoints as its rule says")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskStop:
    """After how many checkpoints a task ended, or how far it has come."""

    checkpoints: int
    answered: bool  # every question about it


@dataclasses.dataclass(frozen=True, kw_only=True)
class StoppingScore:
    """The end of a study with [stopping], and its answers."""

    null: Literal["mean", "symmetry"]
    error_rate: float  # over all looks and questions
    budget: int  # checkpoints
    looks: int
    ended: bool
    outcome: str  # in words
    tasks: Mapping[str, TaskStop]
    questions: tuple[QuestionAnswer, ...]  # those that were looked at, as registered


class MeanAtLook(NamedTuple):
    """The mean of a question at the look that answered it, or else at the last one."""

    mean: float
    interval: Bounds  # holds at all looks together
    checkpoints: int


class Ruling(NamedTuple):
    """Verdict and grade of a mean by [stopping], and the question that was asked of it, if any."""

    verdict: str | None  # None: as the interval over all rows says
    grade: Grade | Undefined
    asked: QuestionAnswer | None

    @property
    def more_checkpoints(self) -> int | Undefined:
        """Checkpoints that would resolve it: none where it is, and as many as the rule says where it is not."""
        return 0 if self.grade == "resolved" else BY_RULE

    def mean_of(self, arm: str) -> MeanAtLook | None:
        """Return the mean that was asked for, as one of `arm` or of its difference from the other arm."""
        asked = self.asked
        if asked is None:
            return None
        if asked.arm == arm or isinstance(asked.interval, Undefined):
            return MeanAtLook(asked.mean if asked.arm == arm else -asked.mean, asked.interval, asked.checkpoints)
        low, high = asked.interval
        return MeanAtLook(-asked.mean, Interval(-high, -low), asked.checkpoints)


NOT_RULED: Final = Ruling(None, NOT_ASKED, None)


def score_stopping(study: Study, registration: Registration, rows: Rows) -> StoppingScore:
    """Return how a study ended, from its recorded looks; raise where they do not follow from its rows."""
    registered = registration.stopping
    assert registered is not None, "a study without [stopping] does not stop"
    looks = study.looks()
    if problem := first_difference(looks, follow(registration, rows).looks):
        raise WorldforkError(f"`{study.path}`: {problem} Run `worldfork verify {study.path}`.")
    asked: dict[Question, list[LookFigures]] = {}
    for look in looks:
        for found in look.questions:
            asked.setdefault(found.question, []).append(_figures(found, len(look.checkpoints)))
    tasks = checkpoints_of(registration, looks)
    return StoppingScore(
        null=registered.null,
        error_rate=registered.error_rate,
        budget=len(registration.grid.checkpoints),
        looks=len(looks),
        ended=bool(looks) and looks[-1].stop is not None,
        outcome=outcome(registration, looks),
        tasks={task: TaskStop(checkpoints=count, answered=answered) for task, (count, answered) in tasks.items()},
        questions=tuple(
            _answer(question, asked[question]) for question in registered.questions if question in asked
        ),
    )


def _figures(found: QuestionAtLook, checkpoints: int) -> LookFigures:
    low, high = found.interval
    without = NO_SPREAD if found.statistic is None else NO_END
    return LookFigures(
        checkpoints=checkpoints,
        mean=found.mean,
        statistic=without if found.statistic is None else found.statistic,
        bound=found.bound,
        interval=without if low is None or high is None else Interval(low, high),
        answer=found.answer,
    )


def _answer(question: Question, looks: list[LookFigures]) -> QuestionAnswer:
    last = looks[-1]  # a question is not asked again once it is answered
    return QuestionAnswer(
        task=question.task,
        arm=question.arm,
        against=question.against,
        grade="unresolved" if last.answer is None else "resolved",
        looks=tuple(looks),
        **vars(last),
    )


def due_cells(registration: Registration, rows: Rows) -> tuple[Cell, ...]:
    """Return the cells that a study with [stopping] has to have by now."""
    return follow(registration, rows).due


def ruling(stopping: StoppingScore | None, *, task: str, arm: str, against: str | None = None) -> Ruling | None:
    """Return what [stopping] says of a mean, or of the difference of two arms; None of a study without it."""
    if stopping is None:
        return None
    for asked in stopping.questions:
        if asked.task == task and {asked.arm, asked.against} == {arm, against}:
            verdicts = {"above": "helpful", "below": "harmful", None: "unresolved"}
            return Ruling(verdicts[asked.answer], asked.grade, asked)
    return NOT_RULED


def ruled(judged: Judgement, found: Ruling | None) -> Judgement:
    """Return the strength of evidence of a mean as [stopping] grades it; unchanged in a study without it."""
    if found is None:
        return judged
    return dataclasses.replace(
        judged, grade=found.grade, more_checkpoints=found.more_checkpoints, asked=found.asked
    )
