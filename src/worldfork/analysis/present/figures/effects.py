"""Figures of what updating was worth: by arm, fork by fork, and against what the frozen model returned."""

from collections.abc import Sequence
from typing import Final, Literal

from matplotlib.axes import Axes

from worldfork.analysis.present.figures.drawing import (
    HELP,
    HURT,
    INK,
    SOFT,
    Drawing,
    chosen,
    draw_forks,
    literal,
    pick,
    tidy,
)
from worldfork.analysis.present.text.formatting import defined, digits_for, number, unsigned
from worldfork.analysis.score import Score, TaskScore
from worldfork.analysis.score.contraction import Bin
from worldfork.analysis.score.undefined import Undefined

SPREAD: Final = 0.32  # half the height over which the forks of an arm lie, in order of cell and decision point
COLOURS: Final = {"harmful": HURT, "helpful": HELP}
ROW, GAP = 1.0, 0.3
PER_EPISODE: Final = "return per episode"


def arms(score: Score, *, task: str | None = None) -> Drawing:
    """Return a row per arm and a mark per fork: triangles up helped, triangles down hurt, circles changed nothing.

    The bar is the mean over checkpoints. A fork lies at the same height in every row. Without `task` the first is
    drawn.
    """
    tasks = {name: arm for arm in score.arms.values() for name in arm.tasks}
    task = pick(tasks, task, "task")
    rows = {name: arm.tasks[task] for name, arm in score.arms.items() if task in arm.tasks}
    figure = Drawing(figsize=(7.6, 0.8 + 0.55 * len(rows)), layout="constrained")
    axes = figure.subplots()
    axes.axvline(0, color=SOFT, lw=0.8)
    labels = []
    for row, (arm, figures) in enumerate(rows.items()):
        delta, effect = figures.evidence.forks.delta, figures.effect.all_attempted
        step = 2 * SPREAD / max(1, len(delta) - 1)
        heights = [row - SPREAD + step * place for place in range(len(delta))]
        draw_forks(axes, delta, heights, delta=delta)
        if (mean := defined(effect.mean)) is not None:
            axes.plot([mean, mean], [row - 0.4, row + 0.4], color=INK, lw=2)
        labels.append(f"{literal(score.label(arm) or task)}  {number(mean, digits_for(effect))}")
    axes.set_yticks(range(len(rows)), labels)
    axes.invert_yaxis()
    axes.set_xlabel(f"dR of each fork ({PER_EPISODE}); bar: mean over checkpoints", fontsize=8)
    tidy(axes)
    return figure


