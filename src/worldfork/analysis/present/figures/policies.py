"""Figure 2: every rule's total beside its random control, and the forks against one signal."""

from collections.abc import Collection
from typing import Literal

import numpy as np
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
    set_decades,
    tidy,
)
from worldfork.analysis.present.text import best_first, followed_digits, known, number
from worldfork.analysis.score import Score, TaskScore
from worldfork.analysis.score.deployment_records import PolicyOutcome, TaskDeployment
from worldfork.analysis.score.records import RandomControl
from worldfork.errors import WorldforkError


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
    side = "retained" if retained else "all_attempted"
    fixed, triggers = score.policies[side], score.triggers[side]
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


ACROSS = 4  # panels in a row
BELOW = 0.25  # of the height, under the lines, is for the bars


def followed(score: Score, *, task: str | None = None) -> Drawing:
    """A line per policy, the best first: what following it returned more than never, with its Student-t interval,
    and as a ring what the one-step ledger says of it."""
    one = _deployed(score, task)
    names = [name for name in best_first(one) if name != "never"]
    digits = followed_digits(one)
    figure = Drawing(figsize=(7.0, 1.0 + 0.2 * len(names)), layout="constrained")
    axes = figure.subplots()
    axes.axvline(0, color=SOFT, lw=0.8)
    for row, name in enumerate(names):
        outcome = one.policies[name]
        _interval(axes, row, outcome)
        if (foreseen := known(outcome.ledger_value)) is not None:
            axes.plot(foreseen, row, "o", mfc="none", mec=SOFT, ms=5)
    gains = [known(one.policies[name].advantage) for name in names]
    shown = ["" if gained is None else number(gained.mean, digits) for gained in gains]
    axes.set_yticks(
        range(len(names)), [f"{literal(name)}  {mean}" for name, mean in zip(names, shown, strict=True)]
    )
    axes.invert_yaxis()
    figure.supxlabel(
        "return of an episode above never\n"
        "line: Student-t 95% over checkpoints, coloured where it excludes 0, dashed where the grade is leaning\n"
        "ring: by the one-step ledger",
        fontsize=8,
    )
    tidy(axes)
    return figure


def deployment(score: Score, *, task: str | None = None) -> Drawing:
    """One panel per policy, the best first: the advantage of each episode, mean over checkpoints, and as bars below
    it the share of deployments that updated after it."""
    one = _deployed(score, task)
    policies = {name: one.policies[name] for name in best_first(one) if name != "never"}
    across = min(ACROSS, len(policies))
    rows = -(-len(policies) // across)
    figure = Drawing(figsize=(2.9 * across, 2.4 * rows), layout="constrained")
    panels = figure.subplots(rows, across, squeeze=False, sharex=True, sharey=True)
    for axes, (key, outcome) in zip(panels.flat, policies.items(), strict=False):
        _line(axes, key, outcome)
    low, high = _reach(policies.values()) or panels[0, 0].get_ylim()
    panels[0, 0].set_ylim(low - BELOW * (high - low), high)  # shared: room for the bars
    for axes in panels.flat[len(policies) :]:
        axes.set_visible(False)
    for axes in panels[:, 0]:
        axes.set_ylabel("return above never")
    for axes in panels[-1]:
        axes.set_xlabel("episode; bars: share that updated after it", fontsize=8)
    tidy(*panels.flat)
    return figure


def _deployed(score: Score, task: str | None) -> TaskDeployment:
    """The task of that name, or the first."""
    if not score.deployment:
        raise WorldforkError(
            "This score has no deployments: register [deployment] and run it (docs/deployment.md)."
        )
    name = task or next(iter(score.deployment))
    if name not in score.deployment:
        raise WorldforkError(f"No deployment is on `{name}`; there are {', '.join(score.deployment)}.")
    return score.deployment[name]


def _interval(axes: Axes, row: int, outcome: PolicyOutcome) -> None:
    """The mean and its interval; where deployments diverged, those of the others, for one would be the scale."""
    estimate = known(outcome.retained) if outcome.diverged else known(outcome.advantage)
    if estimate is None:
        return
    gained = known(outcome.advantage)
    style = "--" if gained is not None and known(gained.grade) == "leaning" else "-"
    if ends := known(estimate.student_t):
        axes.plot(ends, [row, row], style, color=_colour(outcome), lw=1.5)
    if (mean := known(estimate.mean)) is not None:
        axes.plot(mean, row, "o", color=_colour(outcome), ms=5)


def _reach(outcomes: Collection[PolicyOutcome]) -> tuple[float, float] | None:
    """Where the lines of policies lie that did not diverge, where another one did: its line leaves the panel."""
    steady = [outcome for outcome in outcomes if not outcome.diverged]
    values = [value for outcome in steady for one in outcome.by_episode if (value := known(one)) is not None]
    if not values or len(steady) == len(outcomes):
        return None
    low, high = min([0.0, *values]), max([0.0, *values])
    room = 0.05 * (high - low) or 1.0
    return low - room, high + room


def _line(axes: Axes, name: str, outcome: PolicyOutcome) -> None:
    values = np.array([np.nan if (value := known(one)) is None else value for one in outcome.by_episode])
    shares = np.array([known(share) or 0.0 for share in outcome.fired_at])
    episodes = np.arange(1, len(values) + 1)
    gained = known(outcome.advantage)
    mean = None if gained is None else known(gained.mean)
    axes.axhline(0, color=SOFT, lw=0.8)
    axes.plot(episodes, values, "o-", ms=3, lw=1.5, color=_colour(outcome))
    below = axes.twinx()
    below.bar(episodes, shares, width=0.5, color=BAND, alpha=0.35)
    below.set(ylim=(0, 1.2 / BELOW * (1 + BELOW)), yticks=[])
    below.spines[:].set_visible(False)
    axes.set_title(f"{literal(name)}\n{outcome.updates:.1f} updates, {number(mean, 1)}", fontsize=8)


def _colour(outcome: PolicyOutcome) -> str:
    """Blue or orange where the policy can be told apart from never, as on the page; black where it can not."""
    gained = known(outcome.advantage)
    mean = None if gained is None else known(gained.mean)
    if gained is None or mean is None or known(gained.grade) not in ("resolved", "leaning"):
        return INK
    return HELP if mean > 0 else HURT
