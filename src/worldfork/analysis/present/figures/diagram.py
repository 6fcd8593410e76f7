"""Figure 1: a fork, drawn with the numbers of a study."""

from typing import Final

from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from worldfork.analysis.present.figures.drawing import Drawing, chosen
from worldfork.analysis.present.text.formatting import digits_for, number, span, unsigned
from worldfork.analysis.score import Score, TaskScore
from worldfork.analysis.score.undefined import Undefined

FORK: Final = (3.4, 0.0)
BOX: Final = (5.15, 1.85, 0.66)  # left edge, width, height of a branch
ARROW: Final = {"arrowstyle": "-|>", "lw": 1.4, "color": "black", "shrinkA": 0, "shrinkB": 0}


def ledger(score: Score, *, arm: str | None = None, task: str | None = None) -> Drawing:
    """Return the deployment stream, its decision points, and both continuations of the second of them.

    Args:
        score: the study.
        arm: the arm whose numbers are shown; without it the first.
        task: the task; without it the first.
    """
    tasks = chosen(score, arm=arm, task=task)
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
    _branch(axes, 1.35, f"UPDATE\n{numbers['update']}", f"R on {numbers['episodes']}\n{numbers['r_update']}")
    _branch(axes, -1.55, "HOLD\nno update", f"R on the same {numbers['episodes']}\n{numbers['r_hold']}")
    axes.plot([1.6, 1.6, 3.3, 3.3], [-0.26, -0.4, -0.4, -0.26], color="black", lw=1)
    axes.text(2.45, -0.62, "error stream\nvisible to the trigger", ha="center", va="top", fontsize=8)
    effect = f"dR = R(UPDATE) - R(HOLD), under common random numbers\n{numbers['effect']}"
    axes.text(4.6, -2.55, effect, ha="center", va="top", fontsize=9)
    return figure


def _branch(axes: Axes, y: float, inside: str, beside: str) -> None:
    """Draw one continuation: an arrow from the fork, a box, and what its episodes returned."""
    bend = f"arc3,rad={-0.25 if y > 0 else 0.25}"
    axes.annotate("", (BOX[0], y), FORK, arrowprops={**ARROW, "connectionstyle": bend})
    low = (BOX[0], y - BOX[2] / 2)
    axes.add_patch(FancyBboxPatch(low, *BOX[1:], boxstyle="round,pad=0,rounding_size=0.1", fc="0.95", ec="black"))
    axes.text(BOX[0] + BOX[1] / 2, y, inside, ha="center", va="center", fontsize=9)
    axes.text(7.15, y, beside, ha="left", va="center", fontsize=8)


def _numbers(score: TaskScore) -> dict[str, str]:
    """Return the text of each place of the diagram."""
    effect, forks = score.effect.all_attempted, score.evidence.forks
    digits = digits_for(effect)
    points, last = int(forks.prefork.k.max()), int(forks.prefork.step.max())
    hold, steps = forks.outcomes.hold, forks.gradient_steps
    # Averaged as dR is, over cells and then checkpoints: so the two branches differ by the effect.
    frozen = score.scale.frozen
    updated = effect.mean if isinstance(effect.mean, Undefined) else frozen + effect.mean
    return {
        "stream": f"{effect.cells} cells, K = {points} decision points"
        + (f", {last // points:,} control steps apart" if last else ""),
        "update": "train the model" if steps is None else f"{steps} gradient steps",
        "episodes": "m episodes" if hold is None else f"m = {hold.shape[1]} episodes",
        "r_hold": f"mean {unsigned(frozen, digits)} per episode",
        "r_update": f"mean {unsigned(updated, digits)} per episode",
        "effect": f"mean {number(effect.mean, digits)}, Student-t 95% {span(effect.student_t, digits)}, "
        f"n = {effect.forks} forks",
    }
