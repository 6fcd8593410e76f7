"""The arms that a study compares, pair by pair, and all of them in a few sentences."""

import dataclasses
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from worldfork.desk.scoring.result import Score
from worldfork.desk.scoring.summary import contrast_grades
from worldfork.desk.wording.answers import UNIT, ContrastAnswer, contrast_answer, contrast_summary
from worldfork.desk.wording.numbers import listed

__all__ = ["PairSummary", "contrast_headlines", "summarise_pairs"]

ALIKE: Final = ""  # stands for the sentence of all pairs that do not differ
MOST_SENTENCES: Final = 3  # pairs that differ alike and still have a sentence each


@dataclasses.dataclass(frozen=True)
class PairSummary:
    """Two arms on all tasks they share: the later less the earlier."""

    later: str
    earlier: str
    sentence: str
    answers: Mapping[str, ContrastAnswer]  # by task
    margin: float | None = None  # within which they were predicted to be equivalent on every task, and are

    @property
    def differs(self) -> bool:
        """Whether it leans to either side on any task."""
        return any(one.grade in ("resolved", "leaning") for one in self.answers.values())


def summarise_pairs(score: Score) -> list[PairSummary]:
    """Every pair that the score compares and that shares a task."""
    grades = contrast_grades(score)
    summaries = []
    for pair, tasks in score.contrasts.items():
        attempted = {task: sides.all_attempted for task, sides in tasks.items()}
        answers = {
            task: contrast_answer(pair, task, contrast, grades.get((pair, task)))
            for task, contrast in attempted.items()
        }
        if answers:
            later, _, earlier = pair.partition(" - ")
            sentence = contrast_summary(pair, list(answers.values()), attempted, sized=True)
            margin = _margin(score, later, earlier, tasks=answers)
            summaries.append(PairSummary(later, earlier, sentence, answers, margin))
    return summaries


def contrast_headlines(pairs: Sequence[PairSummary]) -> list[str]:
    """First the pairs that are equivalent as predicted, then a sentence for each other one that differs, and one
    for the rest together. Many that differ alike from the same arm share a sentence, without their sizes."""
    equivalent = _equivalent([pair for pair in pairs if pair.margin is not None])
    return [*equivalent, *_headlines([pair for pair in pairs if pair.margin is None])]


def _headlines(pairs: Sequence[PairSummary]) -> list[str]:
    if len(pairs) == 1:
        return [pairs[0].sentence]
    in_sweeps = len({pair.earlier for pair in pairs}) > 1
    groups: dict[str, list[PairSummary]] = {}
    for pair in pairs:
        groups.setdefault(_pattern(pair) if pair.differs else ALIKE, []).append(pair)
    if not in_sweeps and ALIKE in groups:
        groups[ALIKE] = groups.pop(ALIKE)  # last; the pairs of several sweeps stay in their order, registered first
    # Arms of several sweeps are many together, whatever each sweep has.
    many = sum(pair.differs for pair in pairs) if in_sweeps else 0
    sentences: list[str] = []
    for pattern, members in groups.items():
        if pattern == ALIKE:
            sentences.append(_not_told_apart(members, in_sweeps=in_sweeps))
        elif len(members) > 1 and max(len(members), many) > MOST_SENTENCES:
            sentences.append(pattern.replace("{}", listed([pair.later for pair in members])))
        else:
            sentences += [pair.sentence for pair in members]
    return sentences


def _pattern(pair: PairSummary) -> str:
    """Its sentence with a place for the later arm, and without its size."""
    return re.sub(rf": [^:]*{UNIT}\.$", ".", pair.sentence.replace(f"with {pair.later} than", "with {} than"))


def _margin(score: Score, later: str, earlier: str, *, tasks: Collection[str]) -> float | None:
    """The margin within which two arms were predicted to be equivalent, where that held on each of the tasks."""
    held: dict[str, float] = {}
    for arm, against in ((later, earlier), (earlier, later)):
        for task, figures in score.arms[arm].tasks.items():
            for said in figures.predictions:
                if said.against == against and said.equivalence is not None and said.answer == "held":
                    held[task] = said.equivalence.margin
    margins = {held.get(task) for task in tasks}
    return margins.pop() if len(margins) == 1 else None


def _equivalent(pairs: Sequence[PairSummary]) -> list[str]:
    """Which arms are equivalent, and which of their differences lean to a side all the same."""
    by_margin: dict[float, list[PairSummary]] = {}
    for pair in pairs:
        by_margin.setdefault(pair.margin or 0.0, []).append(pair)
    sentences = []
    for margin, members in by_margin.items():
        tasks = dict.fromkeys(task for pair in members for task in pair.answers)
        where = "every task" if len(tasks) > 1 else next(iter(tasks))
        named = "; ".join(f"{pair.later} and {pair.earlier}" for pair in members)
        sentences.append(f"Equivalent within ±{margin:g}{UNIT} on {where}, as predicted: {named}.")
        sentences += [
            f"Within that margin {pair.later} less {pair.earlier} is {one.difference} on {task} ({one.grade})."
            for pair in members
            for task, one in pair.answers.items()
            if one.grade in ("resolved", "leaning")
        ]
    return sentences


def _not_told_apart(alike: Sequence[PairSummary], *, in_sweeps: bool) -> str:
    """Which arms do not differ from the ones that they are compared with.

    >>> pairs = [PairSummary("b", "a", "Alike.", {}), PairSummary("c", "a", "Alike.", {})]
    >>> _not_told_apart(pairs, in_sweeps=False)
    'Not to be told apart from a on any task: b and c.'
    >>> _not_told_apart([*pairs, PairSummary("y", "x", "Alike.", {})], in_sweeps=True)
    'Not to be told apart on any task: b and c from a; y from x.'
    """
    by_earlier: dict[str, list[str]] = {}
    for pair in alike:
        by_earlier.setdefault(pair.earlier, []).append(pair.later)
    if not in_sweeps:
        ((earlier, names),) = by_earlier.items()
        return f"Not to be told apart from {earlier} on any task: {listed(names)}."
    each = "; ".join(f"{listed(names)} from {earlier}" for earlier, names in by_earlier.items())
    return f"Not to be told apart on any task: {each}."
