"""A study's arms, held against each other: the answer to its own question, as a chart and in sentences."""

import dataclasses
from collections.abc import Sequence

from worldfork.desk.page.material import Material
from worldfork.desk.page.strips import Axis, axis
from worldfork.desk.page.view import Part
from worldfork.desk.scoring.pairs import ArmPair, compared_pairs
from worldfork.desk.scoring.records import Contrast, Estimands
from worldfork.desk.scoring.summary import Normalised, normalised
from worldfork.desk.scoring.undefined import Figure, Interval, Undefined
from worldfork.desk.wording import (
    ContrastAnswer,
    PairSummary,
    changed,
    contrast_headlines,
    digits_for,
    listed,
    summarise_pairs,
    triggers_everywhere,
    useful_triggers,
    worth_by_arm,
)
from worldfork.registration import Registration

__all__ = ["Change", "Comparison", "Pair", "Question", "aggregates", "question"]


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
    """An arm and the earlier one that it is compared with, on all tasks they share."""

    summary: PairSummary
    comparisons: Sequence[Comparison]

    @property
    def later(self) -> str:
        """The arm that is compared."""
        return self.summary.later

    @property
    def earlier(self) -> str:
        """The arm that it is compared with."""
        return self.summary.earlier

    @property
    def arms(self) -> str:
        """Both, as what is drawn."""
        return f"{self.later} less {self.earlier}"


@dataclasses.dataclass(frozen=True)
class Change:
    """What one arm has otherwise than another, and all arms of which the same can be said."""

    arms: Sequence[tuple[str, str]]  # the arm, and the one beside which it changes this
    settings: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Question:
    """Every arm against the one that it is compared with, on one axis."""

    pairs: Sequence[Pair]
    why_these: str  # why these arms are compared; empty where each is, with the first
    changes: Sequence[Change]
    axis: Axis
    in_per_cent: bool
    by_arm: str  # whether updating is worth it at all, arm by arm
    triggers: str  # whether any candidate knew when; empty where there is none
    no_trigger: bool  # none is useful anywhere
    predicted: bool  # some of these pairs are what predictions are about

    @property
    def leaning(self) -> bool:
        """Whether any difference leans: then the word wants explaining."""
        return any(one.answer.grade == "leaning" for pair in self.pairs for one in pair.comparisons)

    @property
    def differences(self) -> int:
        """How many there are: grades are corrected over them."""
        return sum(len(pair.comparisons) for pair in self.pairs)

    @property
    def earlier(self) -> str | None:
        """The arm that all are compared with, where it is one."""
        names = {pair.earlier for pair in self.pairs}
        return names.pop() if len(names) == 1 else None

    @property
    def one_task(self) -> bool:
        """Whether naming the task would say the same on every line."""
        return len({one.task for pair in self.pairs for one in pair.comparisons}) == 1

    @property
    def headlines(self) -> list[str]:
        """A sentence for each pair that differs, and one for all others together."""
        return contrast_headlines([pair.summary for pair in self.pairs])


def question(material: Material, shown: Sequence[Part]) -> Question | None:
    """What the arms say; None where there is nothing to compare."""
    by_name = {(part.arm, part.task): part for part in shown}
    in_per_cent = all(part.answer.scale.frozen > 0 for part in shown)
    pairs = []
    for summary in summarise_pairs(material.score):
        tasks = material.score.contrasts[f"{summary.later} - {summary.earlier}"]
        compared = []
        for task, said in summary.answers.items():
            later, first = by_name[summary.later, task], by_name[summary.earlier, task]
            whole = first.answer.scale.frozen if in_per_cent else None
            compared.append(Comparison(task, tasks[task], said, later, first, whole))
        pairs.append(Pair(summary, compared))
    if not pairs:
        return None
    values = [
        value for pair in pairs for one in pair.comparisons for value in (one.mean, one.interval, *one.checkpoints)
    ]
    answers = {arm: {part.task: part.answer for part in shown if part.arm == arm} for arm in material.score.arms}
    scores = {part.name: part.score for part in shown}
    registration = material.study.registration if material.study else None
    asked_for = compared_pairs(registration, material.score.arms) if registration else []
    return Question(
        pairs=pairs,
        why_these=_why_these(asked_for),
        changes=_changes(registration, pairs) if registration else (),
        axis=axis(values),
        in_per_cent=in_per_cent,
        by_arm=worth_by_arm(answers),
        triggers=triggers_everywhere(scores),
        no_trigger=not any(useful_triggers(score) for score in scores.values()),
        predicted=any(pair.reason == "predicted" for pair in asked_for),
    )


def _why_these(pairs: Sequence[ArmPair]) -> str:
    """By which rule these arms are compared (docs/report.md), where it is not simply each with the first."""
    named: dict[str, list[str]] = {}
    for pair in pairs:
        named.setdefault(pair.reason, []).append(f"{pair.later} with {pair.earlier}")
    if "predicted" in named:
        words = ["the arms that registered predictions compare"]
        if "as predicted" in named:
            words.append(
                f"without a prediction, since they differ in the same way, {listed(named['as predicted'])}"
            )
        if others := [*named.get("sweep", ()), *named.get("first", ())]:
            words.append(f"without a prediction, {listed(others)}")
        return f"Compared: {'; '.join(words)}."
    if len({pair.earlier for pair in pairs}) > 1:
        return "Compared: each arm with the first of its sweep, from which it differs in one setting."
    return ""


def _changes(registration: Registration, pairs: Sequence[Pair]) -> list[Change]:
    """What each arm changes beside the one that it is compared with, and these beside the first."""
    first = registration.arms[0].name
    both = [(pair.later, pair.earlier) for pair in pairs]
    both += [(earlier, first) for earlier in dict.fromkeys(pair.earlier for pair in pairs) if earlier != first]
    changes: dict[str, list[tuple[str, str]]] = {}
    for later, earlier in dict.fromkeys(both):
        if lines := changed(registration, earlier, later):
            changes.setdefault("; ".join(lines), []).append((later, earlier))
    return [Change(arms, settings) for settings, arms in changes.items()]


def aggregates(material: Material) -> list[tuple[str, Normalised]]:
    """dR over all tasks of an arm, in per cent of their frozen returns, where that means anything."""
    found = [(arm, normalised(scored.tasks)) for arm, scored in material.score.arms.items()]
    return [(arm, one) for arm, one in found if not isinstance(one, Undefined)]
