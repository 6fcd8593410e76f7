"""[stopping]: the questions of a study that ends when they are answered, and the looks at which it may end."""

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field, field_validator

from worldfork.registration.policies import Count, Name
from worldfork.validation import Record


class Question(Record):
    """A mean over checkpoints that the study asks for: of an arm's dR, or of the difference of two arms."""

    task: Name  # that the mean is of
    arm: Name  # whose dR it is
    # Another arm: the question is then about the dR of `arm` less that of `against`.
    against: Name | None = Field(default=None, exclude_if=lambda arm: arm is None)

    def __str__(self) -> str:
        return f"{self.arm}{f' - {self.against}' if self.against else ''} on {self.task}"


class Stopping(Record):
    """Stop when the questions are answered.

    Checkpoints are added in the order of `grid.checkpoints`; all of them are the budget. A task goes on until all
    of its questions are answered. On every checkpoint that is computed, every arm of the task has all of its cells.
    """

    questions: tuple[Question, ...] = Field(min_length=1)  # each task has at least one
    # "mean": the mean over checkpoints is 0. "symmetry": a checkpoint lies as likely above 0 as below it by the
    # same amount. Each has a test of its own.
    null: Literal["mean", "symmetry"] = "mean"
    # Checkpoints of the first look. With fewer than 8 neither spread nor skewness is known well enough.
    first_look: Annotated[int, Field(ge=8, le=100_000)] = 8
    step: Count = 1  # checkpoints between two looks
    # Chance that any answer is wrong, over all looks; each question has an equal share of it.
    error_rate: Annotated[float, Field(gt=0, lt=0.5)] = 0.05

    @field_validator("questions")
    @classmethod
    def _distinct(cls, questions: tuple[Question, ...]) -> tuple[Question, ...]:
        if len(set(questions)) < len(questions):
            raise ValueError("a question is asked twice, and each would get a share of the error rate")
        return questions

    def of_task(self, task: str) -> tuple[Question, ...]:
        """Return the questions about a task."""
        return tuple(question for question in self.questions if question.task == task)

    def groups(self, checkpoints: Sequence[int]) -> list[tuple[int, ...]]:
        """Return the checkpoints that each look adds to those before it, in registered order.

        >>> question = Question(task="walker", arm="finetune")
        >>> Stopping(questions=(question,), step=2).groups(range(11))
        [(0, 1, 2, 3, 4, 5, 6, 7), (8, 9), (10,)]
        """
        bounds = [0, *range(self.first_look, len(checkpoints), self.step), len(checkpoints)]
        return [tuple(checkpoints[start:end]) for start, end in itertools.pairwise(bounds)]

    def problem(self, *, checkpoints: int, streams: Mapping[tuple[str, str], Collection[int]]) -> str | None:
        """Return why a study can not stop so; None where it can.

        Args:
            checkpoints: the number of them in the grid.
            streams: the stream seeds of every arm on every task that it runs.
        """
        if checkpoints < self.first_look:
            return f"the first look has {self.first_look} checkpoints, and `grid.checkpoints` has {checkpoints}"
        for question in self.questions:
            named = [name for name in (question.arm, question.against) if name is not None]
            for name in named:
                if (name, question.task) not in streams:
                    return f"the question {question}: there is no arm `{name}` that runs `{question.task}`"
            if question.arm == question.against:
                return f"the question {question} compares an arm with itself"
            if not set.intersection(*(set(streams[name, question.task]) for name in named)):
                return f"the question {question}: the two arms share no stream seed, and so no cell"
        for _, task in streams:
            if not self.of_task(task):
                return f"no question is about the task `{task}`, so nothing would say when it stops"
        return None
