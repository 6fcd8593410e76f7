"""Tables of studies whose arms vary one setting: the dose of an update, or the noise of the stream."""

from collections.abc import Iterable, Mapping

from worldfork.desk.scoring.doses import DoseSweep
from worldfork.desk.scoring.noises import Noise, NoiseSweep
from worldfork.desk.scoring.records import Contrast, MeanEstimate
from worldfork.desk.scoring.result import ArmScore
from worldfork.desk.scoring.undefined import Figure, Undefined
from worldfork.desk.tables.text_table import TextTable
from worldfork.desk.wording import DASH, digits_for, rate, signal_digits, with_span

__all__ = ["doses", "noises"]


def doses(sweeps: Mapping[str, Mapping[str, DoseSweep]], arms: Mapping[str, ArmScore]) -> TextTable:
    """One row per task, group of arms and dose; without rows where no arms differ in their dose."""
    rows, missing = [], []
    for task, groups in sweeps.items():
        for label, sweep in groups.items():
            missing += _missing(task, sweep)
            for arm, dose in sweep.doses.items():
                digits, retained = digits_for(dose), arms[arm].tasks[task].effect.retained
                per_step, always = dose.per_step, dose.always
                rows.append(
                    (
                        *(task, dose.amount, label),
                        _plain(dose.replay_ratio, 2),
                        f"{dose.diverged} of {dose.forks}",
                        with_span(dose.mean, dose.student_t, digits),
                        with_span(retained.mean, retained.bootstrap, digits),
                        with_span(per_step.mean, per_step.student_t, digits + 2),
                        with_span(always.mean, always.student_t, digits - 1),
                        DASH if isinstance(dose.rank, Undefined) else str(dose.rank),
                        *_ends(arm, sweep),
                    )
                )
    return TextTable(
        "doses",
        "Fixed schedules: always updating with N gradient steps, against never updating. Replay ratio: N over the "
        "control steps between two decision points. Mean dR of a fork, all attempted; the same divided by N; and "
        "the total of a deployment that updates at every decision point, each time from the frozen model: "
        "Student-t 95% intervals over checkpoints. Rank: of the means, 1 the highest; an order is described, not "
        "tested. Largest less smallest dose: the contrast of these two arms, p of Student-t and of sign flips, and "
        f"its grade over all such contrasts of the study.{_not_scored(missing)}",
        (
            *("Task", "N", "Arms", "replay ratio", "diverged", "per fork, Student-t", "retained, bootstrap"),
            *("per gradient step, Student-t", "always, per deployment, Student-t", "rank"),
            *("largest less smallest, Student-t", "p, t and signs", "grade"),
        ),
        tuple(rows),
        keys=2,
    )


def noises(sweeps: Mapping[str, Mapping[str, NoiseSweep]]) -> TextTable:
    """One row per task, group of arms and noise; without rows where no arms differ in their noise."""
    rows, missing = [], []
    for task, groups in sweeps.items():
        for label, sweep in groups.items():
            missing += _missing(task, sweep)
            for noise in sweep.noises.values():
                digits = digits_for(noise)
                rows.append(
                    (
                        *(task, f"{noise.action_noise:g}", label, str(noise.episodes)),
                        f"{noise.diverged} of {noise.forks}",
                        *_signal(noise, "residual"),
                        *_signal(noise, "kl"),
                        _plain(noise.r_hold, digits),
                        with_span(noise.mean, noise.student_t, digits),
                        *_difference(noise.rise),
                        rate(noise.helped),
                        _auc(noise),
                    )
                )
    return TextTable(
        "noises",
        "Noise of standard deviation sigma_a on every action, in streams and in both branches, with m episodes: "
        "signals before the fork, frozen return and mean dR of all attempted forks, and how far each lies above "
        "the arm with the least noise. Student-t 95% intervals over checkpoints; of an AUC the bootstrap, or the "
        "range of fewer than three checkpoints. Arms "
        "share checkpoints, directions, decision points and drift levels. Streams, windows and HOLD branches are "
        "each noise's own: differences are paired by checkpoint, as means of cells, and not fork by fork."
        f"{_not_scored(missing)}",
        (
            *("Task", "sigma_a", "Arms", "m", "diverged", "residual", "its rise, Student-t", "kl"),
            *("its rise, Student-t", "r_hold", "mean dR, Student-t", "its rise, Student-t", "p, t and signs"),
            *("helped", "AUC of residual"),
        ),
        tuple(rows),
        keys=2,
    )


def _ends(arm: str, sweep: DoseSweep) -> tuple[str, str, str]:
    """Beside the largest dose, what it is worth more than the smallest."""
    if arm != sweep.largest:
        return "", "", ""
    graded = DASH if isinstance(sweep.grade, Undefined) else sweep.grade
    return (*_difference(sweep.largest_less_smallest), graded)


def _difference(contrast: Contrast | Undefined) -> tuple[str, str]:
    """With its interval, and both p."""
    if isinstance(contrast, Undefined):
        return DASH, DASH
    both = f"{rate(contrast.p_student_t)}, {rate(contrast.p_sign_flip)}"
    return with_span(contrast.mean, contrast.student_t, digits_for(contrast)), both


def _signal(noise: Noise, name: str) -> tuple[str, str]:
    """A signal's mean and how far it lies above that of the least noise: signals have scales of their own."""
    recorded = noise.signals.get(name)
    if recorded is None or isinstance(recorded.mean, Undefined):
        return DASH, DASH
    digits = signal_digits(recorded.mean)
    return f"{recorded.mean:.{digits}f}", _rise(recorded.rise, digits)


def _rise(rise: MeanEstimate | Undefined, digits: int) -> str:
    return DASH if isinstance(rise, Undefined) else with_span(rise.mean, rise.student_t, digits)


def _auc(noise: Noise) -> str:
    if isinstance(noise.residual_auc, Undefined):
        return DASH
    interval = noise.residual_auc_interval
    ends = "" if isinstance(interval, Undefined) else f" [{rate(interval.low)}, {rate(interval.high)}]"
    return f"{rate(noise.residual_auc)}{ends}"


def _missing(task: str, sweep: DoseSweep | NoiseSweep) -> list[str]:
    return [f"{arm} on {task}" for arm in sweep.missing]


def _not_scored(missing: Iterable[str]) -> str:
    named = ", ".join(missing)
    return f" Registered and not scored here: {named}." if named else ""


def _plain(value: Figure, digits: int) -> str:
    return DASH if isinstance(value, Undefined) else f"{value:,.{digits}f}"
