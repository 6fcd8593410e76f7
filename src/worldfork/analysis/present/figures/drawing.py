"""Parts that all figures share: the drawing, colours, marks and axes.

Colours are those of the page; a helpful fork is also a triangle that points up, a harmful one points down, so that
the figures can be printed in grey.
"""

import io
from collections.abc import Mapping
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure

from worldfork.analysis.score import Score, TaskScore
from worldfork.errors import WorldforkError

HELP: Final = "#0a67b0"
HURT: Final = "#a8430a"
SOFT: Final = "#8a8f98"
BAND: Final = "#3d4656"
INK: Final = "black"


class Drawing(Figure):
    """A matplotlib figure that also shows itself in a notebook, with or without pyplot."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=120, bbox_inches="tight")
        return buffer.getvalue()


def pick(names: Mapping[str, object], name: str | None, what: str) -> str:
    """Return `name`, or the first of `names`; raise where there is none of that name."""
    name = next(iter(names), "") if name is None else name
    if name not in names:
        raise WorldforkError(f"There is no {what} `{name}` here; there are {', '.join(names) or 'none'}.")
    return name


def chosen(score: Score, *, arm: str | None, task: str | None) -> Mapping[str, TaskScore]:
    """Return the task of that name in the arm of that name or in the first; without a name every task of it."""
    tasks = score.arms[pick(score.arms, arm, "arm")].tasks
    return tasks if task is None else {task: tasks[pick(tasks, task, "task")]}


def draw_forks(axes: Axes, x: Any, y: Any, *, delta: Any) -> None:
    """Draw a mark per fork, by the sign of its dR; `x`, `y` and `delta` have an entry per fork."""
    for sign, marker, colour in ((1, "^", HELP), (-1, "v", HURT), (0, "o", SOFT)):
        forks = [fork for fork, value in enumerate(delta) if int(value > 0) - int(value < 0) == sign]
        across, up = [x[fork] for fork in forks], [y[fork] for fork in forks]
        axes.plot(across, up, marker, color=colour, ms=4, alpha=0.6, mew=0)


def set_decades(axis: Axis, bend: float) -> None:
    """Set the ticks of a symmetric logarithmic axis at its decades, or at 3 as well where they are few.

    Matplotlib's own crowd around zero.
    """
    reach = max(abs(limit) for limit in axis.get_view_interval())
    sizes = [bend * 10.0**power for power in range(12) if bend * 10.0**power <= reach]
    if len(sizes) == 1 and 3 * bend <= reach:
        sizes.append(3 * bend)
    ticks = [*(-size for size in reversed(sizes)), 0.0, *sizes]
    axis.set_ticks(ticks, [f"{tick:,g}" for tick in ticks])
    axis.set_ticks([], minor=True)


def literal(name: str) -> str:
    """Return a name in which a dollar sign is a dollar sign, not mathematics."""
    return name.replace("$", r"\$")


def tidy(*panels: Axes) -> None:
    """Take frames off and make labels small."""
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
