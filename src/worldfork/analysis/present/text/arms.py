"""The arms that a study compares, pair by pair, and all of them in a few sentences."""

import dataclasses
import itertools
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from worldfork.analysis.present.text.answers import UNIT, Answer, ContrastAnswer, contrast_answer, contrast_summary
from worldfork.analysis.present.text.formatting import digits_for, known, listed, number, with_span
from worldfork.analysis.score.result import Score
from worldfork.analysis.score.sweeps import DoseSweep, Noise, NoiseSweep
from worldfork.analysis.score.undefined import Figure, Undefined
from worldfork.counting import plural
from worldfork.registration import Registration, difference
from worldfork.registry import BUILT_IN

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
    summaries = []
    for pair, tasks in score.contrasts.items():
        attempted = {task: sides.all_attempted for task, sides in tasks.items()}
        answers = {task: contrast_answer(pair, task, contrast) for task, contrast in attempted.items()}
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


MOST_NAMED: Final = 4  # arms of which the same is said, by their names
VERBS: Final = {"harmful": "hurts", "helpful": "helps"}


def worth_by_arm(answers: Mapping[str, Mapping[str, Answer]]) -> str:
    """What updating comes to with each arm (answers by arm, then task); arms that say the same stand together.

    On one task an arm that helps or hurts has its mean beside its name; of several, the cards have them.
    """
    arms: dict[str, list[str]] = {}
    for arm, by_task in answers.items():
        arms.setdefault(_outcome(by_task), []).append(f"{arm}{_size(by_task)}")
    if len(arms) == 1 and len(answers) > MOST_NAMED and not any(map(_size, answers.values())):
        return f"With each of the {len(answers)} arms {next(iter(arms))}."
    return " ".join(
        f"With {'arm' if len(names) == 1 else 'arms'} {listed(names)} {outcome}." for outcome, names in arms.items()
    )


def _size(by_task: Mapping[str, Answer]) -> str:
    if len(by_task) != 1:
        return ""
    (one,) = by_task.values()
    return f" ({one.mean.partition(' ')[0]})" if one.verdict in VERBS else ""


def _outcome(by_task: Mapping[str, Answer]) -> str:
    """One arm: on which tasks updating hurts, helps, or neither can be said."""
    parts = []
    for verdict, verb in VERBS.items():
        tasks = {task: one for task, one in by_task.items() if one.verdict == verdict}
        graded = [f"{task} ({one.graded})" for task, one in tasks.items()]
        if len(by_task) == 1:
            parts += [f"it {verb} ({one.graded})" for one in tasks.values()]
        elif graded:
            parts.append(f"it {verb} on {listed(graded)}")
    others: dict[str, list[str]] = {}
    for task, one in by_task.items():
        if one.verdict not in VERBS:
            others.setdefault(one.word, []).append(task)
    return "; ".join([*parts, *(_neither(word, tasks, by_task) for word, tasks in others.items())])


def _neither(word: str, tasks: Sequence[str], by_task: Mapping[str, Answer]) -> str:
    everywhere = len(tasks) == len(by_task)
    if word == "No difference":
        return "it makes no difference" if everywhere else f"it makes no difference on {listed(tasks)}"
    said = word[0].lower() + word[1:]
    if everywhere:
        return f"it is {said}{' on any task' if len(tasks) > 1 else ''}"
    return f"{listed(tasks)} {'is' if len(tasks) == 1 else 'are'} {said}"


RATE: Final = "mechanism.settings.rate"


def varies(registration: Registration) -> dict[str, list[str]]:
    """What every later arm changes with respect to the first; an arm that changes nothing is not named."""
    first, *others = (arm.name for arm in registration.arms)
    changes = {name: changed(registration, first, name) for name in others}
    return {name: lines for name, lines in changes.items() if lines}


def changed(registration: Registration, earlier: str, later: str) -> list[str]:
    """What one arm has otherwise than another, a line each."""
    arms = [registration.arm(name) for name in (earlier, later)]
    before, after = (arm.model_dump(mode="json", exclude={"name", "label"}) for arm in arms)
    mechanism, other = (arm.mechanism.name for arm in arms)
    # Another mechanism has other settings: what it does not have is not at its default.
    absent = "its default" if mechanism == other else "not set"
    factor = mechanism in BUILT_IN["mechanisms"]
    return [_readable(line, absent=absent, factor=factor) for line in difference(before, after)]


def update_words(registration: Registration) -> str:
    """What UPDATE does, as far as all arms do the same; empty where they share nothing."""
    mechanisms = [arm.mechanism for arm in registration.arms]
    first = mechanisms[0]
    shared = {
        name
        for name in type(first).model_fields
        if all(getattr(one, name) == getattr(first, name) for one in mechanisms)
    }
    training = {
        "steps": plural(first.steps, "gradient step"),
        "scope": f"of the {first.scope.replace('+', ' and the ')}",
        "window": f"on at most the last {plural(first.window, 'transition')}",
    }
    settings = [
        f"{name} {value}"
        for name, value in first.settings.items()
        if all(name in one.settings and one.settings[name] == value for one in mechanisms)
    ]
    if "settings" in shared and not settings:
        settings = ["its other settings at their defaults"]
    words = [
        first.name if "name" in shared else "",
        " ".join(text for name, text in training.items() if name in shared),
        ", ".join(settings),
    ]
    return ", ".join(text for text in words if text)


