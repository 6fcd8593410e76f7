"""Looks of a study with [stopping]: what was known after so many checkpoints, and whether the study went on.

A look is a function of the rows of its checkpoints. `follow` calculates all looks of a study from its rows: for the
run, which decides whether to go on, and for `verify`, which compares them with looks.jsonl. Lines are chained like
rows.
"""

import dataclasses
import json
import math
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from pydantic import Field

from worldfork.errors import WorldforkError
from worldfork.ledger.documents import Sealed, as_file, check, seal
from worldfork.ledger.row import ForkRow, Rows
from worldfork.registration import Cell, Registration, canonical, cells, digest
from worldfork.registration.stopping import Question, Stopping
from worldfork.validation import Record

LOOKS: Final = "looks.jsonl"
CLOSE: Final = 1e-9  # of figures that another machine calculates again
CellPlace = tuple[str, int]  # the direction and stream seed of a cell: its place within a checkpoint


class QuestionAtLook(Record):
    """A question that was open at a look, and what the rows said."""

    task: str
    arm: str
    against: str | None
    mean: float  # over checkpoints
    statistic: float | None  # that answers the question where it reaches the bound; null where means do not differ
    bound: float
    interval: tuple[float | None, float | None]  # holds at all looks together; null where it has no end
    answer: Literal["above", "below"] | None  # the side of 0 on which the interval lies

    @property
    def question(self) -> Question:
        """The registered question."""
        return Question(task=self.task, arm=self.arm, against=self.against)


class Look(Sealed):
    """A line of looks.jsonl."""

    schema_: Literal["worldfork.look/1"] = Field(default="worldfork.look/1", alias="schema")
    look: int  # from 1
    checkpoints: tuple[int, ...]  # in registered order; the rows of all of them were read
    questions: tuple[QuestionAtLook, ...]  # those without an answer before this look
    continued: tuple[str, ...]  # tasks that go on with the next checkpoints
    stop: Literal["answered", "budget"] | None  # why the study ended here
    ledger: str  # SHA-256 of the end of every chain of rows so far
    prev: str = ""


@dataclasses.dataclass(frozen=True)
class Course:
    """The looks that rows allow, and every cell that the study has to have before it can look again or end."""

    looks: tuple[Look, ...]
    due: tuple[Cell, ...]

    @property
    def ended(self) -> bool:
        """Return whether the study goes no further."""
        return bool(self.looks) and self.looks[-1].stop is not None


def follow(registration: Registration, rows: Rows) -> Course:
    """Return the course of a study with [stopping] as far as its rows go.

    After each look, tasks with an open question go on with the next checkpoints; the others have ended.
    """
    stopping, order = _stopping(registration), registration.grid.checkpoints
    tasks = tuple(dict.fromkeys(question.task for question in stopping.questions))
    open_questions = stopping.questions
    looks: list[Look] = []
    due: list[Cell] = []
    for group in stopping.groups(order):
        due += [cell for cell in cells(registration) if cell.task in tasks and cell.checkpoint in group]
        if any(len(rows.get(cell, ())) < registration.arm(cell.arm).stream.decision_points for cell in due):
            break
        count = order.index(group[-1]) + 1
        found = tuple(_asked(question, registration, rows, count) for question in open_questions)
        open_questions = tuple(asked.question for asked in found if asked.answer is None)
        tasks = tuple(dict.fromkeys(question.task for question in open_questions))
        over = count == len(order)
        look = Look(
            look=len(looks) + 1,
            checkpoints=order[:count],
            questions=found,
            continued=() if over else tasks,
            stop="answered" if not open_questions else "budget" if over else None,
            ledger=digest(sorted([cell.id, rows[cell][-1].digest] for cell in due)),
        )
        looks.append(look)
        if look.stop is not None:
            break
    return Course(tuple(looks), tuple(due))


def _asked(question: Question, registration: Registration, rows: Rows, count: int) -> QuestionAtLook:
    from worldfork.stopping import Plan, look  # scipy, which other readers of a ledger do without

    stopping, order = _stopping(registration), registration.grid.checkpoints
    means = checkpoint_means(question, registration, rows, order[:count])
    plan = Plan(
        looks=tuple(order.index(group[-1]) + 1 for group in stopping.groups(order)),
        error_rate=stopping.error_rate / len(stopping.questions),
        null=stopping.null,
    )
    found = look(np.array([means[checkpoint] for checkpoint in order[:count]]), plan)
    return QuestionAtLook(
        task=question.task,
        arm=question.arm,
        against=question.against,
        mean=found.mean,
        statistic=found.statistic,
        bound=found.bound,
        interval=(found.low, found.high),
        answer=found.answer,
    )


def checkpoint_means(
    question: Question, registration: Registration, rows: Rows, checkpoints: Collection[int]
) -> dict[int, float]:
    """Return the mean that a question asks for, by checkpoint, from the rows of these checkpoints alone.

    dR of all attempted forks, net of the registered price, is averaged within cells, and cells within checkpoints.
    Of two arms, the cells that both have are compared. A branch that failed counts as `score` counts it.
    """
    of_task = {
        cell: in_order
        for cell, in_order in rows.items()
        if cell.task == question.task and cell.checkpoint in checkpoints
    }
    failure = registration.scoring.failure_return
    if failure is None:
        branches = (
            branch for in_order in of_task.values() for row in in_order for branch in (row.hold, row.update)
        )
        returns = (value for branch in branches for value in branch if value is not None)
        failure = min(0.0, min(returns, default=0.0))
    cost = registration.scoring.update_cost
    first = _cell_means(question.arm, of_task, failure=failure, cost=cost)
    if question.against is not None:
        second = _cell_means(question.against, of_task, failure=failure, cost=cost)
        first = {
            checkpoint: {place: of[place] - second[checkpoint][place] for place in of.keys() & second[checkpoint]}
            for checkpoint, of in first.items()
        }
    return {checkpoint: math.fsum(of.values()) / len(of) for checkpoint, of in first.items()}


