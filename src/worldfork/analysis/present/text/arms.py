"""Comparisons of arms in sentences: pair by pair, all of them together, and what sets them apart."""

import dataclasses
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from worldfork.analysis.present.text.answers import UNIT
from worldfork.analysis.present.text.formatting import defined, digits_for, estimate, listed, number
from worldfork.analysis.score.contrasts import Contrast
from worldfork.analysis.score.result import Score
from worldfork.analysis.score.undefined import Undefined
from worldfork.analysis.score.verdicts import Grade
from worldfork.counting import plural
from worldfork.registration import Registration, difference
from worldfork.registry import BUILT_IN

DIFFERS: Final = ("resolved", "leaning")


@dataclasses.dataclass(frozen=True)
class ContrastAnswer:
    """Two arms on one task: the first less the second."""

    first: str
    second: str
    task: str
    grade: Grade | None
    difference: str  # with its interval
    sentence: str


@dataclasses.dataclass(frozen=True)
class PairSummary:
    """Two arms on all tasks they share: the later less the earlier."""

    later: str
    earlier: str
    sentence: str
    answers: Mapping[str, ContrastAnswer]  # by task
    margin: float | None = None  # within which they were predicted to be equivalent on every task, and are
    labels: tuple[str, str] = ("", "")  # of both, where they are not called by their names

    @property
    def shown(self) -> tuple[str, str]:
        """Names of the later and the earlier arm in sentences."""
        return self.labels[0] or self.later, self.labels[1] or self.earlier

    @property
    def differs(self) -> bool:
        """True where the difference is resolved or leans on any task."""
        return any(contrast.grade in DIFFERS for contrast in self.answers.values())


def summarise_pairs(score: Score) -> list[PairSummary]:
    """Return every pair of arms that the score compares and that shares a task."""
    summaries = []
    for pair, tasks in score.contrasts.items():
        labels = arms_of(score, pair)
        attempted = {task: both.all_attempted for task, both in tasks.items()}
        answers = {task: contrast_answer(labels, task, contrast) for task, contrast in attempted.items()}
        if answers:
            later, _, earlier = pair.partition(" - ")
            sentence = contrast_summary(labels, list(answers.values()), attempted, sized=True)
            margin = _margin(score, later, earlier, tasks=answers)
            summaries.append(PairSummary(later, earlier, sentence, answers, margin, labels))
    return summaries


def arms_of(score: Score, pair: str) -> tuple[str, str]:
    """Return the labels of both arms of a contrast, which is called "later - earlier"."""
    later, _, earlier = pair.partition(" - ")
    return score.label(later), score.label(earlier)


def contrast_answer(arms: tuple[str, str], task: str, contrast: Contrast | Undefined) -> ContrastAnswer:
    """Return one arm less another, in a sentence."""
    first, second = arms
    if isinstance(contrast, Undefined):
        return ContrastAnswer(first, second, task, None, "undefined", f"{task}: {contrast.why}.")
    digits, mean = digits_for(contrast), defined(contrast.mean)
    grade = None if isinstance(contrast.grade, Undefined) else contrast.grade
    difference = estimate(contrast, digits)
    comparison = "unresolved"
    if grade in DIFFERS and mean is not None:
        comparison = f"{'better' if mean > 0 else 'worse'} ({grade})"
    sentence = (
        f"{task}: {first} less {second} is {difference}, {comparison}; updating is worth "
        f"{number(contrast.first, digits)} with {first} and {number(contrast.second, digits)} with {second}."
    )
    return ContrastAnswer(first, second, task, grade, difference, sentence)


def contrast_summary(
    arms: tuple[str, str],
    answers: Sequence[ContrastAnswer],
    contrasts: Mapping[str, Contrast | Undefined],
    *,
    sized: bool = False,
) -> str:
    """Return all tasks of two arms in one sentence: which speak for which arm, and how surely.

    Where even the better arm loses, updates cost less with it: "worth more" would read as if it paid. `sized` adds
    the difference where there is one task; those of several stand in a table.
    """
    first, second = arms
    differing: dict[str, list[str]] = {}
    neither: list[str] = []
    for graded in answers:
        contrast = contrasts[graded.task]
        mean = None if isinstance(contrast, Undefined) else defined(contrast.mean)
        if mean is None or isinstance(contrast, Undefined) or graded.grade not in DIFFERS:
            neither.append(graded.task)
            continue
        both = [defined(contrast.first), defined(contrast.second)]
        lose = all(value is not None and value < 0 for value in both)
        verb = ("cost less" if mean > 0 else "cost more") if lose else f"are worth {'more' if mean > 0 else 'less'}"
        differing.setdefault(verb, []).append(f"{graded.task} ({graded.grade})")
    parts = [
        f"updates {verb} with {first} than with {second} on {listed(tasks)}" for verb, tasks in differing.items()
    ]
    if neither:
        between = "" if parts else f" between {first} and {second}"
        parts.append(f"the difference{between} is unresolved on {listed(neither)}")
    text = "; ".join(parts)
    if sized and text and len(answers) == 1 and answers[0].difference != "undefined":
        text += f": {answers[0].difference}{UNIT}"
    return f"{text[0].upper()}{text[1:]}." if text else f"{first} and {second} have no task in common."


ALIKE: Final = ""  # stands for the sentence of all pairs that do not differ
MOST_SENTENCES: Final = 3  # pairs that differ alike and still have a sentence each


