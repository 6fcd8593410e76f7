"""What the figures share: where they are drawn, their colours, their axes.

Colours are those of the page; a helpful fork is also a triangle that points up, a harmful one points down, so that
the figures can be printed in grey.
"""

import io
from collections.abc import Mapping
from typing import Final

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure

from worldfork.analysis.score import Score, TaskScore
from worldfork.errors import WorldforkError

__all__ = [
    "BAND",
    "HELP",
    "HURT",
    "INK",
    "SOFT",
    "Drawing",
    "chosen",
    "draw_forks",
    "literal",
    "set_decades",
    "tidy",
]

HELP: Final = "#0a67b0"
HURT: Final = "#a8430a"
SOFT: Final = "#8a8f98"
BAND: Final = "#3d4656"
INK: Final = "black"


class Drawing(Figure):
    """A matplotlib figure that also shows itself in a notebook, whether or not pyplot was ever imported."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=120, bbox_inches="tight")
        return buffer.getvalue()


def chosen(score: Score, *, arm: str | None, task: str | None) -> tuple[str, Mapping[str, TaskScore]]:
    """The arm of that name, or the first; its task of that name, or all of them."""
    if arm is None:
        arm = next(iter(score.arms))
    if arm not in score.arms:
        raise WorldforkError(f"There is no arm `{arm}`; the score has {', '.join(score.arms) or 'none'}.")
    tasks = score.arms[arm].tasks
    if task is None:
        return arm, tasks
    if task not in tasks:
        raise WorldforkError(f"There is no task `{task}` in this arm; it has {', '.join(tasks)}.")
    return arm, {task: tasks[task]}


def draw_forks(
    axes: Axes,
    x: Float[np.ndarray, "forks"],
    y: Float[np.ndarray, "forks"],
    *,
    delta: Float[np.ndarray, "forks"],
) -> None:
    """One mark per fork, by whether updating helped there."""
    for inside, marker, colour in ((delta > 0, "^", HELP), (delta < 0, "v", HURT), (delta == 0, "o", SOFT)):
        axes.plot(x[inside], y[inside], marker, color=colour, ms=4, alpha=0.6, mew=0)


def set_decades(axis: Axis, bend: float) -> None:
    """Ticks of a symmetric logarithmic axis at its decades, or at 3 as well where they are few: matplotlib's own
    crowd around zero."""
    reach = max(abs(limit) for limit in axis.get_view_interval())
    sizes = [bend * 10.0**power for power in range(12) if bend * 10.0**power <= reach]
    if len(sizes) == 1 and 3 * bend <= reach:
        sizes.append(3 * bend)
    ticks = [*(-size for size in reversed(sizes)), 0.0, *sizes]
    axis.set_ticks(ticks, [f"{tick:,g}" for tick in ticks])
    axis.set_ticks([], minor=True)


def literal(name: str) -> str:
    """A dollar sign in a name is a dollar sign, not mathematics."""
    return name.replace("$", r"\$")


def tidy(*panels: Axes) -> None:
    """Frames off, small labels."""
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
