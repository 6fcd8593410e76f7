"""Tables about the study itself: seeds and their gate, where the variance lies, what a budget buys, its arms."""

import math
from collections.abc import Iterable, Mapping

from worldfork.desk.scoring.budget import label_noise
from worldfork.desk.scoring.records import Contrast, Estimands, TaskScore
from worldfork.desk.scoring.undefined import Figure, Undefined
from worldfork.desk.tables.text_table import TextTable
from worldfork.desk.wording import DASH, digits_for, known, number, rate, span, with_span
from worldfork.ledger.pretraining import Seed

__all__ = ["arms", "budget", "draws", "gate", "variance"]

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
