"""Figures of policies: totals beside chance, forks against a signal, and closed-loop deployments."""

import math
import statistics
from collections.abc import Collection
from typing import Final, Literal

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
from worldfork.analysis.present.text.deployments import best_first, followed_digits
from worldfork.analysis.present.text.formatting import defined, number
from worldfork.analysis.score import Score, TaskScore
from worldfork.analysis.score.deployment_records import PolicyOutcome, TaskDeployment
from worldfork.analysis.score.permutation_nulls import RandomControl
from worldfork.analysis.score.undefined import Estimand
from worldfork.errors import WorldforkError


def policies(
    score: Score,
    *,
    arm: str | None = None,
    task: str | None = None,
    trigger: str | None = None,
    estimand: Literal["all_attempted", "retained"] = "all_attempted",
) -> Drawing:
    """Return the totals of all rules with the 95% of their random controls, and dR against a signal.

    Args:
        score: the study.
        arm: the arm that is drawn; without it the first.
        task: the task; without it every one, a row of panels each.
        trigger: the signal, with the median of its fitted thresholds; without it the residual, or the first.
        estimand: the forks that are drawn.
    """
    _, tasks = chosen(score, arm=arm, task=task)
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


ACROSS: Final = 4  # panels in a row
BELOW: Final = 0.25  # of the height, under the lines, is for the bars


def followed(score: Score, *, task: str | None = None) -> Drawing:
    """Return a line per policy, the best first: its return above never with its Student-t interval.

    A ring is what the one-step ledger says of the policy. Without `task` the first is drawn.
    """
    deployed = _deployed(score, task)
    names = [name for name in best_first(deployed) if name != "never"]
    digits = followed_digits(deployed)
    figure = Drawing(figsize=(7.0, 1.0 + 0.2 * len(names)), layout="constrained")
    axes = figure.subplots()
    axes.axvline(0, color=SOFT, lw=0.8)
    for row, name in enumerate(names):
        outcome = deployed.policies[name]
        _interval(axes, row, outcome)
        if (foreseen := defined(outcome.ledger_value)) is not None:
            axes.plot(foreseen, row, "o", mfc="none", mec=SOFT, ms=5)
    gains = [defined(deployed.policies[name].advantage) for name in names]
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
    """Return a panel per policy, the best first: the advantage of each episode, mean over checkpoints.

    Bars below are the share of deployments that updated after the episode. Without `task` the first is drawn.
    """
    deployed = _deployed(score, task)
    policies = {name: deployed.policies[name] for name in best_first(deployed) if name != "never"}
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
    """Return the deployments of the task of that name, or of the first."""
    if not score.deployment:
        raise WorldforkError(
            "This score has no deployments: register [deployment] and run it (docs/deployment.md)."
        )
    return score.deployment[pick(score.deployment, task, "task with deployments")]


def _interval(axes: Axes, row: int, outcome: PolicyOutcome) -> None:
    """Draw the mean and its interval; where deployments diverged, those of the others, which else set the scale."""
    estimate = defined(outcome.retained) if outcome.diverged else defined(outcome.advantage)
    if estimate is None:
        return
    gained = defined(outcome.advantage)
    style = "--" if gained is not None and defined(gained.grade) == "leaning" else "-"
    if ends := defined(estimate.student_t):
        axes.plot(ends, [row, row], style, color=_colour(outcome), lw=1.5)
    if (mean := defined(estimate.mean)) is not None:
        axes.plot(mean, row, "o", color=_colour(outcome), ms=5)


def _reach(outcomes: Collection[PolicyOutcome]) -> tuple[float, float] | None:
    """Return the range of the policies that did not diverge, where another did: its line leaves the panel."""
    steady = [outcome for outcome in outcomes if not outcome.diverged]
    values = [
        value for outcome in steady for episode in outcome.by_episode if (value := defined(episode)) is not None
    ]
    if not values or len(steady) == len(outcomes):
        return None
    low, high = min([0.0, *values]), max([0.0, *values])
    room = 0.05 * (high - low) or 1.0
    return low - room, high + room


def _line(axes: Axes, name: str, outcome: PolicyOutcome) -> None:
    values = [math.nan if (value := defined(episode)) is None else value for episode in outcome.by_episode]
    shares = [defined(share) or 0.0 for share in outcome.fired_at]
    episodes = range(1, len(values) + 1)
    gained = defined(outcome.advantage)
    mean = None if gained is None else defined(gained.mean)
    axes.axhline(0, color=SOFT, lw=0.8)
    axes.plot(episodes, values, "o-", ms=3, lw=1.5, color=_colour(outcome))
    below = axes.twinx()
    below.bar(episodes, shares, width=0.5, color=BAND, alpha=0.35)
    below.set(ylim=(0, 1.2 / BELOW * (1 + BELOW)), yticks=[])
    below.spines[:].set_visible(False)
    axes.set_title(f"{literal(name)}\n{outcome.updates:.1f} updates, {number(mean, 1)}", fontsize=8)


def _colour(outcome: PolicyOutcome) -> str:
    """Return blue or orange where the policy differs from never, as on the page; black where it is unresolved."""
    gained = defined(outcome.advantage)
    mean = None if gained is None else defined(gained.mean)
    if gained is None or mean is None or defined(gained.grade) not in ("resolved", "leaning"):
        return INK
    return HELP if mean > 0 else HURT
