"""Policies that were followed all the way: what each returned more than never, in all and episode by episode."""

from collections.abc import Collection

import numpy as np
from matplotlib.axes import Axes

from worldfork.desk.figures.drawing import BAND, HELP, HURT, INK, SOFT, Drawing, literal, tidy
from worldfork.desk.scoring import Score
from worldfork.desk.scoring.deployment_records import PolicyOutcome, TaskDeployment
from worldfork.desk.wording import best_first, followed_digits, known, number
from worldfork.errors import WorldforkError

__all__ = ["deployment", "followed"]

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
