"""Figure 3: UPDATE against HOLD with its fit and crossing, and mean dR in bins of HOLD."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from worldfork.desk.figures.drawing import HELP, HURT, INK, SOFT, Drawing, chosen, draw_forks, literal, tidy
from worldfork.desk.scoring import Score, TaskScore
from worldfork.desk.scoring.records import Bin
from worldfork.desk.scoring.undefined import Undefined
from worldfork.desk.wording import digits_for, known, number

__all__ = ["contraction"]


def contraction(score: Score, *, arm: str | None = None, task: str | None = None) -> Drawing:
    """Left the returns of both branches, fork by fork, with the line through them; right what updating was worth by
    what HOLD returned."""
    _, tasks = chosen(score, arm=arm, task=task)
    figure = Drawing(figsize=(8.4, 3.6 * len(tasks)), layout="constrained")
    panels = figure.subplots(len(tasks), 2, squeeze=False)
    for (left, right), (name, task_score) in zip(panels, tasks.items(), strict=True):
        digits = digits_for(task_score.effect.all_attempted)
        _returns(left, task_score, digits=digits, prefix=f"{literal(name)}: " if len(tasks) > 1 else "")
        _bins(right, known(task_score.contraction.bins) or (), digits=digits)
    tidy(*panels.flat)
    return figure


def _returns(axes: Axes, score: TaskScore, *, digits: int, prefix: str) -> None:
    slope, crossing = known(score.contraction.slope), known(score.contraction.crossing)
    kept = score.evidence.forks.take(~score.evidence.divergence.dropped)
    hold, update = kept.outcomes.r_hold, kept.outcomes.r_update
    draw_forks(axes, hold, update, delta=kept.delta)
    if len(hold):
        ends = np.array([hold.min(), hold.max()])
        axes.plot(ends, ends, color=SOFT, ls=":", lw=1.2, label="identity")
        if slope is not None:
            axes.plot(ends, update.mean() + slope * (ends - hold.mean()), color=INK, lw=1.5)
    about = f"slope {'undefined' if slope is None else f'{slope:.2f}'}, crossing "
    about += "undefined" if crossing is None else number(crossing, digits).lstrip("+")
    axes.set_title(f"(a) {prefix}n = {len(hold)}; {about}", fontsize=9, loc="left")
    axes.set_xlabel("HOLD (return per episode)", fontsize=8)
    axes.set_ylabel("UPDATE (return per episode)", fontsize=8)


def _bins(axes: Axes, bins: Sequence[Bin], *, digits: int) -> None:
    axes.axhline(0, color=SOFT, lw=0.8)
    for place, bar in enumerate(bins):
        if isinstance(bar.mean, Undefined):
            axes.text(place, 0, "undefined", ha="center", va="bottom", fontsize=7, style="italic", color=SOFT)
            continue
        colour = HELP if bar.mean > 0 else HURT
        axes.bar(place, bar.mean, 0.66, yerr=known(bar.standard_error) or 0.0, color=colour, capsize=2)
    axes.set_xticks(range(len(bins)), [_bin_name(bar, digits) for bar in bins], fontsize=7)
    axes.set_xlabel("HOLD (return per episode)", fontsize=8)
    axes.set_ylabel("mean dR (return per episode)", fontsize=8)
    axes.set_title("(b) bars: standard errors", fontsize=9, loc="left")


def _bin_name(bar: Bin, digits: int) -> str:
    low, high = (number(end, digits).removeprefix("+") for end in (bar.low, bar.high))
    where = f"< {high}" if bar.low is None else f"≥ {low}" if bar.high is None else f"{low} to\n{high}"
    return f"{where}\nn={bar.forks}"
