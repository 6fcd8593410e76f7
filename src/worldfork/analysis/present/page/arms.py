"""A study's arms, held against each other: the answer to its own question, as a chart and in sentences."""

import dataclasses
from collections.abc import Mapping, Sequence

from worldfork.analysis.present.page import filters
from worldfork.analysis.present.page.material import Material
from worldfork.analysis.present.page.view import Axis, Part, axis, effect_axis
from worldfork.analysis.present.text import (
    ContrastAnswer,
    PairSummary,
    changed,
    contrast_headlines,
    digits_for,
    dose_means,
    known,
    listed,
    noise_words,
    signal_digits,
    summarise_pairs,
    sweep_name,
    sweep_words,
    triggers_everywhere,
    useful_triggers,
    worth_by_arm,
)
from worldfork.analysis.score.judgement import Normalised
from worldfork.analysis.score.records import Contrast, Estimands
from worldfork.analysis.score.sweeps import ArmPair, Dose, Noise, alike_but_for, compared_pairs
from worldfork.analysis.score.undefined import Figure, Interval, Undefined
from worldfork.registration import Arm, Registration


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
    return [
        (arm, scored.normalised)
        for arm, scored in material.score.arms.items()
        if not isinstance(scored.normalised, Undefined)
    ]


FEWEST = 3  # values that are worth a chart; noises always have one, for what noise does to signals
SIGNALS = ("residual", "kl")  # those that noise is asked about
NOISE_HEADS = ("frozen", "helped", "AUC", "m", "diverged")  # after dR and the signals
STEPS = (
    "mean dR against the number of gradient steps per update",
    "Replay ratio: steps over the control steps between two decision points. Always: return gained per deployment "
    "that updates at every decision point, all attempted forks",
)
WINDOW = (
    "mean dR against the number of transitions that an update sees at most",
    "Diverged: of all attempted forks",
)
NOISE = (
    "mean dR against sigma_a, the standard deviation of the noise on every action, in streams and in both branches",
    "Rise: less that of the least noise, by checkpoint and not fork by fork, since streams and HOLD branches are "
    "each noise's own; Student-t 95%, and no p is corrected over noises. Frozen: the return of HOLD. Helped: the "
    "share of forks with dR above 0. AUC: of the residual, with its bootstrap interval. m: episodes of a branch. "
    "All but mean dR is of all attempted forks",
)


@dataclasses.dataclass(frozen=True)
class SweepRow:
    """One value of the number that is swept."""

    amount: str
    part: Part
    figures: Sequence[str]  # beside its mean


@dataclasses.dataclass(frozen=True)
class Sweep:
    """One task at several values of a number, ascending, all else the same."""

    name: str  # the task, and what sets these arms apart from others that sweep the same number
    about: str
    legend: str
    number: str  # what is swept, as the head of its column
    heads: Sequence[str]  # of the figures beside the mean
    rows: Sequence[SweepRow]

    @property
    def parts(self) -> list[Part]:
        """Its arms on this task."""
        return [row.part for row in self.rows]

    def axis(self, side: str) -> Axis:
        """A line for all of them."""
        return effect_axis([getattr(row.part.score.effect, side) for row in self.rows])


Parts = Mapping[tuple[str, str], Part]


def sweeps(material: Material, shown: Sequence[Part]) -> list[Sweep]:
    """Every sweep of the study, first those over doses, then windows, then noises."""
    parts = {(part.arm, part.task): part for part in shown}
    return [*_doses(material, parts), *_windows(material, parts), *_noises(material, parts)]


def sweep_answers(material: Material, shown: Sequence[Part]) -> list[tuple[str, str]]:
    """What the sweeps say, each number in a sentence below its question."""
    parts = {(part.arm, part.task): part for part in shown}
    windows = {
        sweep.name: [(row.amount, row.part.score.effect.all_attempted.mean) for row in sweep.rows]
        for sweep in _windows(material, parts)
    }
    answers = [
        ("And dose by dose?", sweep_words("number of gradient steps", dose_means(material.score.doses))),
        ("And window by window?", sweep_words("window", windows)),
        ("What does noise do?", noise_words(material.score.noises)),
    ]
    return [(question, answer) for question, answer in answers if answer]


