"""Arms in sentences: pair by pair, all of them together, and what sets them apart."""

import dataclasses
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from worldfork.analysis.present.text.answers import UNIT
from worldfork.analysis.present.text.formatting import defined, digits_for, listed, number
from worldfork.analysis.present.text.stopping import graded_difference
from worldfork.analysis.score.arms import compared_pairs
from worldfork.analysis.score.contrasts import Contrast
from worldfork.analysis.score.result import Score
from worldfork.analysis.score.undefined import Undefined
from worldfork.built_in import BUILT_IN
from worldfork.counting import plural
from worldfork.registration import Registration, difference
from worldfork.registration.schema import Mechanism

DIFFERS: Final = ("resolved", "leaning")


@dataclasses.dataclass(frozen=True)
class PairSummary:
    """Two arms on all tasks that they share, by their labels: the later less the earlier."""

    later: str
    earlier: str
    sentence: str
    tasks: Sequence[str]
    differing: Mapping[str, str] = dataclasses.field(default_factory=dict)  # by task: the difference with its grade
    margin: float | None = None  # within which they were predicted to be equivalent on every task, and are


def summarise_pairs(score: Score) -> list[PairSummary]:
    """Return every pair of arms that the score compares and that shares a task."""
    summaries = []
    for pair, tasks in score.contrasts.items():
        arms, attempted = arms_of(score, pair), {task: both.all_attempted for task, both in tasks.items()}
        if attempted:
            sentence = contrast_summary(arms, attempted, sized=True)
            differing = {
                task: f"{graded_difference(contrast).words} on {task} ({contrast.grade})"
                for task, contrast in _differing(attempted).items()
            }
            margin = _margin(score, *pair.split(" - ", 1), tasks=attempted)
            summaries.append(PairSummary(*arms, sentence, list(attempted), differing, margin))
    return summaries


def arms_of(score: Score, pair: str) -> tuple[str, str]:
    """Return the labels of both arms of a contrast, which is called "later - earlier"."""
    later, _, earlier = pair.partition(" - ")
    return score.label(later), score.label(earlier)


def _differing(contrasts: Mapping[str, Contrast | Undefined]) -> dict[str, Contrast]:
    """Return the contrasts that are resolved or lean to a side, by task."""
    return {
        task: contrast
        for task, contrast in contrasts.items()
        if not isinstance(contrast, Undefined) and contrast.grade in DIFFERS and defined(contrast.mean) is not None
    }


def contrast_words(arms: tuple[str, str], task: str, contrast: Contrast | Undefined) -> str:
    """Return one arm less another on a task, in a sentence."""
    if isinstance(contrast, Undefined):
        return f"{task}: {contrast.why}."
    (first, second), digits, comparison = arms, digits_for(contrast), "unresolved"
    if _differing({task: contrast}):
        comparison = f"{'better' if (defined(contrast.mean) or 0.0) > 0 else 'worse'} ({contrast.grade})"
    return (
        f"{task}: {first} less {second} is {graded_difference(contrast).words}, {comparison}; updating is worth "
        f"{number(contrast.first, digits)} with {first} and {number(contrast.second, digits)} with {second}."
    )


