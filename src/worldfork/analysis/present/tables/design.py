"""Tables about the study itself: seeds and their gate, where the variance lies, what a budget buys, its arms."""

import math
from collections.abc import Iterable, Mapping

from worldfork.analysis.present.tables.table import TextTable
from worldfork.analysis.present.text import DASH, digits_for, known, number, rate, signal_digits, span, with_span
from worldfork.analysis.score.design import label_noise
from worldfork.analysis.score.records import Contrast, Estimands, MeanEstimate, PairedDifference, TaskScore
from worldfork.analysis.score.result import ArmScore
from worldfork.analysis.score.sweeps import DoseSweep, Noise, NoiseSweep
from worldfork.analysis.score.undefined import Figure, Undefined
from worldfork.ledger.pretraining import Seed

Tasks = Mapping[str, TaskScore]


def gate(seeds: Iterable[Seed]) -> TextTable:
    """Every seed that was trained; the rejected ones are part of the result."""
    return TextTable(
        "gate",
        "Every seed that was trained, and what became of it. The gate has episodes of its own; gate and clean "
        "return are with the planner of pretraining, the last return with the study's.",
        ("Task", "Seed", "gate return", "floor", "clean return", "as deployed", "fate"),
        tuple(
            (
                seed.task,
                str(seed.seed),
                f"{seed.gate:.1f}",
                DASH if seed.floor is None else f"{seed.floor:.1f}",
                f"{seed.clean_return:.1f}",
                DASH if seed.deployed is None else f"{seed.deployed:.1f}",
                seed.fate,
            )
            for seed in seeds
        ),
        keys=2,
    )


def variance(tasks: Tasks) -> TextTable:
    """Variance components of dR and the gain of common random numbers."""
    rows = []
    for task, score in tasks.items():
        design, gain = known(score.design), known(score.crn.gain)
        parts = design.components if design else score.variance_components
        point = design.components.decision_point if design else None
        told_apart = known(score.components)
        fork, episode = parts.fork, parts.episode
        draw: Figure | None = None
        if told_apart is not None and not isinstance(told_apart.draw, Undefined):
            fork, draw, episode = (
                told_apart.fork,
                told_apart.draw,
                _sum(told_apart.episode, told_apart.draw_episode),
            )
        cells = [_variance(value) for value in (parts.checkpoint, point, fork, draw, episode)]
        rows.append((task, *cells, DASH if gain is None else f"{gain:.2f}"))
    return TextTable(
        "variance",
        "Variance of dR (standard deviation), all attempted forks. What decision points have in common over "
        "checkpoints is part of the design, not of the error. With one draw of each update, draws are part of the "
        "forks. The last column is the factor by which m would have to grow without common random numbers.",
        (
            "Task",
            "between checkpoints",
            "between decision points",
            "between forks otherwise",
            "between draws of an update",
            "between paired episodes of a fork",
            "common random numbers",
        ),
        tuple(rows),
    )


def draws(tasks: Tasks) -> TextTable:
    """How much of a label is the draw of its update; of studies with several draws alone."""
    rows = []
    for task, score in tasks.items():
        parts, drawn = known(score.components), score.evidence.forks.outcomes.drawn
        if parts is None or drawn is None or isinstance(parts.draw, Undefined):
            continue
        _, count, episodes = drawn.shape
        labels = [_deviation(label_noise(parts, draws=some, episodes=episodes)) for some in (1, count)]
        interval = parts.draw_interval
        between = DASH if isinstance(interval, Undefined) else " to ".join(_deviation(end) for end in interval)
        both = f"{rate(parts.draws_of_both_signs)} of {len(drawn)}"
        rows.append((task, str(count), _deviation(parts.draw), between, both, str(episodes), *labels))
    return TextTable(
        "draws",
        "Draws of one update's minibatches, everything else the same: the standard deviation between them beyond "
        "what episodes explain, with its Student-t 95% interval over checkpoints (of the variance; none is a "
        "variance of 0 or below); the share of forks of which one draw helped and another hurt; and the standard "
        "error of one fork's label, by draws and episodes, with one draw and with all of them.",
        (
            *("Task", "draws", "between draws", "95% interval", "draws of both signs", "m"),
            *("error of a label, one draw", "all draws"),
        ),
        tuple(rows),
    )


def budget(tasks: Tasks) -> TextTable:
    """What more episodes buy, by what they are spent on."""
    rows = []
    for task, score in tasks.items():
        design, digits = known(score.design), digits_for(score.effect.all_attempted) + 1
        if design is None:
            continue
        size = f"{design.checkpoints:g} x {design.forks:g} x {design.episodes:g}"
        rows.append((task, f"as it is: {size}", *[_error(design.standard_error, digits)] * 3))
        for times, errors in design.standard_error_at.items():
            label = "without limit" if times == "unlimited" else f"{times} times"
            rows.append((task, label, *(_error(error, digits) for error in errors.values())))
    return TextTable(
        "budget",
        "Standard error of the mean dR, all attempted forks, if the paired episodes (checkpoints x forks x m) "
        "become so many and all of the increase is spent on one of the three.",
        ("Task", "Paired episodes", "on checkpoints", "on forks", "on m"),
        tuple(rows),
        keys=2,
    )


def arms(contrasts: Mapping[str, Mapping[str, Estimands[Contrast | Undefined]]]) -> TextTable:
    """Every pair of arms that was compared, on the cells and forks that both have."""
    rows = []
    for pair, tasks in contrasts.items():
        for task, sides in tasks.items():
            for estimand, contrast in sides.items():
                if isinstance(contrast, Undefined):
                    continue
                digits, forks = digits_for(contrast), contrast.paired
                rows.append(
                    (
                        pair,
                        task,
                        estimand.replace("_", " "),
                        number(contrast.first, digits),
                        number(contrast.second, digits),
                        with_span(contrast.mean, contrast.bootstrap, digits),
                        span(contrast.student_t, digits),
                        f"{rate(contrast.p_student_t)}, {rate(contrast.p_sign_flip)}",
                        str(forks.forks),
                        number(forks.pearson, 3),
                        number(forks.spearman, 3),
                        rate(forks.same_sign),
                    )
                )
    return TextTable(
        "arms",
        "Arms compared: mean dR of each and their difference on the cells both have, with the p of Student-t and "
        "of sign flips; correlations and agreement in sign over the forks both have.",
        (
            *("Arms", "Task", "Forks", "first", "second", "difference, bootstrap", "Student-t", "p, t and signs"),
            *("paired forks", "Pearson", "Spearman", "same sign"),
        ),
        tuple(rows),
        keys=3,
    )


def _variance(value: Figure | None) -> str:
    if value is None or isinstance(value, Undefined):
        return DASH
    return f"{value:,.{0 if abs(value) >= 100 else 2}f} ({f'{math.sqrt(value):.3g}' if value >= 0 else 'none'})"


def _deviation(variance: Figure) -> str:
    if isinstance(variance, Undefined):
        return DASH
    return f"{math.sqrt(variance):.3g}" if variance > 0 else "none"


def _sum(first: Figure, second: Figure) -> Figure:
    """Of two variances; undefined where either is."""
    if isinstance(first, Undefined):
        return first
    return second if isinstance(second, Undefined) else first + second


def _error(value: Figure, digits: int) -> str:
    return DASH if isinstance(value, Undefined) else f"{value:.{digits}f}"


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


def _difference(contrast: PairedDifference | Undefined) -> tuple[str, str]:
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
