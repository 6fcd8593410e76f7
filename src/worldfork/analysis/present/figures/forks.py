"""Figures of forks: arm by arm, against what the frozen model returned, and against a signal."""

import math
import statistics
from collections.abc import Sequence
from typing import Final

from matplotlib.axes import Axes

from worldfork.analysis.present.figures.drawing import (
    BAND,
    HELP,
    HURT,
    INK,
    SOFT,
    Drawing,
    chosen,
    draw_forks,
    literal,
    pick,
    set_decades,
    tidy,
)
from worldfork.analysis.present.text.formatting import defined, digits_for, number, unsigned
from worldfork.analysis.score import Score, TaskScore
from worldfork.analysis.score.contraction import Bin
from worldfork.analysis.score.permutation_nulls import RandomControl
from worldfork.analysis.score.undefined import Estimand, Undefined
from worldfork.errors import WorldforkError

SPREAD: Final = 0.32  # half the height over which the forks of an arm lie, in order of cell and decision point
PER_EPISODE: Final = "return per episode"


def arms(score: Score, *, task: str | None = None) -> Drawing:
    """Return a row per arm and a mark per fork: triangles up helped, triangles down hurt, circles changed nothing.

    The bar is the mean over checkpoints. A fork lies at the same height in every row. Without `task` the first is
    drawn.
    """
    tasks = {name: arm for arm in score.arms.values() for name in arm.tasks}
    task = pick(tasks, task, "task")
    rows = {name: arm.tasks[task] for name, arm in score.arms.items() if task in arm.tasks}
    figure = Drawing(figsize=(7.6, 0.8 + 0.55 * len(rows)), layout="constrained")
    axes = figure.subplots()
    axes.axvline(0, color=SOFT, lw=0.8)
    labels = []
    for row, (arm, figures) in enumerate(rows.items()):
        delta, effect = figures.evidence.forks.delta, figures.effect.all_attempted
        step = 2 * SPREAD / max(1, len(delta) - 1)
        heights = [row - SPREAD + step * place for place in range(len(delta))]
        draw_forks(axes, delta, heights, delta=delta)
        if (mean := defined(effect.mean)) is not None:
            axes.plot([mean, mean], [row - 0.4, row + 0.4], color=INK, lw=2)
        labels.append(f"{literal(score.label(arm) or task)}  {number(mean, digits_for(effect))}")
    axes.set_yticks(range(len(rows)), labels)
    axes.invert_yaxis()
    axes.set_xlabel(f"dR of each fork ({PER_EPISODE}); bar: mean over checkpoints", fontsize=8)
    tidy(axes)
    return figure


def contraction(score: Score, *, arm: str | None = None, task: str | None = None) -> Drawing:
    """Return the returns of both branches with the line through them, and mean dR by what HOLD returned.

    Without `arm` the first is drawn; without `task` every task of it.
    """
    tasks = chosen(score, arm=arm, task=task)
    figure = Drawing(figsize=(8.4, 3.6 * len(tasks)), layout="constrained")
    panels = figure.subplots(len(tasks), 2, squeeze=False)
    for (left, right), (name, figures) in zip(panels, tasks.items(), strict=True):
        digits = digits_for(figures.effect.all_attempted)
        _returns(left, figures, digits=digits, prefix=f"{literal(name)}: " if len(tasks) > 1 else "")
        _bins(right, defined(figures.contraction.bins) or (), digits=digits)
    tidy(*panels.flat)
    return figure


def _returns(axes: Axes, score: TaskScore, *, digits: int, prefix: str) -> None:
    fit = score.contraction
    slope, intercept = defined(fit.slope), defined(fit.intercept)
    kept = score.evidence.forks.take(~score.evidence.divergence.dropped)
    hold = kept.outcomes.r_hold
    draw_forks(axes, hold, kept.outcomes.r_update, delta=kept.delta)
    if len(hold):
        ends = [float(hold.min()), float(hold.max())]
        axes.plot(ends, ends, color=SOFT, ls=":", lw=1.2, label="identity")
        if slope is not None and intercept is not None:
            axes.plot(ends, [intercept + slope * end for end in ends], color=INK, lw=1.5)
    crossing = "undefined" if isinstance(fit.crossing, Undefined) else unsigned(fit.crossing, digits)
    about = f"slope {'undefined' if slope is None else f'{slope:.2f}'}, crossing {crossing}"
    axes.set_title(f"(a) {prefix}n = {len(hold)}; {about}", fontsize=9, loc="left")
    axes.set_xlabel(f"HOLD ({PER_EPISODE})", fontsize=8)
    axes.set_ylabel(f"UPDATE ({PER_EPISODE})", fontsize=8)


def _bins(axes: Axes, bins: Sequence[Bin], *, digits: int) -> None:
    axes.axhline(0, color=SOFT, lw=0.8)
    for place, bar in enumerate(bins):
        if isinstance(bar.mean, Undefined):
            axes.text(place, 0, "undefined", ha="center", va="bottom", fontsize=7, style="italic", color=SOFT)
            continue
        colour = HELP if bar.mean > 0 else HURT
        axes.bar(place, bar.mean, 0.66, yerr=defined(bar.standard_error) or 0.0, color=colour, capsize=2)
    axes.set_xticks(range(len(bins)), [_bin_name(bar, digits) for bar in bins], fontsize=7)
    axes.set_xlabel(f"HOLD ({PER_EPISODE})", fontsize=8)
    axes.set_ylabel(f"mean dR ({PER_EPISODE})", fontsize=8)
    axes.set_title("(b) bars: standard errors", fontsize=9, loc="left")


