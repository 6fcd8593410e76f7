"""A study's arms held against the first: the answer to its own question, as a chart and in a sentence."""

import dataclasses
from collections.abc import Sequence

from worldfork.desk.page.material import Material
from worldfork.desk.page.strips import Axis, axis
from worldfork.desk.page.view import Part
from worldfork.desk.scoring.records import Contrast, Estimands
from worldfork.desk.scoring.summary import Normalised, contrast_grades, normalised
from worldfork.desk.scoring.undefined import Figure, Interval, Undefined
from worldfork.desk.wording import (
    ContrastAnswer,
    contrast_answer,
    contrast_headlines,
    contrast_summary,
    digits_for,
    triggers_everywhere,
    useful_triggers,
    worth_by_arm,
)

__all__ = ["Comparison", "Pair", "Question", "aggregates", "question"]


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Two arms on one task."""

    task: str
    contrast: Estimands[Contrast | Undefined]
    answer: ContrastAnswer
    later: Part
    first: Part
    whole: float | None  # what the difference is shown in per cent of: the frozen return; None: in return itself

    @property
    def digits(self) -> int:
        """Decimals of the difference."""
        contrast = self.contrast.all_attempted
        return self.later.digits if isinstance(contrast, Undefined) else digits_for(contrast)

    def share(self, value: Figure) -> Figure:
        """A return as it is drawn: in per cent of the frozen return, where that is positive."""
        return value if isinstance(value, Undefined) or self.whole is None else 100 * value / self.whole

    @property
    def interval(self) -> Interval | None:
        """The Student-t interval of the difference as it is drawn."""
        contrast = self.contrast.all_attempted
        if isinstance(contrast, Undefined) or isinstance(contrast.student_t, Undefined):
            return None
        low, high = (self.share(end) for end in contrast.student_t)
        assert not isinstance(low, Undefined)
        assert not isinstance(high, Undefined)
        return Interval(low, high)

    @property
    def checkpoints(self) -> list[Figure]:
        """The difference of every checkpoint as it is drawn."""
        contrast = self.contrast.all_attempted
        return (
            [] if isinstance(contrast, Undefined) else [self.share(one) for one in contrast.by_checkpoint.values()]
        )

    @property
    def mean(self) -> Figure:
        """The difference as it is drawn."""
        contrast = self.contrast.all_attempted
        return contrast if isinstance(contrast, Undefined) else self.share(contrast.mean)


@dataclasses.dataclass(frozen=True)
class Pair:
    """A later arm and the first, on all tasks."""

    arms: str
    later: str
    summary: str
    changes: Sequence[str]
    comparisons: Sequence[Comparison]

    @property
    def differs(self) -> bool:
        """Whether it leans to either side on any task."""
        return any(one.answer.grade in ("resolved", "leaning") for one in self.comparisons)


@dataclasses.dataclass(frozen=True)
class Question:
    """Every later arm against the first, on one axis."""

    first: str
    pairs: Sequence[Pair]
    axis: Axis
    in_per_cent: bool
    by_arm: str  # whether updating is worth it at all, arm by arm
    triggers: str  # whether any candidate knew when; empty where there is none
    no_trigger: bool  # none is useful anywhere

    @property
    def leaning(self) -> bool:
        """Whether any difference leans: then the word wants explaining."""
        return any(one.answer.grade == "leaning" for pair in self.pairs for one in pair.comparisons)

    @property
    def headlines(self) -> list[str]:
        """A sentence for each arm that differs from the first, and one for all others together."""
        alike = {pair.later for pair in self.pairs if not pair.differs}
        return contrast_headlines(self.first, {pair.later: pair.summary for pair in self.pairs}, alike)


def question(material: Material, shown: Sequence[Part], changes: dict[str, list[str]]) -> Question | None:
    """What the arms say; None where there is one."""
    by_name = {(part.arm, part.task): part for part in shown}
    first, *others = material.score.arms
    grades = contrast_grades(material.score)
    in_per_cent = all(part.answer.scale.frozen > 0 for part in shown)
    pairs = []
    for other in others:
        name = f"{other} - {first}"
        tasks = material.score.contrasts.get(name, {})
        compared = []
        for task, sides in tasks.items():
            later = by_name[other, task]
            said = contrast_answer(name, task, sides.all_attempted, grades.get((name, task)))
            whole = by_name[first, task].answer.scale.frozen if in_per_cent else None
            compared.append(Comparison(task, sides, said, later, by_name[first, task], whole))
        if compared:
            summary = contrast_summary(
                name,
                [one.answer for one in compared],
                {one.task: one.contrast.all_attempted for one in compared},
                sized=True,
            )
            pairs.append(Pair(f"{other} less {first}", other, summary, changes.get(other, []), compared))
    if not pairs:
        return None
    values = [
        value for pair in pairs for one in pair.comparisons for value in (one.mean, one.interval, *one.checkpoints)
    ]
    answers = {arm: {part.task: part.answer for part in shown if part.arm == arm} for arm in material.score.arms}
    scores = {part.name: part.score for part in shown}
    return Question(
        *(first, pairs, axis(values), in_per_cent, worth_by_arm(answers)),
        triggers=triggers_everywhere(scores),
        no_trigger=not any(useful_triggers(score) for score in scores.values()),
    )


def aggregates(material: Material) -> list[tuple[str, Normalised]]:
    """dR over all tasks of an arm, in per cent of their frozen returns, where that means anything."""
    found = [(arm, normalised(scored.tasks)) for arm, scored in material.score.arms.items()]
    return [(arm, one) for arm, one in found if not isinstance(one, Undefined)]
