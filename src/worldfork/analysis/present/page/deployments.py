"""Policies that were followed all the way: the question of the first screen, and each deployment as a line."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final

from worldfork.analysis.present.page.foreseen import foreseen
from worldfork.analysis.present.page.material import Material
from worldfork.analysis.present.page.view import Axis, axis
from worldfork.analysis.present.text import (
    AN_ORDER,
    FollowedAnswer,
    best_first,
    followed_answer,
    followed_digits,
    gains_over_never,
    known,
    minus,
    number,
)
from worldfork.analysis.score.deployment_records import Advantage, PolicyOutcome, TaskDeployment
from worldfork.analysis.score.deployments import sentences
from worldfork.analysis.score.undefined import Figure, Interval, Undefined

__all__ = ["Following", "deployment_section", "followed", "following"]

WIDTH: Final = 300
HEIGHT: Final = 148
LEFT: Final = 46
BASE: Final = 104  # where the plot ends; updates are marked below, then the episodes are counted
TOP: Final = 10


@dataclasses.dataclass(frozen=True)
class Strip:
    """A mean and its interval in the unit of the chart; a strip draws a bootstrap too, where there is one."""

    mean: Figure
    student_t: Interval | None
    bootstrap: None = None


@dataclasses.dataclass(frozen=True)
class FollowedPolicy:
    """One policy against never on one task, as the first screen draws it."""

    task: str
    name: str
    outcome: PolicyOutcome
    gained: Advantage
    digits: int
    never: Figure  # what never returned
    in_per_cent: bool  # drawn in per cent of that

    def drawn(self, value: Figure) -> Figure:
        """A difference with never as it is drawn."""
        if isinstance(value, Undefined) or isinstance(self.never, Undefined):
            return value
        return 100 * value / self.never if self.in_per_cent else value

    @property
    def share(self) -> Figure:
        """The difference as a share of what never returned."""
        if isinstance(self.gained.mean, Undefined) or isinstance(self.never, Undefined) or self.never <= 0:
            return Undefined("never returned nothing above 0 to take a share of")
        return self.gained.mean / self.never

    @property
    def strip(self) -> Strip:
        """The mean and its interval as they are drawn: where deployments diverged, those of the others."""
        estimate = self.gained if not self.outcome.diverged else known(self.outcome.retained)
        if estimate is None:
            return Strip(Undefined("no deployment is left that did not diverge"), None)
        interval = known(estimate.student_t)
        low, high = (None, None) if interval is None else (known(self.drawn(end)) for end in interval)
        return Strip(self.drawn(estimate.mean), None if low is None or high is None else Interval(low, high))

    @property
    def checkpoints(self) -> list[Figure]:
        """The difference of every checkpoint as it is drawn; none where one of them diverged."""
        if self.outcome.diverged:
            return []
        return [self.drawn(value) for value in self.gained.by_checkpoint.values()]


@dataclasses.dataclass(frozen=True)
class Following:
    """Does following a trigger all the way beat never? Every policy of every task on one axis, the best first."""

    answers: Sequence[FollowedAnswer]
    policies: Sequence[FollowedPolicy]
    axis: Axis
    in_per_cent: bool
    family: int
    diverged: Sequence[str]  # policies with deployments that diverged, a sentence each
    cautions: Sequence[str]  # how far to trust the intervals

    @property
    def several_tasks(self) -> bool:
        """Whether a line must say which task it is about."""
        return len(self.answers) > 1


def followed(material: Material) -> bool:
    """Whether this ledger has deployments."""
    return bool(material.score.deployment)


def following(material: Material) -> Following | None:
    """The answer of a deployment study; None where nothing was followed."""
    tasks = material.score.deployment
    if not tasks:
        return None
    returned = {task: known(one.policies["never"].returned) for task, one in tasks.items()}
    in_per_cent = all(never is not None and never > 0 for never in returned.values())
    policies = []
    for task, one in tasks.items():
        gains = gains_over_never(one)
        for name in (name for name in best_first(one) if name in gains):
            outcome, never = one.policies[name], one.policies["never"].returned
            policies.append(
                FollowedPolicy(task, name, outcome, gains[name], followed_digits(one), never, in_per_cent)
            )
    diverged = [sentence for one in tasks.values() for sentence in sentences(one.policies, one.cells)]
    said = dict.fromkeys(caution for one in tasks.values() for caution in one.cautions)
    return Following(
        answers=[followed_answer(task, one) for task, one in tasks.items()],
        policies=policies,
        axis=axis([value for one in policies for value in (one.strip.mean, one.strip.student_t, *one.checkpoints)]),
        in_per_cent=in_per_cent,
        family=max(one.family for one in tasks.values()),
        diverged=diverged,
        cautions=[caution for caution in said if caution not in diverged],
    )


def deployment_section(material: Material) -> object:
    """Everything that the section prints and draws, task by task."""
    return [_task(task, one) for task, one in material.score.deployment.items()]


def _task(task: str, one: TaskDeployment) -> Mapping[str, object]:
    steady = [outcome for outcome in one.policies.values() if not outcome.diverged]
    values = [value for outcome in steady for value in _numbers(outcome.by_episode)]
    low, high = min([0.0, *values]), max([0.0, *values])
    reach = (high - low) or 1.0
    return {
        "task": task,
        "one": one,
        "ranked": [(name, one.policies[name]) for name in best_first(one)],
        "foreseen": foreseen(one, digits=followed_digits(one)),
        "an_order": AN_ORDER,
        "digits": followed_digits(one),
        "added": [
            (name, added)
            for name in best_first(one)
            if (added := known(one.policies[name].over_always)) is not None
        ],
        "ways": one.directions if len(one.directions) > 1 else (),
        "width": WIDTH,
        "height": HEIGHT,
        "left": LEFT,
        "base": BASE,
        "zero": _y(0.0, low, reach),
        "low": {"y": _y(low, low, reach), "text": minus(number(low, 0))},
        "high": {"y": _y(high, low, reach), "text": minus(number(high, 0))},
        "panels": [
            _panel(name, one.policies[name], low=low, reach=reach) for name in best_first(one) if name != "never"
        ],
    }


def _panel(name: str, outcome: PolicyOutcome, *, low: float, reach: float) -> Mapping[str, object]:
    """One policy's line, and how many of its deployments updated after each episode."""
    count = len(outcome.by_episode)
    places = [LEFT + (WIDTH - LEFT - 8) * (k + 0.5) / count for k in range(count)]
    points = [
        f"{x:.1f},{_y(min(max(value, low), low + reach), low, reach):.1f}"
        for x, value in zip(places, outcome.by_episode, strict=True)
        if not isinstance(value, Undefined)
    ]
    marks = [
        {"x": round(x, 1), "k": k, "share": round(share, 3)}
        for k, (x, share) in enumerate(zip(places, outcome.fired_at, strict=True), start=1)
        if not isinstance(share, Undefined) and share > 0
    ]
    rows = [
        [k, known(gain), known(share)]
        for k, (gain, share) in enumerate(zip(outcome.by_episode, outcome.fired_at, strict=True), start=1)
    ]
    return {
        "name": name,
        "points": " ".join(points),
        "marks": marks,
        "episodes": [(1, places[0]), (count, places[-1])] if count > 1 else [(1, places[0])],
        "rows": rows,
        "kind": _kind(known(outcome.advantage)),
        "updates": f"{outcome.updates:.1f}",
        "diverged": len(outcome.diverged),
    }


def _kind(advantage: Advantage | None) -> str:
    """Blue or orange where the policy can be told apart from never, ink where it can not."""
    mean = None if advantage is None else known(advantage.mean)
    if advantage is None or mean is None or known(advantage.grade) not in ("resolved", "leaning"):
        return "ink"
    return "help" if mean > 0 else "hurt"


def _y(value: float, low: float, reach: float) -> float:
    return round(BASE - (BASE - TOP) * (value - low) / reach, 1)


def _numbers(values: Sequence[Figure]) -> list[float]:
    return [value for value in values if not isinstance(value, Undefined)]