def _bin_name(bar: Bin, digits: int) -> str:
    low, high = unsigned(bar.low, digits), unsigned(bar.high, digits)
    where = f"< {high}" if bar.low is None else f"≥ {low}" if bar.high is None else f"{low} to\n{high}"
    return f"{where}\nn={bar.forks}"


def policies(
    score: Score,
    *,
    arm: str | None = None,
    task: str | None = None,
    trigger: str | None = None,
    estimand: Estimand = "all_attempted",
) -> Drawing:
    """Return the totals of all rules with the 95% of their random controls, and dR against a signal.

    Args:
        score: the study.
        arm: the arm that is drawn; without it the first.
        task: the task; without it every one, a row of panels each.
        trigger: the signal, with the median of its fitted thresholds; without it the residual, or the first.
        estimand: the forks that are drawn.
    """
    tasks = chosen(score, arm=arm, task=task)
    figure = Drawing(figsize=(9.2, 3.9 * len(tasks)), layout="constrained")
    panels = figure.subplots(len(tasks), 2, squeeze=False, width_ratios=(1.15, 1))
    for (left, right), (name, figures) in zip(panels, tasks.items(), strict=True):
        _totals(left, figures, f"{literal(name)}: " if len(tasks) > 1 else "", estimand)
        _scatter(right, figures, trigger, estimand)
    tidy(*panels.flat)
    return figure


def _totals(axes: Axes, score: TaskScore, prefix: str, estimand: Estimand) -> None:
    fixed, triggers = score.policies[estimand], score.triggers[estimand]
    rows: list[tuple[str, float | None, RandomControl | None]] = [
        (name, defined(getattr(fixed, name)), None) for name in ("never", "always", "oracle")
    ]
    rows += [(name, defined(figures.policy_total), defined(figures.random)) for name, figures in triggers.items()]
    sizes = [abs(total) for _, total, _ in rows if total]
    bend = 10.0 ** (math.floor(math.log10(max(sizes))) - 1) if sizes else 1.0
    axes.set_xscale("symlog", linthresh=bend)
    axes.axvline(0, color=SOFT, lw=0.8)
    for place, (_, total, random) in enumerate(rows):
        if random and (interval := defined(random.interval)):
            axes.plot(interval, [place, place], color=BAND, alpha=0.3, lw=7, solid_capstyle="butt")
        if total is None:
            axes.text(0, place, " undefined", va="center", style="italic", color=SOFT, fontsize=8)
        else:
            axes.plot([0, total], [place, place], color=SOFT, lw=0.8, alpha=0.6, zorder=1)
            axes.plot(total, place, "o", color=INK, ms=5)
    axes.set_yticks(range(len(rows)), [literal(name) for name, _, _ in rows], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel(f"policy total (return; linear within ±{bend:g}); bars: random control, 95%", fontsize=8)
    counted = f"{score.effect[estimand].forks} forks, {estimand.replace('_', ' ')}"
    axes.set_title(f"(a) {prefix}{counted}", fontsize=9, loc="left")
    set_decades(axes.xaxis, bend)


def _scatter(axes: Axes, score: TaskScore, trigger: str | None, estimand: Estimand) -> None:
    """Draw dR against a signal, with the median of its fitted thresholds."""
    evidence = score.evidence
    decisions = evidence.retained if estimand == "retained" else evidence.all_attempted
    signals = {name: decided for name, decided in decisions.items() if decided.signal is not None}
    if trigger is not None and trigger not in signals:
        raise WorldforkError(f"There is no signal `{trigger}` to draw; there are {', '.join(signals) or 'none'}.")
    name = trigger or ("residual" if "residual" in signals else next(iter(signals), None))
    if name is None:
        why = "undefined: no signal in this ledger"
        axes.text(0.5, 0.5, why, ha="center", transform=axes.transAxes, color=SOFT)
        axes.set_title("(b)", fontsize=9, loc="left")
        return
    decided = signals[name]
    assert decided.signal is not None
    kept = decided.signal == decided.signal  # a missing signal is not a number
    if estimand == "retained":
        kept &= ~evidence.divergence.dropped
    signal, delta = decided.signal[kept], evidence.forks.delta[kept]
    size = statistics.median(abs(delta).tolist()) if len(delta) else 1.0
    bend = 10.0 ** math.floor(math.log10(size)) if size > 0 else 1.0
    axes.set_yscale("symlog", linthresh=bend)
    axes.axhline(0, color=SOFT, lw=0.8)
    draw_forks(axes, signal, delta, delta=delta)
    set_decades(axes.yaxis, bend)
    about = "threshold undefined"
    if decided.threshold is not None:
        threshold = statistics.median_low(decided.threshold.tolist())  # infinity has no mean with its neighbour
        about = "median threshold fires always" if threshold < 0 else "median threshold never fires"
        if math.isfinite(threshold):
            about = "dashed: median threshold"
            axes.axvline(threshold, color=INK, ls="--", lw=1)
    axes.set_xlabel(literal(name), fontsize=8)
    axes.set_ylabel("dR (return per episode)", fontsize=8)
    axes.set_title(f"(b) n = {len(delta)} forks; {about}", fontsize=9, loc="left")
