"""Policies of a closed-loop deployment study: each beside never updating, in one table, and episode by episode."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final

from worldfork.analysis.present.page.material import Material
from worldfork.analysis.present.page.view import Axis, Strip, near_axis
from worldfork.analysis.present.table import Table
from worldfork.analysis.present.tables.deployments import orders
from worldfork.analysis.present.text.deployments import (
    FollowedAnswer,
    best_first,
    followed_answer,
    followed_digits,
    gains_over_never,
    silent_policies,
)
from worldfork.analysis.present.text.formatting import defined, minus, number
from worldfork.analysis.score.deployment_records import Advantage, PolicyOutcome, TaskDeployment, sentences
from worldfork.analysis.score.undefined import Figure, Undefined

WIDTH: Final = 300
HEIGHT: Final = 148
LEFT: Final = 46
BASE: Final = 104  # where the plot ends; updates are marked below, then the episodes are counted
TOP: Final = 10


@dataclasses.dataclass(frozen=True)
class Policy:
    """A policy that fired, against never."""

    name: str
    outcome: PolicyOutcome
    gained: Advantage
    share: Figure  # of what never returned

    @property
    def strip(self) -> Strip:
        """The gain as it is drawn; where deployments diverged, that of the others."""
        if self.outcome.diverged:
            kept = defined(self.outcome.retained)
            if kept is None:
                return Strip(mean=Undefined("no deployment is left that did not diverge"))
            return Strip(mean=kept.mean, student_t=kept.student_t)
        dots = tuple(self.gained.by_checkpoint.values())
        return Strip(
            mean=self.gained.mean,
            student_t=self.gained.student_t,
            checkpoints=dots,
            forecast=self.outcome.ledger_value,
        )

    @property
    def loses(self) -> bool:
        """True where it is shown to return less than never."""
        mean = defined(self.gained.mean)
        return mean is not None and mean < 0 and defined(self.gained.grade) in ("resolved", "leaning")


@dataclasses.dataclass(frozen=True)
class Deployment:
    """Every policy of one task, the best first."""

    task: str
    deployed: TaskDeployment
    answer: FollowedAnswer
    policies: Sequence[Policy]
    silent: Sequence[str]  # policies that never fired
    axis: Axis
    diverged: Sequence[str]  # policies with deployments that diverged, a sentence each
    panels: Sequence[Mapping[str, object]]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    base: int = BASE

    @property
    def orders(self) -> Table:
        """Return how well each forecast orders policies."""
        return orders({self.task: self.deployed}).without("Task")

    @property
    def digits(self) -> int:
        """Decimals of a return."""
        return followed_digits(self.deployed)

    @property
    def cautions(self) -> list[str]:
        """Sentences on how far to trust the intervals."""
        return [caution for caution in self.deployed.cautions if caution not in self.diverged]


def was_deployed(material: Material) -> bool:
    """Return whether this ledger has closed-loop deployments."""
    return bool(material.score.deployment)


def deployments(material: Material) -> list[Deployment]:
    """Return the policies of every task."""
    return [_deployment(task, deployed) for task, deployed in material.score.deployment.items()]


def _deployment(task: str, deployed: TaskDeployment) -> Deployment:
    gains, never = gains_over_never(deployed), defined(deployed.policies["never"].returned)
    ranked = [name for name in best_first(deployed) if name in gains]
    silent = silent_policies(deployed)
    fired = [name for name in ranked if name not in silent]
    policies = [
        Policy(name, deployed.policies[name], gains[name], _share(gains[name].mean, never)) for name in fired
    ]
    near = [policy.strip for policy in policies if not policy.loses]
    return Deployment(
        task=task,
        deployed=deployed,
        answer=followed_answer(task, deployed),
        policies=policies,
        silent=[name for name in ranked if name in silent],
        axis=near_axis(near, [policy.strip for policy in policies if policy.loses]),
        diverged=list(sentences(deployed.policies, deployed.cells)),
        panels=_panels(deployed, fired),
    )


def _share(mean: Figure, never: float | None) -> Figure:
    if isinstance(mean, Undefined) or never is None or never <= 0:
        return Undefined("never returned nothing above 0 to take a share of")
    return mean / never


def _panels(deployed: TaskDeployment, fired: Sequence[str]) -> list[Mapping[str, object]]:
    """Return a chart for every policy; those that fire the same update share a scale."""
    by_update: dict[str, list[str]] = {}
    for name in fired:
        by_update.setdefault(deployed.policies[name].always or name, []).append(name)
    panels = []
    for names in by_update.values():
        outcomes = {name: deployed.policies[name] for name in names}
        steady = [outcome for outcome in outcomes.values() if not outcome.diverged]
        values = [value for outcome in steady for value in outcome.by_episode if not isinstance(value, Undefined)]
        low, high = min([0.0, *values]), max([0.0, *values])
        panels += [_panel(name, outcome, low, high) for name, outcome in outcomes.items()]
    return panels


def _panel(name: str, outcome: PolicyOutcome, low: float, high: float) -> Mapping[str, object]:
    """Return a policy's line, and how many of its deployments updated after each episode."""

    def y(value: float) -> float:
        inside = min(max(value, low), high)
        return round(BASE - (BASE - TOP) * (inside - low) / ((high - low) or 1.0), 1)

    count = len(outcome.by_episode)
    places = [round(LEFT + (WIDTH - LEFT - 8) * (k + 0.5) / count, 1) for k in range(count)]
    lines = list(enumerate(zip(places, outcome.by_episode, outcome.fired_at, strict=True), start=1))
    advantage = defined(outcome.advantage)
    apart = advantage is not None and defined(advantage.grade) in ("resolved", "leaning")
    mean = defined(advantage.mean) if advantage is not None else None
    return {
        "name": name,
        "points": " ".join(f"{x},{y(gain)}" for _, (x, gain, _) in lines if not isinstance(gain, Undefined)),
        "marks": [
            {"x": x, "k": k, "share": round(share, 3)}
            for k, (x, _, share) in lines
            if not isinstance(share, Undefined) and share > 0
        ],
        "rows": [[k, defined(gain), defined(share)] for k, (_, gain, share) in lines],
        "ends": sorted({1: places[0], count: places[-1]}.items()) if count else [],
        "zero": y(0.0),
        "levels": [(y(value), minus(number(value, 0))) for value in (low, high) if abs(y(value) - y(0.0)) > 12],
        "kind": ("help" if (mean or 0.0) > 0 else "hurt") if apart else "",
        "updates": f"{outcome.updates:.1f}",
        "diverged": len(outcome.diverged),
    }