def contrast_summary(
    arms: tuple[str, str], contrasts: Mapping[str, Contrast | Undefined], *, sized: bool = False
) -> str:
    """Return all tasks of two arms in one sentence: which speak for which arm, and how surely.

    Where even the better arm loses, updates cost less with it: "worth more" would read as if it paid. `sized` adds
    the difference where there is one task; those of several stand in a table.
    """
    first, second = arms
    if not contrasts:
        return f"{first} and {second} have no task in common."
    differing = _differing(contrasts)
    by_verb: dict[str, list[str]] = {}
    for task, contrast in differing.items():
        more = (defined(contrast.mean) or 0.0) > 0
        lose = all((defined(value) or 0.0) < 0 for value in (contrast.first, contrast.second))
        verb = f"cost {'less' if more else 'more'}" if lose else f"are worth {'more' if more else 'less'}"
        by_verb.setdefault(verb, []).append(f"{task} ({contrast.grade})")
    parts = [
        f"updates {verb} with {first} than with {second} on {listed(tasks)}" for verb, tasks in by_verb.items()
    ]
    if neither := [task for task in contrasts if task not in differing]:
        between = "" if parts else f" between {first} and {second}"
        parts.append(f"the difference{between} is unresolved on {listed(neither)}")
    text = "; ".join(parts)
    (only, *others) = contrasts.values()
    if sized and not others and not isinstance(only, Undefined):
        text += f": {graded_difference(only).words}{UNIT}"
    return f"{text[0].upper()}{text[1:]}."


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
        groups.setdefault(_pattern(pair) if pair.differing else ALIKE, []).append(pair)
    if not in_sweeps and ALIKE in groups:
        groups[ALIKE] = groups.pop(ALIKE)  # last; the pairs of several sweeps stay in their order, registered first
    # Arms of several sweeps are many together, whatever each sweep has.
    many = sum(bool(pair.differing) for pair in pairs) if in_sweeps else 0
    sentences: list[str] = []
    for pattern, members in groups.items():
        if pattern == ALIKE:
            sentences.append(_unresolved(members))
        elif len(members) > 1 and max(len(members), many) > MOST_SENTENCES:
            sentences.append(pattern.replace("{}", listed([pair.later for pair in members])))
        else:
            sentences += [pair.sentence for pair in members]
    return sentences


def _pattern(pair: PairSummary) -> str:
    """Return its sentence with a place for the later arm, and without its size."""
    return re.sub(rf": [^:]*{UNIT}\.$", ".", pair.sentence.replace(f"with {pair.later} than", "with {} than"))


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
        tasks = dict.fromkeys(task for pair in members for task in pair.tasks)
        where = "every task" if len(tasks) > 1 else next(iter(tasks))
        named = "; ".join(f"{pair.later} and {pair.earlier}" for pair in members)
        sentences.append(f"Equivalent within ±{margin:g}{UNIT} on {where}, as predicted: {named}.")
        sentences += [
            f"Within that margin {pair.later} less {pair.earlier} is {difference}."
            for pair in members
            for difference in pair.differing.values()
        ]
    return sentences


def _unresolved(alike: Sequence[PairSummary]) -> str:
    """Return which arms do not differ from the ones that they are compared with.

    >>> pairs = [PairSummary("b", "a", "Alike.", ()), PairSummary("c", "a", "Alike.", ())]
    >>> _unresolved(pairs)
    'The difference is unresolved on every task: b and c less a.'
    >>> _unresolved([*pairs, PairSummary("y", "x", "Alike.", ())])
    'The difference is unresolved on every task: b and c less a; y less x.'
    """
    by_earlier: dict[str, list[str]] = {}
    for pair in alike:
        by_earlier.setdefault(pair.earlier, []).append(pair.later)
    each = "; ".join(f"{listed(names)} less {earlier}" for earlier, names in by_earlier.items())
    return f"The difference is unresolved on every task: {each}."


RATE: Final = "mechanism.settings.rate"
RATE_WORDS: Final = "learning rate, in units of the agent's own"
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
        where, absent = RATE_WORDS, "1"
    return f"{where}: {' → '.join(absent if value == 'null' else value for value in (before, after))}"


UPDATES: Final = {  # what comes with worldfork, in words
    "finetune": "fine-tuning",
    "none": "no update",
    "rehearsal": "fine-tuning that rehearses pretraining's replay",
    "anchor": "fine-tuning held near the checkpoint",
    "partial": "fine-tuning of some parameters",
    "interpolate": "fine-tuning of which a part is kept",
    "adapter": "fine-tuning of low-rank adapters",
    "shrink-and-perturb": "shrink and perturb",
    "reset": "training that begins anew",
    "accept-if-better": "fine-tuning that is kept if it lowers the loss",
}


