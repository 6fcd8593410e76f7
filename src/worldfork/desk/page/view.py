"""What the templates print, part by part: a part is one task in one arm. Every number comes from the score."""

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from worldfork.desk.page.distribution import Bar, bars
from worldfork.desk.page.forks import places
from worldfork.desk.page.material import Material
from worldfork.desk.page.strips import Axis, axis
from worldfork.desk.page.thresholds import SIDES
from worldfork.desk.scoring.records import Effect, TaskScore, TriggerScore
from worldfork.desk.scoring.undefined import Bounds, Figure, Interval, Undefined
from worldfork.desk.wording import Answer, Group, answer, digits_for, known, rule_groups

__all__ = ["SIDES", "Extreme", "Part", "compare_axis", "effect_axis", "parts"]

# Where a fork stands in the page's list depends on the whole ledger: the parts are made by `parts` alone.
FORKS: Final = ("worst", "median", "best")


@dataclasses.dataclass(frozen=True)
class Extreme:
    """A fork that the answer names: where it stands on the page, and what it was worth."""

    what: str
    fork: int
    delta: float
    name: str


@dataclasses.dataclass(frozen=True)
class Part:
    """One task in one arm."""

    index: int
    arm: str
    task: str
    name: str
    score: TaskScore
    extremes: Sequence[Extreme]

    @property
    def digits(self) -> int:
        """Decimals of an effect; a total has one less."""
        return digits_for(self.score.effect.all_attempted)

    @functools.cached_property
    def answer(self) -> Answer:
        """What it says in words."""
        return answer(self.score)

    @functools.cached_property
    def axis(self) -> Axis:
        """A line that holds the bars of every fork's dR, both estimands and their intervals."""
        effects = [self.score.effect.all_attempted, self.score.effect.retained]
        ends = [end for bar in self.bars for end in (bar.low, bar.high)]
        return axis([*_effect_values(effects), *ends], pad=0.02)

    @functools.cached_property
    def bars(self) -> list[Bar]:
        """How dR is distributed over all attempted forks."""
        return bars(self.score.evidence.forks.delta)

    def forks(self, side: str) -> int:
        """How many forks are scored."""
        return self.score.forks.attempted if side == "all_attempted" else self.score.forks.retained

    @property
    def points(self) -> int:
        """Decision points of a deployment."""
        return int(self.score.evidence.forks.prefork.k.max())

    def triggers(self, side: str) -> Mapping[str, TriggerScore]:
        """Every trigger."""
        return self.score.triggers_all_attempted if side == "all_attempted" else self.score.triggers

    @property
    def sides(self) -> Sequence[str]:
        """The sets of forks that differ: where nothing diverged, the retained are all that were attempted."""
        return SIDES if self.score.forks.diverged else SIDES[:1]

    def rules(self, side: str) -> list[Group]:
        """Every update rule, in groups."""
        return rule_groups(self.score, side=side)

    def rules_axis(self, shown: Sequence[Group]) -> Axis:
        """A line for what they earn."""
        return _rules_axis(shown)

    @property
    def unreadable(self) -> Mapping[str, Sequence[str]]:
        """Triggers that are left out, by the reason."""
        reasons: dict[str, list[str]] = {}
        for name, reason in self.score.triggers_unavailable.items():
            reasons.setdefault(reason, []).append(name)
        return reasons

    def passing(self, side: str) -> list[str]:
        """The registered candidates that beat their random controls."""
        return [
            name
            for name, figures in self.triggers(side).items()
            if figures.passes_control is True and figures.standing == "candidate"
        ]

    def candidates_read(self, side: str) -> int:
        """How many registered candidates could be read."""
        return sum(figures.standing == "candidate" for figures in self.triggers(side).values())

    @property
    def bins_axis(self) -> Axis:
        """A line for mean dR by what HOLD returned, standard errors included."""
        return axis([around(bar.mean, bar.standard_error) for bar in known(self.score.contraction.bins) or ()])

    @property
    def severity_axis(self) -> Axis:
        """A line for mean dR by severity."""
        shown = known(self.score.severity) or ()
        return axis([value for one in shown for value in (one.checkpoint_mean, one.student_t)])

    def around(self, mean: Figure, error: Figure) -> Interval | None:
        """A mean with its standard error to either side."""
        return around(mean, error)


def parts(material: Material) -> list[Part]:
    """Every task of every arm, in the order of the score."""
    several = len(material.score.arms) > 1
    scores = [
        (arm, task, score) for arm, scored in material.score.arms.items() for task, score in scored.tasks.items()
    ]
    return [
        Part(
            *(index, arm, task, f"{arm} · {task}" if several and arm else task, score),
            extremes=_extremes(material, arm, task, score),
        )
        for index, (arm, task, score) in enumerate(scores)
    ]


def compare_axis(shown: Sequence[Part], side: str) -> Axis:
    """One line for all parts and their directions."""
    effects: list[Effect] = [getattr(part.score.effect, side) for part in shown]
    directions = [
        value
        for effect in effects
        for intervals in effect.by_direction_intervals.values()
        for value in (intervals.student_t, intervals.bootstrap)
    ]
    return axis([*_effect_values(effects), *directions])


def effect_axis(effects: Sequence[Effect]) -> Axis:
    """A line that holds these means with their intervals."""
    return axis(_effect_values(effects))


def around(mean: Figure, error: Figure) -> Interval | None:
    """A mean with its standard error to either side, where there is one."""
    if isinstance(mean, Undefined):
        return None
    half = known(error) or 0.0
    return Interval(mean - half, mean + half)


def _effect_values(effects: Sequence[Effect]) -> Iterable[Figure | Bounds]:
    for effect in effects:
        yield from (effect.mean, effect.student_t, effect.bootstrap, *effect.by_checkpoint.values())


def _rules_axis(shown: Iterable[Group]) -> Axis:
    """A line for what all rules earn. Always updating may lie far outside: then an arrow stands for it."""
    rules = [rule for group in shown for rule in group.rules]
    values = [
        value
        for rule in rules
        if rule.name != "always"
        for value in (rule.earned, rule.interval, rule.chance_interval)
    ]
    always = next(rule for rule in rules if rule.name == "always")
    inside, total = axis(values), known(always.earned)
    if total is None or inside.high - inside.low < 0.4 * abs(total):
        return inside
    return axis([*values, always.earned, always.interval])


def _extremes(material: Material, arm: str, task: str, score: TaskScore) -> list[Extreme]:
    """The worst, a median and the best fork, by their places in the page's order."""
    forks = score.evidence.forks
    shown = places(forks, material.rows, arm=arm, task=task)
    order = np.argsort(forks.delta, kind="stable")
    place = {index: position for position, index in enumerate(shown.index) if index is not None}
    chosen = []
    for what, index in zip(FORKS, (order[0], order[(len(order) - 1) // 2], order[-1]), strict=True):
        key, k = shown.keys[place[int(index)]]
        chosen.append(
            Extreme(
                what,
                place[int(index)],
                float(forks.delta[index]),
                f"checkpoint {key.checkpoint}, {key.direction}, k = {k}",
            )
        )
    return chosen
