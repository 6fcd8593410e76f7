"""Figures of tables: a row per row, with the chart that the page draws beside it."""

import dataclasses
from typing import Final

from matplotlib.axes import Axes

from worldfork.analysis.present.figures.drawing import HELP, HURT, INK, SOFT, Drawing, chosen, literal, pick, tidy
from worldfork.analysis.present.strips import Strip
from worldfork.analysis.present.table import Table
from worldfork.analysis.present.tables import deployments, scores_of, value
from worldfork.analysis.present.tables.effects import means
from worldfork.analysis.present.text.formatting import defined
from worldfork.analysis.score import Score
from worldfork.analysis.score.undefined import Estimand
from worldfork.errors import WorldforkError

ROW: Final = 0.27  # inches


def draw(every: Table, *, about: str, head: str, also: str = "") -> Drawing:
    """Return a panel per task: means, their intervals (thin and thick), dots for checkpoints, and a diamond for
    what stands beside the mean.

    Args:
        every: the table of all tasks.
        about: what the horizontal axis is.
        head: the head of the column whose cells stand behind the names of the rows.
        also: what the title of a panel says behind the task.
    """
    shown = []
    for task in dict.fromkeys(row[0] for row in every.rows):
        places = [place for place, row in enumerate(every.rows) if row[0] == task]
        rows, strips = [every.rows[place] for place in places], [every.strips[place] for place in places]
        shown.append(dataclasses.replace(every, caption=f"{task}{also}", rows=rows, strips=strips).without("Task"))
    heights = [1 + len(table.rows) for table in shown]
    figure = Drawing(figsize=(7.6, 0.9 + ROW * sum(heights)), layout="constrained")
    panels = figure.subplots(len(shown), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, table in zip(panels, shown, strict=True):
        axes.axvline(0, color=SOFT, lw=0.8)
        place = table.heads.index(head)
        names = [literal(" ".join([*filter(None, row[: table.keys]), f" {row[place]}"])) for row in table.rows]
        for row, strip in enumerate(table.strips):
            _row(axes, row, strip)
        axes.set_yticks(range(len(names)), names, fontsize=8)
        axes.invert_yaxis()
        axes.set_title(literal(table.caption), fontsize=9, loc="left")
    panels[-1].set_xlabel(about, fontsize=8)
    tidy(*panels)
    return figure


def _row(axes: Axes, row: int, strip: Strip) -> None:
    thin, mean = defined(strip.student_t), defined(strip.mean)
    sign = 0 if thin is None else int(thin.low > 0) - int(thin.high < 0)
    colour = {1: HELP, -1: HURT}.get(sign, INK)
    if thin is not None:
        axes.plot(thin, [row, row], color=colour, lw=1.2)
    if thick := defined(strip.bootstrap):
        axes.plot(thick, [row, row], color=colour, lw=4, alpha=0.45)
    axes.plot(strip.dots, [row + 0.3] * len(strip.dots), "o", color=SOFT, ms=2.5)
    if (forecast := defined(strip.forecast)) is not None:
        axes.plot(forecast, row, "D", mfc="none", mec=SOFT, ms=5)
    if mean is not None:
        axes.plot(mean, row, "o", color=colour, ms=5)


def effects(score: Score, *, estimand: Estimand = "all_attempted") -> Drawing:
    """Return a panel per task, and in it every arm with its directions: tasks are not on one scale.

    Args:
        score: the study.
        estimand: the forks that are drawn.
    """
    table = means(scores_of(score), estimand)
    about = "mean dR (return per episode); line: Student-t 95%, thick: bootstrap 95%"
    return draw(table, about=about, head="mean dR", also=f", {estimand.replace('_', ' ')} forks")


def curve(score: Score, *, arm: str | None = None, task: str | None = None) -> Drawing:
    """Return mean dR along the drift level, and along what the frozen model still returns.

    The line is a 95% band for all places at once, in bold the Student-t interval of a place alone.

    Args:
        score: the study.
        arm: the arm that is drawn; without it the first.
        task: the task; without it every one, a panel each.
    """
    tasks = chosen(score, arm=arm, task=task)
    table = value.curve({(name, ""): figures for name, figures in tasks.items()})
    about = "mean dR (return per episode); line: 95% band of all places, thick: Student-t 95% of one"
    return draw(table, about=about, head="mean dR")


def price(score: Score, *, arm: str | None = None, task: str | None = None) -> Drawing:
    """Return the prices of an update up to which each policy is worth more than never, with their intervals.

    A diamond is the price from which it is worth more than always.

    Args:
        score: the study.
        arm: the arm that is drawn; without it the first.
        task: the task; without it every one, a panel each.
    """
    tasks = chosen(score, arm=arm, task=task)
    table = value.prices({(name, ""): figures for name, figures in tasks.items()})
    about = "total price of an update (return of an episode); dot: over never up to; diamond: over always from"
    return draw(table, about=about, head="best at")


def followed(score: Score, *, task: str | None = None) -> Drawing:
    """Return a row per policy that fired, the best first: its return above never with its Student-t interval.

    A diamond is what the one-step ledger says of the policy.

    Args:
        score: the study.
        task: the task with deployments; without it the first.
    """
    if not score.deployment:
        raise WorldforkError(
            "This score has no deployments: register [deployment] and run it (docs/deployment.md)."
        )
    task = pick(score.deployment, task, "task with deployments")
    table = deployments.deployments({task: score.deployment[task]})
    about = "return of an episode above never; line: Student-t 95%; diamond: by the one-step ledger"
    return draw(table, about=about, head="over never")
