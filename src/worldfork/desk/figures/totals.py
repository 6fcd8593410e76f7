"""Figure 2: every rule's total beside its random control, and the forks against one signal."""

from typing import Literal

import numpy as np
from matplotlib.axes import Axes

from worldfork.desk.figures.drawing import BAND, INK, SOFT, Drawing, chosen, draw_forks, literal, set_decades, tidy
from worldfork.desk.scoring import Score, TaskScore
from worldfork.desk.scoring.records import RandomControl
from worldfork.desk.wording import known
from worldfork.errors import WorldforkError

__all__ = ["policies"]


def policies(
    score: Score,
    *,
    arm: str | None = None,
    task: str | None = None,
    trigger: str | None = None,
    estimand: Literal["all_attempted", "retained"] = "all_attempted",
) -> Drawing:
    """Left the totals of all rules with the 95% of their random controls, right dR against the signal of `trigger`
    (the residual, or the first there is) with the median of its fitted thresholds."""
    _, tasks = chosen(score, arm=arm, task=task)
    figure = Drawing(figsize=(9.2, 3.9 * len(tasks)), layout="constrained")
    panels = figure.subplots(len(tasks), 2, squeeze=False, width_ratios=(1.15, 1))
    for (left, right), (name, task_score) in zip(panels, tasks.items(), strict=True):
        prefix = f"{literal(name)}: " if len(tasks) > 1 else ""
        _totals(left, task_score, prefix, retained=estimand == "retained")
        _scatter(right, task_score, trigger, retained=estimand == "retained")
    tidy(*panels.flat)
    return figure


def _totals(axes: Axes, score: TaskScore, prefix: str, *, retained: bool) -> None:
    fixed = score.policies if retained else score.policies_all_attempted
    triggers = score.triggers if retained else score.triggers_all_attempted
    rows: list[tuple[str, float | None, RandomControl | None]] = [
        ("never", known(fixed.never), None),
        ("always", known(fixed.always), None),
        ("oracle", known(fixed.oracle), None),
    ]
    rows += [(name, known(figures.policy_total), known(figures.random)) for name, figures in triggers.items()]
    sizes = [abs(total) for _, total, _ in rows if total]
    bend = 10.0 ** (np.floor(np.log10(max(sizes))) - 1) if sizes else 1.0
    axes.set_xscale("symlog", linthresh=bend)
    axes.axvline(0, color=SOFT, lw=0.8)
    for place, (_, total, random) in enumerate(rows):
        if random and (interval := known(random.interval)):
            axes.plot(interval, [place, place], color=BAND, alpha=0.3, lw=7, solid_capstyle="butt")
        if total is None:
            axes.text(0, place, " undefined", va="center", style="italic", color=SOFT, fontsize=8)
        else:
            axes.plot([0, total], [place, place], color=SOFT, lw=0.8, alpha=0.6, zorder=1)
            axes.plot(total, place, "o", color=INK, ms=5)
    axes.set_yticks(range(len(rows)), [literal(name) for name, _, _ in rows], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel(f"policy total (return; linear within ±{bend:g}); bars: random control, 95%", fontsize=8)
    forks = f"{score.forks.retained} retained" if retained else f"{score.forks.attempted} attempted"
    axes.set_title(f"(a) {prefix}{forks} forks", fontsize=9, loc="left")
    set_decades(axes.xaxis, bend)


def _scatter(axes: Axes, score: TaskScore, trigger: str | None, *, retained: bool) -> None:
    """dR against a signal, with the median of its fitted thresholds."""
    evidence = score.evidence
    decisions = evidence.retained if retained else evidence.all_attempted
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
    kept = ~np.isnan(decided.signal)
    if retained:
        kept &= ~evidence.divergence.dropped
    signal, delta = decided.signal[kept], evidence.forks.delta[kept]
    size = float(np.median(np.abs(delta))) if len(delta) else 1.0
    bend = 10.0 ** np.floor(np.log10(size)) if size > 0 else 1.0
    axes.set_yscale("symlog", linthresh=bend)
    axes.axhline(0, color=SOFT, lw=0.8)
    draw_forks(axes, signal, delta, delta=delta)
    set_decades(axes.yaxis, bend)
    about = "threshold undefined"
    if decided.threshold is not None:
        ordered = np.sort(decided.threshold)
        threshold = float(ordered[(len(ordered) - 1) // 2])  # an infinite one has no mean with its neighbour
        about = "median threshold fires always" if threshold < 0 else "median threshold never fires"
        if np.isfinite(threshold):
            about = "dashed: median threshold"
            axes.axvline(threshold, color=INK, ls="--", lw=1)
    axes.set_xlabel(literal(name), fontsize=8)
    axes.set_ylabel("dR (return per episode)", fontsize=8)
    axes.set_title(f"(b) n = {len(delta)} forks; {about}", fontsize=9, loc="left")
