"""The same forks under every arm: what each update was worth, fork by fork."""

import numpy as np

from worldfork.desk.figures.drawing import INK, SOFT, Drawing, draw_forks, literal, tidy
from worldfork.desk.scoring import Score
from worldfork.desk.wording import digits_for, known, number
from worldfork.errors import WorldforkError

__all__ = ["arms"]

SPREAD = 0.32  # half the height over which the forks of an arm lie, in order of cell and decision point


def arms(score: Score, *, task: str | None = None) -> Drawing:
    """A row per arm, a mark per fork: triangles up helped, triangles down hurt, circles changed nothing, the bar is
    the mean over checkpoints. A fork lies at the same height in every row."""
    tasks = list(dict.fromkeys(name for arm in score.arms.values() for name in arm.tasks))
    task = task or tasks[0]
    if task not in tasks:
        raise WorldforkError(f"There is no task `{task}`; the score has {', '.join(tasks)}.")
    rows = {arm: scored.tasks[task] for arm, scored in score.arms.items() if task in scored.tasks}
    figure = Drawing(figsize=(7.6, 0.8 + 0.55 * len(rows)), layout="constrained")
    axes = figure.subplots()
    axes.axvline(0, color=SOFT, lw=0.8)
    labels = []
    for row, (arm, one) in enumerate(rows.items()):
        forks, mean = one.evidence.forks, known(one.effect.all_attempted.mean)
        heights = row + np.linspace(-SPREAD, SPREAD, len(forks))
        draw_forks(axes, forks.delta, heights, delta=forks.delta)
        if mean is not None:
            axes.plot([mean, mean], [row - 0.4, row + 0.4], color=INK, lw=2)
        labels.append(f"{literal(arm or task)}  {number(mean, digits_for(one.effect.all_attempted))}")
    axes.set_yticks(range(len(rows)), labels)
    axes.invert_yaxis()
    axes.set_xlabel("dR of each fork (return per episode); bar: mean over checkpoints", fontsize=8)
    tidy(axes)
    return figure
