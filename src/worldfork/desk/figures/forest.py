"""Mean dR of every task, with its intervals, its checkpoints and its directions (paper, Table 1)."""

from typing import Literal

from matplotlib.axes import Axes

from worldfork.desk.figures.drawing import HELP, HURT, INK, SOFT, Drawing, literal, tidy
from worldfork.desk.scoring import Score, TaskScore
from worldfork.desk.wording import digits_for, known, number

__all__ = ["effects"]

COLOURS = {"harmful": HURT, "helpful": HELP}
ROW, GAP = 1.0, 0.3


def effects(score: Score, *, estimand: Literal["all_attempted", "retained"] = "all_attempted") -> Drawing:
    """A line per arm and task: mean, Student-t interval (thin), bootstrap interval (thick), dots for checkpoints;
    below it each direction. Tasks have axes of their own: their returns are not on one scale."""
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
            labels |= _draw(axes, score[arm, task], estimand, name=arm or task, top=top)
        axes.set_yticks(list(labels), list(labels.values()), fontsize=8)
        axes.invert_yaxis()
        axes.set_title(f"{literal(task)}, {estimand.replace('_', ' ')} forks", fontsize=9, loc="left")
    panels[-1].set_xlabel("mean dR (return per episode); line: Student-t 95%, thick: bootstrap 95%", fontsize=8)
    tidy(*panels)
    return figure


def _draw(axes: Axes, score: TaskScore, estimand: str, *, name: str, top: float) -> dict[float, str]:
    """One arm from `top` down; returns the labels of its lines by their height."""
    effect = score.effect.retained if estimand == "retained" else score.effect.all_attempted
    digits, colour = digits_for(effect), COLOURS.get(known(score.verdict) or "", INK)
    lines = [(name, known(effect.mean), effect.student_t, effect.bootstrap, 1.0)]
    for direction, intervals in effect.by_direction_intervals.items():
        of_direction = known(effect.by_direction[direction])
        lines.append((direction, of_direction, intervals.student_t, intervals.bootstrap, 0.55))
    labels = {}
    for index, (label, mean, student_t, bootstrap, weight) in enumerate(lines):
        row = top + index * ROW
        if thin := known(student_t):
            axes.plot(thin, [row, row], color=colour, lw=1.2 * weight, alpha=0.9)
        if thick := known(bootstrap):
            axes.plot(thick, [row, row], color=colour, lw=4 * weight, alpha=0.45)
        if mean is not None:
            axes.plot(mean, row, "o", color=colour, ms=6 * weight)
        labels[row] = f"{literal(label)}  {number(mean, digits)}"
    checkpoints = [value for figure in effect.by_checkpoint.values() if (value := known(figure)) is not None]
    axes.plot(checkpoints, [top + 0.35] * len(checkpoints), "o", color=SOFT, ms=2.5)
    return labels
