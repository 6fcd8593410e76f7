"""Mean dR of every task, with its intervals, its checkpoints and its directions (paper, Table 1)."""

from typing import Any

from worldfork.desk.figures.drawing import HELP, HURT, INK, SOFT, Drawing, literal, tidy
from worldfork.desk.scoring import Score
from worldfork.desk.wording import digits_for, number

__all__ = ["effects"]

COLOURS = {"harmful": HURT, "helpful": HELP}


def effects(score: Score, *, estimand: str = "all_attempted") -> Drawing:
    """A line per arm and task: mean, Student-t interval (thin), bootstrap interval (thick), dots for checkpoints;
    below it each direction. Tasks have axes of their own: their returns are not on one scale."""
    tasks = list(dict.fromkeys(task for arm in score.arms.values() for task in arm.tasks))
    arms = {task: [arm for arm in score.arms if task in score.arms[arm].tasks] for task in tasks}
    heights = [1 + 3 * len(arms[task]) for task in tasks]
    figure = Drawing(figsize=(7.6, 0.9 + 0.27 * sum(heights)), layout="constrained")
    panels = figure.subplots(len(tasks), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, task in zip(panels, tasks, strict=True):
        axes.axvline(0, color=SOFT, lw=0.8)
        labels: list[tuple[float, str]] = []
        row = 0.0
        for arm in arms[task]:
            figures: dict[str, Any] = score[arm, task].to_json()
            effect = figures["effect"][estimand]
            digits = digits_for(effect)
            colour = COLOURS.get(figures["verdict"], INK)
            lines = [(arm or task, effect, 1.0)] + [
                (direction, {"mean": mean, **effect["by_direction_intervals"][direction]}, 0.55)
                for direction, mean in effect["by_direction"].items()
            ]
            for name, one, weight in lines:
                if one["student_t"]:
                    axes.plot(one["student_t"], [row, row], color=colour, lw=1.2 * weight, alpha=0.9)
                if one["bootstrap"]:
                    axes.plot(one["bootstrap"], [row, row], color=colour, lw=4 * weight, alpha=0.45)
                if one["mean"] is not None:
                    axes.plot(one["mean"], row, "o", color=colour, ms=6 * weight)
                labels.append((row, f"{literal(name)}  {number(one['mean'], digits)}"))
                row += 1.0
            means = [mean for mean in effect["by_checkpoint"].values() if mean is not None]
            axes.plot(means, [row - len(lines) + 0.35] * len(means), "o", color=SOFT, ms=2.5)
            row += 0.3
        axes.set_yticks([place for place, _ in labels], [label for _, label in labels], fontsize=8)
        axes.invert_yaxis()
        axes.set_title(f"{literal(task)}, {estimand.replace('_', ' ')} forks", fontsize=9, loc="left")
    panels[-1].set_xlabel("mean dR (return per episode); line: Student-t 95%, thick: bootstrap 95%", fontsize=8)
    tidy(*panels)
    return figure
