"""Tables about the study itself: seeds and their gate, where the variance lies, what a budget buys, its arms."""

import math
from collections.abc import Iterable, Mapping, Sequence

from worldfork.analysis.present.strips import Strip
from worldfork.analysis.present.table import Cells, Column, Row, Table
from worldfork.analysis.present.tables.effects import KEYS, Scores
from worldfork.analysis.present.text.arms import arms_of
from worldfork.analysis.present.text.formatting import (
    DASH,
    defined,
    digits_for,
    estimate,
    graded,
    number,
    rate,
    signal_digits,
    span,
    unsigned,
    with_span,
    word,
)
from worldfork.analysis.present.text.stopping import FIXED_NUMBER, RULE_INTERVAL, graded_difference
from worldfork.analysis.present.text.sweeps import windows as swept_windows
from worldfork.analysis.score import Score
from worldfork.analysis.score.contrasts import Contrast, PairedDifference
from worldfork.analysis.score.result import ArmScore
from worldfork.analysis.score.sweeps import DoseSweep, Noise, NoiseSweep
from worldfork.analysis.score.undefined import Estimand, Figure, Interval, Undefined
from worldfork.analysis.score.variance import label_noise
from worldfork.ledger.pretraining import Seed


def gate(seeds: Iterable[Seed]) -> Table:
    """Return every seed that was trained; the rejected ones are part of the result."""
    rows = []
    for seed in seeds:
        returns = map(unsigned, (seed.gate, seed.floor, seed.clean_return, seed.deployed))
        rows.append((seed.task, str(seed.seed), *returns, seed.fate))
    return Table(
        "gate",
        "Every seed that was trained, and what became of it. The gate has episodes of its own; gate and clean "
        "return are with the planner of pretraining, the last return with the study's.",
        ("Task", "Seed", "gate return", "floor", "clean return", "as deployed", "fate"),
        rows,
        keys=2,
    )


def variance(scores: Scores) -> Table:
    """Return the variance components of dR and the gain of common random numbers."""
    rows = []
    for key, score in scores.items():
        design, components = defined(score.design), defined(score.components)
        parts = design.components if design else score.variance_components
        point = design.components.decision_point if design else None
        fork, episode = parts.fork, parts.episode
        draw: Figure | None = None
        if components is not None and not isinstance(components.draw, Undefined):
            fork, draw, episode = components.fork, components.draw, components.episode
            if not isinstance(episode, Undefined):
                of_draws = components.draw_episode
                episode = of_draws if isinstance(of_draws, Undefined) else episode + of_draws
        cells = [_variance(value) for value in (parts.checkpoint, point, fork, draw, episode)]
        rows.append((*key, *cells, unsigned(score.crn.gain, 2)))
    return Table(
        "variance",
        "Variance of dR (standard deviation), all attempted forks. What decision points have in common over "
        "checkpoints is part of the design, not of the error. With one draw of each update, draws are part of the "
        "forks. The last column is the factor by which m would have to grow without common random numbers.",
        (
            *(*KEYS, "between checkpoints", "between decision points", "between forks otherwise"),
            *("between draws of an update", "between paired episodes of a fork", "common random numbers"),
        ),
        rows,
        keys=2,
    )


def _variance(value: Figure | None) -> str:
    if value is None or isinstance(value, Undefined):
        return DASH
    return f"{value:,.{0 if abs(value) >= 100 else 2}f} ({f'{math.sqrt(value):.3g}' if value >= 0 else 'none'})"


def _deviation(variance: Figure) -> str:
    if isinstance(variance, Undefined):
        return DASH
    return f"{math.sqrt(variance):.3g}" if variance > 0 else "none"


def draws(scores: Scores) -> Table:
    """Return how much of a label is the draw of its update; of studies with several draws alone."""
    rows = []
    for key, score in scores.items():
        parts, drawn = defined(score.components), score.evidence.forks.outcomes.drawn
        if parts is None or drawn is None or isinstance(parts.draw, Undefined):
            continue
        _, count, episodes = drawn.shape
        labels = [_deviation(label_noise(parts, draws=some, episodes=episodes)) for some in (1, count)]
        interval = defined(parts.draw_interval)
        between = " to ".join(_deviation(end) for end in interval) if interval else DASH
        both = f"{rate(parts.draws_of_both_signs)} of {len(drawn)}"
        rows.append((*key, str(count), _deviation(parts.draw), between, both, str(episodes), *labels))
    return Table(
        "draws",
        "Draws of one update's minibatches, everything else the same: the standard deviation between them beyond "
        "what episodes explain, with its Student-t 95% interval over checkpoints (of the variance; none is a "
        "variance of 0 or below); the share of forks of which one draw helped and another hurt; and the standard "
        "error of one fork's label, by draws and episodes, with one draw and with all of them.",
        (
            *(*KEYS, "draws", "between draws", "95% interval", "draws of both signs", "m"),
            *("error of a label, one draw", "all draws"),
        ),
        rows,
        keys=2,
    )


