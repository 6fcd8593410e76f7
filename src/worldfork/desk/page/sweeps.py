"""Arms that differ in one number alone, on one axis: gradient steps, the window, the noise of actions."""

import dataclasses
from collections.abc import Mapping, Sequence

from worldfork.desk.page import filters
from worldfork.desk.page.material import Material
from worldfork.desk.page.strips import Axis
from worldfork.desk.page.view import Part, effect_axis
from worldfork.desk.scoring.alike import alike_but_for
from worldfork.desk.scoring.doses import Dose
from worldfork.desk.scoring.noises import Noise
from worldfork.desk.scoring.undefined import Undefined
from worldfork.desk.wording import (
    dose_means,
    known,
    noise_words,
    signal_digits,
    sweep_name,
    sweep_words,
)
from worldfork.registration import Arm

__all__ = ["Sweep", "SweepRow", "sweep_answers", "sweeps"]

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