def effects(score: Score, *, estimand: Literal["all_attempted", "retained"] = "all_attempted") -> Drawing:
    """Return a line per arm and task: mean, Student-t interval (thin), bootstrap (thick), dots for checkpoints.

    Below it stands each direction. Tasks have axes of their own: their returns are not on one scale.
    """
    tasks = list(dict.fromkeys(task for arm in score.arms.values() for task in arm.tasks))
    arms = {task: [arm for arm in score.arms if task in score.arms[arm].tasks] for task in tasks}
    heights = [1 + 3 * len(arms[task]) for task in tasks]
    figure = Drawing(figsize=(7.6, 0.9 + 0.27 * sum(heights)), layout="constrained")
    panels = figure.subplots(len(tasks), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, task in zip(panels, tasks, strict=True):
        axes.axvline(0, color=SOFT, lw=0.8)
        labels: dict[float, str] = {}
        for arm in arms[task]:
            top = max(labels, default=-ROW - GAP) + ROW + GAP
            labels |= _draw(axes, score[arm, task], estimand, name=score.label(arm) or task, top=top)
        axes.set_yticks(list(labels), list(labels.values()), fontsize=8)
        axes.invert_yaxis()
        axes.set_title(f"{literal(task)}, {estimand.replace('_', ' ')} forks", fontsize=9, loc="left")
    panels[-1].set_xlabel(f"mean dR ({PER_EPISODE}); line: Student-t 95%, thick: bootstrap 95%", fontsize=8)
    tidy(*panels)
    return figure


def _draw(axes: Axes, score: TaskScore, estimand: str, *, name: str, top: float) -> dict[float, str]:
    """Draw one arm from `top` down; return the labels of its lines by their height."""
    effect = score.effect[estimand]
    digits, colour = digits_for(effect), COLOURS.get(defined(score.verdict) or "", INK)
    lines = [(name, defined(effect.mean), effect.student_t, effect.bootstrap, 1.0)]
    for direction, intervals in effect.by_direction_intervals.items():
        of_direction = defined(effect.by_direction[direction])
        lines.append((direction, of_direction, intervals.student_t, intervals.bootstrap, 0.55))
    labels = {}
    for index, (label, mean, student_t, bootstrap, weight) in enumerate(lines):
        row = top + index * ROW
        if thin := defined(student_t):
            axes.plot(thin, [row, row], color=colour, lw=1.2 * weight, alpha=0.9)
        if thick := defined(bootstrap):
            axes.plot(thick, [row, row], color=colour, lw=4 * weight, alpha=0.45)
        if mean is not None:
            axes.plot(mean, row, "o", color=colour, ms=6 * weight)
        labels[row] = f"{literal(label)}  {number(mean, digits)}"
    checkpoints = [value for figure in effect.by_checkpoint.values() if (value := defined(figure)) is not None]
    axes.plot(checkpoints, [top + 0.35] * len(checkpoints), "o", color=SOFT, ms=2.5)
    return labels


def contraction(score: Score, *, arm: str | None = None, task: str | None = None) -> Drawing:
    """Return the returns of both branches with the line through them, and mean dR by what HOLD returned.

    Without `arm` the first is drawn; without `task` every task of it.
    """
    _, tasks = chosen(score, arm=arm, task=task)
    figure = Drawing(figsize=(8.4, 3.6 * len(tasks)), layout="constrained")
    panels = figure.subplots(len(tasks), 2, squeeze=False)
    for (left, right), (name, figures) in zip(panels, tasks.items(), strict=True):
        digits = digits_for(figures.effect.all_attempted)
        _returns(left, figures, digits=digits, prefix=f"{literal(name)}: " if len(tasks) > 1 else "")
        _bins(right, defined(figures.contraction.bins) or (), digits=digits)
    tidy(*panels.flat)
    return figure


def _returns(axes: Axes, score: TaskScore, *, digits: int, prefix: str) -> None:
    fit = score.contraction
    slope, intercept = defined(fit.slope), defined(fit.intercept)
    kept = score.evidence.forks.take(~score.evidence.divergence.dropped)
    hold = kept.outcomes.r_hold
    draw_forks(axes, hold, kept.outcomes.r_update, delta=kept.delta)
    if len(hold):
        ends = [float(hold.min()), float(hold.max())]
        axes.plot(ends, ends, color=SOFT, ls=":", lw=1.2, label="identity")
        if slope is not None and intercept is not None:
            axes.plot(ends, [intercept + slope * end for end in ends], color=INK, lw=1.5)
    crossing = "undefined" if isinstance(fit.crossing, Undefined) else unsigned(fit.crossing, digits)
    about = f"slope {'undefined' if slope is None else f'{slope:.2f}'}, crossing {crossing}"
    axes.set_title(f"(a) {prefix}n = {len(hold)}; {about}", fontsize=9, loc="left")
    axes.set_xlabel(f"HOLD ({PER_EPISODE})", fontsize=8)
    axes.set_ylabel(f"UPDATE ({PER_EPISODE})", fontsize=8)


def _bins(axes: Axes, bins: Sequence[Bin], *, digits: int) -> None:
    axes.axhline(0, color=SOFT, lw=0.8)
    for place, bar in enumerate(bins):
        if isinstance(bar.mean, Undefined):
            axes.text(place, 0, "undefined", ha="center", va="bottom", fontsize=7, style="italic", color=SOFT)
            continue
        colour = HELP if bar.mean > 0 else HURT
        axes.bar(place, bar.mean, 0.66, yerr=defined(bar.standard_error) or 0.0, color=colour, capsize=2)
    axes.set_xticks(range(len(bins)), [_bin_name(bar, digits) for bar in bins], fontsize=7)
    axes.set_xlabel(f"HOLD ({PER_EPISODE})", fontsize=8)
    axes.set_ylabel(f"mean dR ({PER_EPISODE})", fontsize=8)
    axes.set_title("(b) bars: standard errors", fontsize=9, loc="left")


def _bin_name(bar: Bin, digits: int) -> str:
    low, high = unsigned(bar.low, digits), unsigned(bar.high, digits)
    where = f"< {high}" if bar.low is None else f"≥ {low}" if bar.high is None else f"{low} to\n{high}"
    return f"{where}\nn={bar.forks}"