def budget(scores: Scores) -> Table:
    """Return what more episodes buy, by what they are spent on."""
    rows: list[tuple[str, ...]] = []
    for key, score in scores.items():
        design, digits = defined(score.design), digits_for(score.effect.all_attempted) + 1
        if design is None:
            continue
        size = f"{design.checkpoints:g} x {design.forks:g} x {design.episodes:g}"
        rows.append((*key, f"as it is: {size}", *[unsigned(design.standard_error, digits)] * 3))
        for times, errors in design.standard_error_at.items():
            label = "without limit" if times == "unlimited" else f"{times} times"
            rows.append((*key, label, *(unsigned(error, digits) for error in errors.values())))
    return Table(
        "budget",
        "Standard error of the mean dR, all attempted forks, if the paired episodes (checkpoints x forks x m) "
        "become so many and all of the increase is spent on one of the three.",
        (*KEYS, "Paired episodes", "on checkpoints", "on forks", "on m"),
        rows,
        keys=3,
    )


def arms(score: Score, estimands: Sequence[Estimand] = ("all_attempted", "retained")) -> Table:
    """Return every pair of arms that was compared, on the cells and forks that both have."""
    tasks = [task for arm in score.arms.values() for task in arm.tasks.values()]
    in_per_cent = all(task.scale.frozen > 0 for task in tasks)
    stopped = score.stopping is not None
    rows = []
    for pair, of_tasks in score.contrasts.items():
        for task, both in of_tasks.items():
            frozen = score.arms[pair.partition(" - ")[2]].tasks[task].scale.frozen
            for estimand in estimands:
                if isinstance(contrast := both[estimand], Undefined):
                    continue
                judged, digits, paired = graded_difference(contrast), digits_for(contrast), contrast.paired
                by_rule = (RULE_INTERVAL, judged.words if judged.by_rule else DASH)
                cells: Cells = [
                    ("first", number(contrast.first, digits)),
                    ("second", number(contrast.second, digits)),
                    ("difference, bootstrap", with_span(contrast.mean, contrast.bootstrap, digits)),
                    ("Student-t", span(contrast.student_t, digits)),
                    (Column("p, t and signs", optional=True), _both_p(contrast)),
                    *([by_rule] if stopped else []),
                    ("grade", graded(contrast.grade)),
                    (Column("paired forks", optional=True), str(paired.forks)),
                    (Column("Pearson", optional=True), number(paired.pearson, 3)),
                    (Column("Spearman", optional=True), number(paired.spearman, 3)),
                    (Column("same sign", optional=True), rate(paired.same_sign)),
                ]
                key = (" - ".join(arms_of(score, pair)), task, estimand.replace("_", " "))
                rows.append(Row(key, cells, _difference_strip(contrast, 100 / frozen if in_per_cent else 1.0)))
    line = "the interval that its grade rests on, or else Student-t 95%" if stopped else "Student-t 95%"
    return Table.of(
        "arms",
        "Arms compared: mean dR of each and their difference on the cells both have, with the p of Student-t and "
        "of sign flips; correlations and agreement in sign over the forks both have. Line: the difference"
        f"{', in per cent of the frozen return' if in_per_cent else ''}, with {line}; dots: checkpoints."
        f"{f' {FIXED_NUMBER}' if stopped else ''}",
        ("Arms", "Task", "Forks"),
        rows,
    )


def _difference_strip(contrast: Contrast, times: float) -> Strip:
    """Return the chart of a difference, `times` as large, as it was graded."""
    judged = graded_difference(contrast)
    mean, ends = defined(judged.mean), defined(judged.interval)
    return Strip(
        mean=judged.mean if mean is None else times * mean,
        student_t=None if ends is None else Interval(times * ends.low, times * ends.high),
        checkpoints=[times * dot for dot in contrast.by_checkpoint.values() if not isinstance(dot, Undefined)],
    )


def _both_p(contrast: PairedDifference) -> str:
    return f"{rate(contrast.p_student_t)}, {rate(contrast.p_sign_flip)}"