def set_apart(registration: Registration, earlier: str, later: str) -> str:
    """Return what one arm does otherwise than another, in words; a setting that has none as it is registered."""
    before, after = (registration.arm(name).mechanism for name in (earlier, later))
    lines, words = changed(registration, earlier, later), []
    if before.name != after.name:
        lines = [
            line for line in lines if not line.startswith(("mechanism.name:", "mechanism.settings.", RATE_WORDS))
        ]
        particulars = [
            f"{name} {f'{value:g}' if isinstance(value, float) else value}"
            for name, value in after.settings.items()
            if name != "rate" and before.settings.get(name) != value
        ]
        settings = f" ({', '.join(particulars)})" if particulars else ""
        update, instead = (UPDATES.get(mechanism.name, mechanism.name) for mechanism in (after, before))
        words.append(f"{update}{settings} instead of {instead}")
    if rate := _rate_words(before, after):
        lines = [line for line in lines if not line.startswith(RATE_WORDS)]
        words.append(rate)
    return "; ".join([*words, *lines])


def _rate_words(before: Mechanism, after: Mechanism) -> str:
    """Return the learning rate of an update where it is another one, in units of the agent's own; else nothing."""
    was, factor = (float(update.settings.get("rate", 1.0)) for update in (before, after))
    if was == factor or after.name not in BUILT_IN["mechanisms"]:
        return ""
    return f"{FRACTIONS.get(factor, f'{factor:g} times the')} learning rate"


FRACTIONS: Final = {1.0: "the full", 0.5: "half the", 0.1: "a tenth of the", 0.01: "a hundredth of the"}
MODES: Final = {"pinned": "evaluated at the drift of the fork", "forward": "evaluated while the drift goes on"}
MOST_DIFFERENCES: Final = 3  # of an arm from the first; more are listed, not said


def arm_words(registration: Registration | None, name: str) -> str:
    """Return what an arm has otherwise than the first, in a few words; empty for the first, and where the
    registration labels the arm."""
    if registration is None or registration.arms[0].name == name or registration.arm(name).label:
        return ""
    first, arm = registration.arms[0], registration.arm(name)
    before, after = first.mechanism, arm.mechanism
    found = [
        f"{after.name} as the update" if before.name != after.name else "",
        _rate_words(before, after),
        plural(after.steps, "gradient step") if before.steps != after.steps else "",
        f"a window of {plural(after.window, 'transition')}" if before.window != after.window else "",
        f"updates of {after.scope.replace('+', ' and ')}" if before.scope != after.scope else "",
        MODES[arm.evaluation.mode] if first.evaluation.mode != arm.evaluation.mode else "",
        f"action noise {arm.stream.action_noise:g}" if first.stream.action_noise != arm.stream.action_noise else "",
    ]
    words = [text for text in found if text]
    return listed(words) if len(words) <= MOST_DIFFERENCES else ""


def why_compared(score: Score) -> str:
    """Return by which rule these arms are compared (docs/report.md), where it is not simply each with the first."""
    pairs = compared_pairs(score.registration, score.arms) if score.registration else []
    named: dict[str, list[str]] = {}
    for pair in pairs:
        named.setdefault(pair.reason, []).append(f"{pair.later} with {pair.earlier}")
    if "predicted" in named:
        words = ["the arms that registered predictions compare"]
        if "as predicted" in named:
            alike = listed(named["as predicted"])
            words.append(f"without a prediction, since they differ in the same way, {alike}")
        if others := [*named.get("sweep", ()), *named.get("first", ())]:
            words.append(f"without a prediction, {listed(others)}")
        return f"Compared: {'; '.join(words)}."
    if len({pair.earlier for pair in pairs}) > 1:
        return "Compared: each arm with the first of its sweep, from which it differs in one setting."
    return ""


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