def _doses(material: Material, parts: Parts) -> list[Sweep]:
    charts = []
    for task, groups in material.score.doses.items():
        for label, sweep in groups.items():
            if len({dose.amount for dose in sweep.doses.values()}) >= FEWEST:
                rows = [_dose_row(dose, parts[arm, task]) for arm, dose in sweep.doses.items()]
                name = sweep_name(task, label, groups)
                charts.append(Sweep(name, *STEPS, "steps", ("replay ratio", "always"), rows))
    return charts


def _dose_row(dose: Dose, part: Part) -> SweepRow:
    figures = (filters.unsigned(dose.replay_ratio, 2), filters.number(dose.always.mean, part.digits))
    return SweepRow(dose.amount, part, figures)


def _windows(material: Material, parts: Parts) -> list[Sweep]:
    if material.study is None:
        return []
    groups = alike_but_for(("mechanism.window",), material.study.registration.arms, value=_window)
    by_task: dict[str, dict[str, list[Arm]]] = {}
    for group in groups:
        for task in dict.fromkeys(task for arm in group.arms for task in arm.tasks):
            scored = sorted((arm for arm in group.arms if (arm.name, task) in parts), key=_window)
            if len({_window(arm) for arm in scored}) >= FEWEST:
                by_task.setdefault(task, {})[group.label] = scored
    return [
        Sweep(
            sweep_name(task, label, of_task),
            *WINDOW,
            "window",
            ("diverged",),
            [_window_row(arm, parts[arm.name, task]) for arm in arms],
        )
        for task, of_task in by_task.items()
        for label, arms in of_task.items()
    ]


def _window(arm: Arm) -> int:
    return arm.mechanism.window


def _window_row(arm: Arm, part: Part) -> SweepRow:
    return SweepRow(f"{_window(arm):,}", part, (filters.count(part.score.forks.diverged),))


def _noises(material: Material, parts: Parts) -> list[Sweep]:
    charts = []
    for task, groups in material.score.noises.items():
        for label, sweep in groups.items():
            signals = [name for name in SIGNALS if any(_signal(noise, name)[0] for noise in sweep.noises.values())]
            heads = ("rise", *(head for name in signals for head in (name, "rise")), *NOISE_HEADS)
            rows = [_noise_row(noise, parts[arm, task], signals) for arm, noise in sweep.noises.items()]
            charts.append(Sweep(sweep_name(task, label, groups), *NOISE, "sigma_a", heads, rows))
    return charts


def _noise_row(noise: Noise, part: Part, signals: Sequence[str]) -> SweepRow:
    rise = known(noise.rise)
    auc, interval = noise.residual_auc, known(noise.residual_auc_interval)
    figures = (
        "" if rise is None else filters.with_span(rise.mean, rise.student_t, part.digits),
        *(figure for name in signals for figure in _signal(noise, name)),
        filters.unsigned(noise.r_hold, part.digits),
        filters.rate(noise.helped),
        filters.rate(auc) if interval is None else filters.rate_with_span(auc, interval),
        filters.count(noise.episodes),
        filters.count(noise.diverged),
    )
    return SweepRow(f"{noise.action_noise:g}", part, figures)


def _signal(noise: Noise, name: str) -> tuple[str, str]:
    recorded = noise.signals.get(name)
    if recorded is None or isinstance(recorded.mean, Undefined):
        return "", ""
    digits = signal_digits(recorded.mean)
    rise = known(recorded.rise)
    shown = "" if rise is None else filters.with_span(rise.mean, rise.student_t, digits)
    return filters.unsigned(recorded.mean, digits), shown