def doses(sweeps: Mapping[str, Mapping[str, DoseSweep]], arms: Mapping[str, ArmScore]) -> Table:
    """Return a row per task, group of arms and dose; without rows where no arms differ in their dose."""
    rows, strips = [], []
    for task, groups in sweeps.items():
        for label, sweep in groups.items():
            for arm, dose in sweep.doses.items():
                strips.append(Strip(mean=dose.mean, student_t=dose.student_t))
                digits, retained = digits_for(dose), arms[arm].tasks[task].effect.retained
                rows.append(
                    (
                        *(task, dose.amount, label),
                        unsigned(dose.replay_ratio, 2),
                        f"{dose.diverged} of {dose.forks}",
                        estimate(dose, digits),
                        with_span(retained.mean, retained.bootstrap, digits),
                        estimate(dose.per_step, digits + 2),
                        estimate(dose.always, digits - 1),
                        word(dose.rank),
                        *(_difference(sweep.largest_less_smallest) if arm == sweep.largest else ("", "")),
                        graded(sweep.grade) if arm == sweep.largest else "",
                    )
                )
    return Table(
        "doses",
        "Fixed schedules: always updating with N gradient steps, against never updating. Replay ratio: N over the "
        "control steps between two decision points. Mean dR of a fork, all attempted; the same divided by N; and "
        "the total of a deployment that updates at every decision point, each time from the frozen model: "
        "Student-t 95% intervals over checkpoints. Rank: of the means, 1 the highest; an order is described, not "
        "tested. Largest less smallest dose: the contrast of these two arms, p of Student-t and of sign flips, and "
        f"its grade over all such contrasts of the study.{_not_scored(sweeps)}",
        (
            *("Task", "N", "Arms", Column("replay ratio", optional=True), "diverged", "per fork, Student-t"),
            Column("retained, bootstrap", optional=True),
            Column("per gradient step, Student-t", optional=True),
            Column("always, per deployment, Student-t", optional=True),
            *("rank", "largest less smallest, Student-t", Column("p, t and signs", optional=True), "grade"),
        ),
        rows,
        keys=2,
        strips=strips,
    )


def windows(score: Score) -> Table:
    """Return a row per task, group of arms and window; without rows where no three arms differ in it alone."""
    rows = []
    for task, groups in swept_windows(score).items():
        for label, swept in groups.items():
            for window, effect in swept:
                strip = Strip(mean=effect.mean, student_t=effect.student_t, bootstrap=effect.bootstrap)
                rows.append(Row((task, window, label), [("mean dR, Student-t", estimate(effect))], strip))
    caption = "The window of an update, the last transitions that it may see: mean dR of all attempted forks."
    return Table.of("windows", caption, ("Task", "Window", "Arms"), rows)


def noises(sweeps: Mapping[str, Mapping[str, NoiseSweep]]) -> Table:
    """Return a row per task, group of arms and noise; without rows where no arms differ in their noise."""
    rows = []
    for task, groups in sweeps.items():
        for label, sweep in groups.items():
            for noise in sweep.noises.values():
                digits = digits_for(noise)
                (residual, its_rise), (kl, kl_rise) = _signal(noise, "residual"), _signal(noise, "kl")
                rise, both_p = _difference(noise.rise)
                cells: Cells = [
                    (Column("m", optional=True), str(noise.episodes)),
                    (Column("diverged", optional=True), f"{noise.diverged} of {noise.forks}"),
                    ("residual", residual),
                    (Column("its rise, Student-t", optional=True), its_rise),
                    ("kl", kl),
                    (Column("its rise, Student-t", optional=True), kl_rise),
                    (Column("r_hold", optional=True), unsigned(noise.r_hold, digits)),
                    ("mean dR, Student-t", estimate(noise, digits)),
                    ("its rise, Student-t", rise),
                    (Column("p, t and signs", optional=True), both_p),
                    ("helped", rate(noise.helped)),
                    ("AUC of residual", _auc(noise)),
                ]
                strip = Strip(mean=noise.mean, student_t=noise.student_t)
                rows.append(Row((task, f"{noise.action_noise:g}", label), cells, strip))
    return Table.of(
        "noises",
        "Noise of standard deviation sigma_a on every action, in streams and in both branches, with m episodes: "
        "signals before the fork, frozen return and mean dR of all attempted forks, and how far each lies above "
        "the arm with the least noise. Student-t 95% intervals over checkpoints; of an AUC the bootstrap, or the "
        "range of fewer than three checkpoints. Arms "
        "share checkpoints, directions, decision points and drift levels. Streams, windows and HOLD branches are "
        "each noise's own: differences are paired by checkpoint, as means of cells, and not fork by fork."
        f"{_not_scored(sweeps)}",
        ("Task", "sigma_a", "Arms"),
        rows,
    )


def _difference(contrast: PairedDifference | Undefined) -> tuple[str, str]:
    """Return a difference with its interval, and both p."""
    return (DASH, DASH) if isinstance(contrast, Undefined) else (estimate(contrast), _both_p(contrast))


def _signal(noise: Noise, name: str) -> tuple[str, str]:
    """Return a signal's mean, and how far it lies above that of the least noise."""
    recorded = noise.signals.get(name)
    if recorded is None or isinstance(recorded.mean, Undefined):
        return DASH, DASH
    digits = signal_digits(recorded.mean)
    return f"{recorded.mean:.{digits}f}", estimate(recorded.rise, digits)


def _auc(noise: Noise) -> str:
    interval = defined(noise.residual_auc_interval)
    ends = f" [{rate(interval.low)}, {rate(interval.high)}]" if interval else ""
    return rate(noise.residual_auc) + ends


def _not_scored(sweeps: Mapping[str, Mapping[str, DoseSweep]] | Mapping[str, Mapping[str, NoiseSweep]]) -> str:
    missing = [
        f"{arm} on {task}" for task, groups in sweeps.items() for sweep in groups.values() for arm in sweep.missing
    ]
    return f" Registered and not scored here: {', '.join(missing)}." if missing else ""
