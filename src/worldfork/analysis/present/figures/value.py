"""Figures of what would pay: dR along drift, and the price of an update at which the better policy changes."""

from collections.abc import Sequence
from typing import Final

from matplotlib.axes import Axes

from worldfork.analysis.present.figures.drawing import (
    BAND,
    HELP,
    INK,
    SOFT,
    Drawing,
    chosen,
    literal,
    tidy,
)
from worldfork.analysis.present.text.formatting import defined
from worldfork.analysis.present.text.value import place_words
from worldfork.analysis.score import Score, TaskScore
from worldfork.analysis.score.curves import Curve, CurvePoint
from worldfork.analysis.score.prices import BreakEven
from worldfork.analysis.score.undefined import Undefined

PER_EPISODE: Final = "mean dR (return per episode)"


def curve(score: Score, *, arm: str | None = None, task: str | None = None) -> Drawing:
    """Return mean dR along the drift level, and along what the frozen model still returns.

    The band holds at all places at once, the bars at their own place alone (Student-t 95% over checkpoints).

    Args:
        score: the study.
        arm: the arm that is drawn; without it the first.
        task: the task; without it every one, a row of panels each.
    """
    _, tasks = chosen(score, arm=arm, task=task)
    figure = Drawing(figsize=(8.4, 3.4 * len(tasks)), layout="constrained")
    panels = figure.subplots(len(tasks), 2, squeeze=False, sharey="row")
    for (left, right), (name, figures) in zip(panels, tasks.items(), strict=True):
        prefix = f"{literal(name)}: " if len(tasks) > 1 else ""
        _level(left, figures.curves.level)
        _share(right, figures.curves.hold_share)
        for axes, title in ((left, f"(a) {prefix}by drift level"), (right, "(b) by what HOLD still returns")):
            axes.axhline(0, color=SOFT, lw=0.8)
            axes.set_title(title, fontsize=9, loc="left")
        left.set_ylabel(PER_EPISODE, fontsize=8)
    figure.supxlabel("band: 95% at all places at once; bars: Student-t 95% at each by itself", fontsize=8)
    tidy(*panels.flat)
    return figure


def _level(axes: Axes, shown: Curve | Undefined) -> None:
    points = _drawn(axes, shown)
    _line(axes, [((point.low or 0.0) + (point.high or 0.0)) / 2 for point in points], points)
    axes.set_xlabel("drift level", fontsize=8)


def _share(axes: Axes, shown: Curve | Undefined) -> None:
    points = _drawn(axes, shown)
    _line(axes, [float(place) for place in range(len(points))], points)
    axes.set_xticks(range(len(points)), [f"{place_words(point.low, point.high)}" for point in points], fontsize=7)
    axes.set_xlabel("HOLD's return over the clean return", fontsize=8)


def _drawn(axes: Axes, shown: Curve | Undefined) -> Sequence[CurvePoint]:
    """Return the places that have a mean; say why there are none."""
    if isinstance(shown, Undefined):
        why = f"undefined: {shown.why}"
        axes.text(0.5, 0.5, why, ha="center", wrap=True, transform=axes.transAxes, color=SOFT, fontsize=7)
        return ()
    return [point for point in shown.points if not isinstance(point.mean, Undefined)]


def _line(axes: Axes, places: Sequence[float], points: Sequence[CurvePoint]) -> None:
    means = [defined(point.mean) or 0.0 for point in points]
    axes.plot(places, means, "o-", color=INK, ms=4, lw=1.2)
    bands = [(place, band) for place, point in zip(places, points, strict=True) if (band := defined(point.band))]
    if bands:
        where, lows, highs = zip(*((place, band.low, band.high) for place, band in bands), strict=True)
        axes.fill_between(where, lows, highs, color=BAND, alpha=0.2, lw=0)
    for place, point in zip(places, points, strict=True):
        if interval := defined(point.student_t):
            axes.plot([place, place], interval, color=INK, lw=0.9)


def price(score: Score, *, arm: str | None = None, task: str | None = None) -> Drawing:
    """Return a row per policy: the prices of an update at which it breaks even with never, and with always.

    A full dot is the price up to which a policy is worth more than never, a ring the one from which it is worth
    more than always, each with its 95% interval. The thick line is where it is the best of all, in hindsight.

    Args:
        score: the study.
        arm: the arm that is drawn; without it the first.
        task: the task; without it every one, a panel each.
    """
    _, tasks = chosen(score, arm=arm, task=task)
    rows = {name: _policies(figures) for name, figures in tasks.items()}
    heights = [1 + len(policies) for policies in rows.values()]
    figure = Drawing(figsize=(7.6, 0.9 + 0.27 * sum(heights)), layout="constrained")
    panels = figure.subplots(len(tasks), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (name, figures) in zip(panels, tasks.items(), strict=True):
        _prices(axes, figures, rows[name])
        axes.set_title(literal(name), fontsize=9, loc="left")
    figure.supxlabel(
        "price of an update (return of an episode)\n"
        "dot: worth more than never up to here; ring: worth more than always from here; thick: the best of all",
        fontsize=8,
    )
    tidy(*panels)
    return figure


def _policies(score: TaskScore) -> list[str]:
    triggers = score.triggers.all_attempted
    return ["always", *(name for name in score.prices.triggers if triggers[name].standing != "reference"), "never"]


def _prices(axes: Axes, score: TaskScore, names: Sequence[str]) -> None:
    """Draw the prices from 0 to a little above the largest at which never updating becomes the best."""
    shown = score.prices
    best = {part.policy: part for part in shown.best}
    ends = [shown.always, *(even.over_never for even in shown.triggers.values())]
    largest = max([0.0, *(end for even in ends if (end := defined(even.price)) is not None)]) or 1.0
    reach = 1.25 * largest
    for row, name in enumerate(names):
        if (part := best.get(name)) is not None:
            above, below = defined(part.above) or 0.0, defined(part.below)
            axes.plot(
                [above, reach if below is None else below],
                [row, row],
                color=HELP,
                lw=7,
                alpha=0.3,
                solid_capstyle="butt",
            )
        if name == "always":
            _dot(axes, row, shown.always, INK)
        elif name != "never":
            _dot(axes, row, shown.triggers[name].over_never, INK)
            _dot(axes, row, shown.triggers[name].over_always, "none")
    axes.set_xlim(0, reach)
    axes.set_yticks(range(len(names)), [literal(name) for name in names], fontsize=8)
    axes.invert_yaxis()


def _dot(axes: Axes, row: int, even: BreakEven, fill: str) -> None:
    if (value := defined(even.price)) is None:
        return
    if interval := defined(even.interval):
        axes.plot(interval, [row, row], color=INK, lw=1)
    axes.plot(value, row, "o", mec=INK, mfc=fill, ms=5)
