"""Figure 3: UPDATE against HOLD with its fit and crossing, and mean dR in bins of HOLD."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from worldfork.desk.figures.drawing import HELP, HURT, INK, SOFT, Drawing, chosen, draw_forks, literal, tidy
from worldfork.desk.scoring import Score, TaskScore
from worldfork.desk.wording import digits_for, number

__all__ = ["contraction"]


def contraction(score: Score, *, arm: str | None = None, task: str | None = None) -> Drawing:
    """Left the returns of both branches, fork by fork, with the line through them; right what updating was worth by
    what HOLD returned."""
    _, tasks = chosen(score, arm=arm, task=task)
    figure = Drawing(figsize=(8.4, 3.6 * len(tasks)), layout="constrained")
    panels = figure.subplots(len(tasks), 2, squeeze=False)
    for (left, right), (name, one) in zip(panels, tasks.items(), strict=True):
        plain: dict[str, Any] = one.to_json()
        fit, digits = plain["contraction"], digits_for(plain["effect"]["all_attempted"])
        _returns(left, one, fit, digits, f"{literal(name)}: " if len(tasks) > 1 else "")
        _bins(right, fit, digits)
    tidy(*panels.flat)
    return figure


def _returns(axes: Axes, one: TaskScore, fit: dict[str, Any], digits: int, prefix: str) -> None:
    kept = one.evidence.forks.take(~one.evidence.divergence.dropped)
    hold, update = kept.outcomes.r_hold, kept.outcomes.r_update
    draw_forks(axes, hold, update, delta=kept.delta)
    if len(hold):
        ends = np.array([hold.min(), hold.max()])
        axes.plot(ends, ends, color=SOFT, ls=":", lw=1.2, label="identity")
        if fit["slope"] is not None:
            axes.plot(ends, update.mean() + fit["slope"] * (ends - hold.mean()), color=INK, lw=1.5)
    slope = "undefined" if fit["slope"] is None else f"{fit['slope']:.2f}"
    crossing = number(fit["crossing"], digits).lstrip("+") if fit["crossing"] is not None else "undefined"
    axes.set_title(f"(a) {prefix}n = {len(hold)}; slope {slope}, crossing {crossing}", fontsize=9, loc="left")
    axes.set_xlabel("HOLD (return per episode)", fontsize=8)
    axes.set_ylabel("UPDATE (return per episode)", fontsize=8)


def _bins(axes: Axes, fit: dict[str, Any], digits: int) -> None:
    axes.axhline(0, color=SOFT, lw=0.8)
    bins = fit["bins"] or []
    for place, one in enumerate(bins):
        if one["mean"] is None:
            axes.text(place, 0, "undefined", ha="center", va="bottom", fontsize=7, style="italic", color=SOFT)
            continue
        colour = HELP if one["mean"] > 0 else HURT
        axes.bar(place, one["mean"], 0.66, yerr=one["standard_error"] or 0.0, color=colour, capsize=2)
    axes.set_xticks(range(len(bins)), [_bin_name(one, digits) for one in bins], fontsize=7)
    axes.set_xlabel("HOLD (return per episode)", fontsize=8)
    axes.set_ylabel("mean dR (return per episode)", fontsize=8)
    axes.set_title("(b) bars: standard errors", fontsize=9, loc="left")


def _bin_name(one: dict[str, Any], digits: int) -> str:
    low, high = (number(one[end], digits).removeprefix("+") for end in ("low", "high"))
    where = f"< {high}" if one["low"] is None else f"≥ {low}" if one["high"] is None else f"{low} to\n{high}"
    return f"{where}\nn={one['forks']}"