def _cell_means(arm: str, rows: Rows, *, failure: float, cost: float) -> dict[int, dict[CellPlace, float]]:
    """Return the mean dR of every cell of an arm, by checkpoint; of a fork with several draws, their mean."""
    draws: dict[tuple[int, CellPlace], list[Sequence[ForkRow]]] = {}
    for cell in sorted((cell for cell in rows if cell.arm == arm), key=lambda cell: cell.update_seed):
        draws.setdefault((cell.checkpoint, (cell.direction, cell.stream_seed)), []).append(rows[cell])
    means: dict[int, dict[CellPlace, float]] = {}
    for (checkpoint, place), drawn in draws.items():
        gains = [
            math.fsum(_or(row.r_update, failure) for row in fork) / len(fork) - _or(fork[0].r_hold, failure) - cost
            for fork in zip(*drawn, strict=True)
        ]
        means.setdefault(checkpoint, {})[place] = math.fsum(gains) / len(gains)
    return means


def _or(value: float | None, failure: float) -> float:
    return failure if value is None else value


def _stopping(registration: Registration) -> Stopping:
    assert registration.stopping is not None, "a study without [stopping] has no looks"
    return registration.stopping


def read_looks(path: Path) -> tuple[Look, ...]:
    """Return the looks of the file at `path`, none without it; each is checked against its digest and the one
    before."""
    if not path.exists():
        return ()
    looks: list[Look] = []
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
        where = f"{path.name}, line {number}"
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise WorldforkError(f"{where} can not be read ({error}).") from error
        look = check(value, Look, where=where)
        if not look.intact or canonical(look.model_dump(mode="json", by_alias=True)) != line:
            raise WorldforkError(f"{where}: look {look.look} is not what was written: its digest does not match.")
        if look.look != number or (looks and look.prev != looks[-1].digest):
            raise WorldforkError(
                f"{where}: expected look {number}, chained to the one before it; got look {look.look}."
            )
        looks.append(look)
    return tuple(looks)


def as_lines(looks: Sequence[Look]) -> bytes:
    """Return the bytes of looks.jsonl."""
    return b"".join(as_file(look.model_dump(mode="json", by_alias=True)) for look in looks)


def extend(recorded: Sequence[Look], found: Sequence[Look], *, genesis: str) -> tuple[Look, ...]:
    """Return the recorded looks and those that the rows now add, chained; `genesis` is the first one's `prev`.

    Raise if a recorded look is not the one that the rows lead to.
    """
    if problem := first_difference(recorded, found):
        raise WorldforkError(f"{problem} Use a new study folder.")
    looks = list(recorded)
    for look in found[len(looks) :]:
        looks.append(seal(look, prev=looks[-1].digest if looks else genesis))
    return tuple(looks)


def first_difference(recorded: Sequence[Look], found: Sequence[Look]) -> str | None:
    """Return a sentence about the first recorded look that the rows do not lead to; None where they lead to all."""
    for before, now in zip(recorded, found, strict=False):
        stored, expected = (look.model_dump(mode="json", exclude={"prev", "digest"}) for look in (before, now))
        for name, value in stored.items():
            if not _agree(value, expected[name]):
                return f"{LOOKS}, look {before.look}: `{name}` is not what the rows and the registration lead to."
    if len(recorded) > len(found):
        return (
            f"{LOOKS}, look {len(found) + 1}: the study had ended before it, or the rows that it read are not here."
        )
    return None


def _agree(stored: Any, expected: Any) -> bool:
    if isinstance(stored, float) and isinstance(expected, float):
        return math.isclose(stored, expected, rel_tol=CLOSE, abs_tol=CLOSE)
    if isinstance(stored, list) and isinstance(expected, list):
        return len(stored) == len(expected) and all(map(_agree, stored, expected))
    if isinstance(stored, dict) and isinstance(expected, dict):
        return stored.keys() == expected.keys() and all(_agree(stored[key], expected[key]) for key in stored)
    return bool(stored == expected)


def checkpoints_of(registration: Registration, looks: Sequence[Look]) -> dict[str, tuple[int, bool]]:
    """Return of each task after how many checkpoints it ended, or has been looked at, and are its questions
    answered."""
    ended: dict[str, tuple[int, bool]] = {}
    for question in _stopping(registration).questions:
        of_task = [look for look in looks if any(asked.task == question.task for asked in look.questions)]
        answered = bool(of_task) and all(
            asked.answer is not None for asked in of_task[-1].questions if asked.task == question.task
        )
        ended[question.task] = (len(of_task[-1].checkpoints) if of_task else 0, answered)
    return ended


def outcome(registration: Registration, looks: Sequence[Look]) -> str:
    """Return a sentence: after how many checkpoints the study stopped, or how far it has come.

    With several tasks each of them has its part.
    """
    budget, over = len(registration.grid.checkpoints), bool(looks) and looks[-1].stop is not None
    parts = []
    tasks = checkpoints_of(registration, looks)
    for task, (count, answered) in tasks.items():
        if answered:
            words = f"stopped after {count} of {budget} checkpoints: answered"
        elif over:
            words = f"all {budget} checkpoints, and not answered: the budget is spent"
        elif count:
            words = f"{count} of {budget} checkpoints looked at, not answered yet"
        else:
            words = "not looked at yet"
        parts.append(f"{task}: {words}" if len(tasks) > 1 else words)
    return "; ".join(parts)