def _readable(change: str, *, absent: str, factor: bool = False) -> str:
    """A change of a setting as people read it; `absent` is what a missing one is called. `factor` says that a rate
    is one, as in all mechanisms that come with worldfork.

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


FEWEST = 3  # two values of a number are a pair, not a sweep
SIGNALS = ("residual", "kl")  # those that noise is asked about


def sweep_words(number_of: str, sweeps: Mapping[str, Sequence[tuple[str, Figure]]]) -> str:
    """Whether mean dR rises or falls all along each sweep (the amounts and their means, by the sweep's name).

    >>> sweep_words("dose", {"a": [("25", 3.0), ("50", 1.0), ("100", -2.0)]})
    'Mean dR falls from every dose to the next on a (+3.00 with 25, -2.00 with 100): described, not tested.'
    >>> sweep_words("window", {"a": [("25", 3.0), ("50", 4.0), ("100", -2.0)]}).partition(" (")[2]
    'highest +4.00 with 50, lowest -2.00 with 100): described, not tested.'
    """
    places: dict[str, list[str]] = {}
    for name, means in sweeps.items():
        values = [(amount, mean) for amount, mean in means if not isinstance(mean, Undefined)]
        if len(values) == len(means) >= FEWEST:
            course, ends = _course(values)
            places.setdefault(course, []).append(f"{name} ({ends})")
    clauses = [f"{course.format(number_of)} on {listed(named)}" for course, named in places.items()]
    return f"Mean dR {'; it '.join(clauses)}: described, not tested." if clauses else ""


def noise_words(sweeps: Mapping[str, Mapping[str, NoiseSweep]]) -> str:
    """What the most noise does to surprise and to the value of updating, beside the least; empty without noises."""
    sentences = []
    for task, groups in sweeps.items():
        for label, sweep in groups.items():
            if sweep.baseline in sweep.noises and len(sweep.noises) > 1:
                least, most = sweep.noises[sweep.baseline], list(sweep.noises.values())[-1]
                changes = [words for words in (*(_rise(most, name) for name in SIGNALS), _worth(most)) if words]
                noise = f"sigma_a {most.action_noise:g} instead of {least.action_noise:g}"
                sentences.append(
                    f"On {sweep_name(task, label, groups)}, with {noise}, these change: {listed(changes)}."
                )
    return " ".join([*sentences, "Intervals are Student-t 95% over checkpoints."]) if sentences else ""


def dose_means(sweeps: Mapping[str, Mapping[str, DoseSweep]]) -> dict[str, list[tuple[str, Figure]]]:
    """The mean dR of every dose, by the sweep's name, where doses have an order."""
    return {
        sweep_name(task, label, groups): [(dose.amount, dose.mean) for dose in sweep.doses.values()]
        for task, groups in sweeps.items()
        for label, sweep in groups.items()
        if not isinstance(sweep.order, Undefined)
    }


def sweep_name(task: str, label: str, groups: Mapping[str, object]) -> str:
    """The task, and what sets these arms apart from others that sweep the same number."""
    return task if len(groups) == 1 else f"{task}, {label}"


def signal_digits(value: float) -> int:
    """Decimals that show three digits of a signal: signals have scales of their own."""
    size, digits = abs(value), 2
    while 0 < size < 1 and digits < 9:
        size, digits = 10 * size, digits + 1
    return digits


def _course(values: Sequence[tuple[str, float]]) -> tuple[str, str]:
    means = [mean for _, mean in values]
    steps = list(itertools.pairwise(means))
    largest = max(abs(mean) for mean in means)
    digits = 1 if largest >= 10 or largest == 0 else 2 if largest >= 1 else 3
    if all(before < after for before, after in steps) or all(before > after for before, after in steps):
        ends = [f"{number(mean, digits)} with {amount}" for amount, mean in (values[0], values[-1])]
        return f"{'rises' if means[0] < means[-1] else 'falls'} from every {{}} to the next", ", ".join(ends)
    highest, lowest = (choose(values, key=lambda pair: pair[1]) for choose in (max, min))
    ends = [
        f"{end} {number(mean, digits)} with {at}" for end, (at, mean) in (("highest", highest), ("lowest", lowest))
    ]
    return "does not only rise or only fall from one {} to the next", ", ".join(ends)


def _rise(noise: Noise, name: str) -> str:
    recorded = noise.signals.get(name)
    if recorded is None or isinstance(recorded.rise, Undefined) or isinstance(recorded.rise.mean, Undefined):
        return ""
    digits = signal_digits(recorded.rise.mean)
    return f"{name} by {with_span(recorded.rise.mean, recorded.rise.student_t, digits)}"


def _worth(noise: Noise) -> str:
    if isinstance(noise.rise, Undefined) or known(noise.rise.mean) is None:
        return ""
    return f"mean dR by {with_span(noise.rise.mean, noise.rise.student_t, digits_for(noise.rise))}"
