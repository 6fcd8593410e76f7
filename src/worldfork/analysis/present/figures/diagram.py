"""Figure 1: what a fork is, drawn with the numbers of one study."""

from typing import Final

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from worldfork.analysis.present.figures.drawing import Drawing, chosen
from worldfork.analysis.present.text import digits_for, number, span
from worldfork.analysis.score import Score, TaskScore
from worldfork.analysis.score.clusters import partition

__all__ = ["ledger"]

FORK: Final = (3.4, 0.0)
BOX: Final = (5.15, 1.85, 0.66)  # left edge, width, height of a branch
ARROW: Final = {"arrowstyle": "-|>", "lw": 1.4, "color": "black", "shrinkA": 0, "shrinkB": 0}


def ledger(score: Score, *, arm: str | None = None, task: str | None = None) -> Drawing:
    """The deployment stream, its decision points, and both continuations of one of them, for one task (the first,
    where none is named)."""
    _, tasks = chosen(score, arm=arm, task=task)
    figure = Drawing(figsize=(7.6, 3.9))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(-0.2, 10.4), ylim=(-3.3, 2.1))
    axes.axis("off")
    numbers = _numbers(next(iter(tasks.values())))
    axes.annotate("", (7.4, 0), (0, 0), arrowprops={**ARROW, "lw": 2.2})
    for x, label in ((1.5, "k = 1"), (3.4, "k = 2"), (5.3, "k = 3")):
        axes.plot([x, x], [-0.14, 0.14], color="black", lw=1.4)
        # The fork's own label stands higher, clear of the branch that leaves there.
        height = 0.24 if x != FORK[0] else 0.72
        axes.plot([x, x], [0.14, height - 0.04], color="0.4", lw=0.8, ls=":" if x == FORK[0] else "none")
        axes.text(x - 0.12 * (x == FORK[0]), height, label, ha="center", va="bottom", fontsize=9)
    axes.plot(*FORK, "o", color="black", ms=6, zorder=3)
    axes.text(0, -1.3, f"deployment stream:\nphysics drifts over time\n{numbers['stream']}", fontsize=8, va="top")
    for y, word, inside, mean in (
        (1.35, "UPDATE", numbers["update"], numbers["r_update"]),
        (-1.55, "HOLD", "no update", numbers["r_hold"]),
    ):
        bend = "arc3,rad=-0.25" if y > 0 else "arc3,rad=0.25"
        axes.annotate("", (BOX[0], y), FORK, arrowprops={**ARROW, "connectionstyle": bend})
        low = (BOX[0], y - BOX[2] / 2)
        axes.add_patch(
            FancyBboxPatch(low, *BOX[1:], boxstyle="round,pad=0,rounding_size=0.1", fc="0.95", ec="black")
        )
        axes.text(BOX[0] + BOX[1] / 2, y, f"{word}\n{inside}", ha="center", va="center", fontsize=9)
        same = "the same " if y < 0 else ""
        axes.text(
            7.15,
            y,
            f"R on {same}{numbers['episodes']}\nmean {mean} per episode",
            ha="left",
            va="center",
            fontsize=8,
        )
    _brace(axes, 1.6, 3.3)
    axes.text(2.45, -0.62, "error stream\nvisible to the trigger", ha="center", va="top", fontsize=8)
    axes.text(
        4.6,
        -2.55,
        f"dR = R(UPDATE) - R(HOLD), under common random numbers\n{numbers['effect']}",
        ha="center",
        va="top",
        fontsize=9,
    )
    return figure


def _brace(axes: Axes, left: float, right: float) -> None:
    x = np.linspace(left, right, 101)
    middle = (left + right) / 2
    reach = 0.16 * (1 - np.abs(x - middle) / (middle - left)) ** 8
    ends = 0.12 * (1 - np.minimum(1, 12 * np.minimum(x - left, right - x) / (right - left)) ** 0.5)
    axes.plot(x, -0.36 - reach + ends, color="black", lw=1)


def _numbers(score: TaskScore) -> dict[str, str]:
    """What this study has to say at each place of the diagram."""
    effect = score.effect.all_attempted
    digits = digits_for(effect)
    outcomes, prefork = score.evidence.forks.outcomes, score.evidence.forks.prefork
    points = int(prefork.k.max())
    last = int(prefork.step.max())
    episodes = None if outcomes.hold is None else int((~np.isnan(outcomes.hold)).sum(axis=1).max())
    steps = score.evidence.forks.gradient_steps
    spaced = f", {last // points:,} control steps apart" if last else ""
    return {
        "stream": f"{effect.cells} cells, K = {points} decision points{spaced}",
        "update": "train the model" if steps is None else f"{steps} gradient steps",
        "episodes": f"m = {episodes} episodes" if episodes else "m episodes",
        "r_hold": number(_averaged(score, outcomes.r_hold), digits).lstrip("+"),
        "r_update": number(_averaged(score, outcomes.r_update), digits).lstrip("+"),
        "effect": f"mean {number(effect.mean, digits)}, Student-t 95% {span(effect.student_t, digits)}, "
        f"n = {effect.forks} forks",
    }


def _averaged(score: TaskScore, values: Float[np.ndarray, "forks"]) -> float:
    """Over cells, then checkpoints, as dR is: so the two branches differ by the effect."""
    parts = partition(score.evidence.forks.prefork)
    return float(np.nanmean(parts.checkpoint_means(parts.cell_means(values))))