def contrast_headlines(pairs: Sequence[PairSummary]) -> list[str]:
    """Return a sentence for each pair that is equivalent as predicted, for each other that differs, and one for the
    rest together. Many that differ alike from the same arm share a sentence, without their sizes."""
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
            sentences.append(_unresolved(members))
        elif len(members) > 1 and max(len(members), many) > MOST_SENTENCES:
            sentences.append(pattern.replace("{}", listed([pair.shown[0] for pair in members])))
        else:
            sentences += [pair.sentence for pair in members]
    return sentences


def _pattern(pair: PairSummary) -> str:
    """Return its sentence with a place for the later arm, and without its size."""
    return re.sub(rf": [^:]*{UNIT}\.$", ".", pair.sentence.replace(f"with {pair.shown[0]} than", "with {} than"))


def _margin(score: Score, later: str, earlier: str, *, tasks: Collection[str]) -> float | None:
    """Return the margin within which two arms were predicted to be equivalent, where that held on each task."""
    held: dict[str, float] = {}
    for arm, against in ((later, earlier), (earlier, later)):
        for task, figures in score.arms[arm].tasks.items():
            for prediction in figures.predictions:
                equivalence = prediction.equivalence
                if prediction.against == against and equivalence is not None and prediction.answer == "held":
                    held[task] = equivalence.margin
    margins = {held.get(task) for task in tasks}
    return margins.pop() if len(margins) == 1 else None


def _equivalent(pairs: Sequence[PairSummary]) -> list[str]:
    """Return which arms are equivalent, and which of their differences lean to a side all the same."""
    by_margin: dict[float, list[PairSummary]] = {}
    for pair in pairs:
        by_margin.setdefault(pair.margin or 0.0, []).append(pair)
    sentences = []
    for margin, members in by_margin.items():
        tasks = dict.fromkeys(task for pair in members for task in pair.answers)
        where = "every task" if len(tasks) > 1 else next(iter(tasks))
        named = "; ".join(" and ".join(pair.shown) for pair in members)
        sentences.append(f"Equivalent within ±{margin:g}{UNIT} on {where}, as predicted: {named}.")
        sentences += [
            f"Within that margin {' less '.join(pair.shown)} is {contrast.difference} on {task} ({contrast.grade})."
            for pair in members
            for task, contrast in pair.answers.items()
            if contrast.grade in DIFFERS
        ]
    return sentences


def _unresolved(alike: Sequence[PairSummary]) -> str:
    """Return which arms do not differ from the ones that they are compared with.

    >>> pairs = [PairSummary("b", "a", "Alike.", {}), PairSummary("c", "a", "Alike.", {})]
    >>> _unresolved(pairs)
    'The difference is unresolved on every task: b and c less a.'
    >>> _unresolved([*pairs, PairSummary("y", "x", "Alike.", {})])
    'The difference is unresolved on every task: b and c less a; y less x.'
    """
    by_earlier: dict[str, list[str]] = {}
    for pair in alike:
        later, earlier = pair.shown
        by_earlier.setdefault(earlier, []).append(later)
    each = "; ".join(f"{listed(names)} less {earlier}" for earlier, names in by_earlier.items())
    return f"The difference is unresolved on every task: {each}."


RATE: Final = "mechanism.settings.rate"
NAMES: Final = {"name", "label"}  # of an arm: they set nothing


def changed(registration: Registration, earlier: str, later: str) -> list[str]:
    """Return what one arm sets otherwise than another, a line each."""
    arms = [registration.arm(name) for name in (earlier, later)]
    before, after = (arm.model_dump(mode="json", exclude=NAMES) for arm in arms)
    mechanism, other = (arm.mechanism.name for arm in arms)
    # Another mechanism has other settings: what it does not have is not at its default.
    absent = "its default" if mechanism == other else "not set"
    factor = mechanism in BUILT_IN["mechanisms"]
    return [_readable(line, absent=absent, factor=factor) for line in difference(before, after)]


def _readable(change: str, *, absent: str, factor: bool = False) -> str:
    """Return a change of a setting as people read it; `absent` is what a missing value is called. `factor` says
    that a rate is a factor of the agent's own, as in all mechanisms that come with worldfork.

    >>> _readable('mechanism.settings.keep: null -> 0.1', absent="its default")
    'mechanism.settings.keep: its default → 0.1'
    >>> _readable('mechanism.settings.rate: null -> 0.1', absent="its default", factor=True)
    "learning rate, in units of the agent's own: 1 → 0.1"
    """
    where, _, values = change.partition(": ")
    before, _, after = values.partition(" -> ")
    if factor and where == RATE and absent == "its default":
        where, absent = "learning rate, in units of the agent's own", "1"
    return f"{where}: {' → '.join(absent if value == 'null' else value for value in (before, after))}"


def update_words(registration: Registration) -> str:
    """Return what UPDATE does, as far as all arms do the same; empty where they share nothing."""
    mechanisms = [arm.mechanism for arm in registration.arms]
    first = mechanisms[0]
    shared = {
        name
        for name in type(first).model_fields
        if all(getattr(mechanism, name) == getattr(first, name) for mechanism in mechanisms)
    }
    training = {
        "steps": plural(first.steps, "gradient step"),
        "scope": f"of the {first.scope.replace('+', ' and the ')}",
        "window": f"on at most the last {plural(first.window, 'transition')}",
    }
    settings = [
        f"{name} {value}"
        for name, value in first.settings.items()
        if all(name in other.settings and other.settings[name] == value for other in mechanisms)
    ]
    if "settings" in shared and not settings:
        settings = ["its other settings at their defaults"]
    words = [
        first.name if "name" in shared else "",
        " ".join(text for name, text in training.items() if name in shared),
        ", ".join(settings),
    ]
    return ", ".join(text for text in words if text)
