"""How dR is distributed, as bars of a histogram whose edges never straddle zero."""

import dataclasses
import functools
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from jaxtyping import Float

from worldfork.analysis.present.page.forks import places
from worldfork.analysis.present.page.material import Material
from worldfork.analysis.present.page.thresholds import SIDES
from worldfork.analysis.present.text import Answer, Group, answer, digits_for, known, rule_groups
from worldfork.analysis.score.records import Effect, TaskScore, TriggerScore
from worldfork.analysis.score.undefined import Bounds, Figure, Interval, Undefined

BARS: Final = 36  # about so many, whatever the range


@dataclasses.dataclass(frozen=True)
class Bar:
    """Forks with low <= dR < high, and their number as a share of the fullest bar's; exact zeros have their own."""

    low: float
    high: float
    forks: int
    share: float

    @property
    def side(self) -> str:
        """Which side of zero it lies on."""
        return "even" if self.low < 0 < self.high else "help" if self.low >= 0 else "hurt"


def bars(delta: Float[np.ndarray, "forks"]) -> list[Bar]:
    """The bars that hold every fork, between the extremes and zero; empty ones are left out."""
    reach = max(0.0, float(delta.max())) - min(0.0, float(delta.min()))
    # The smallest numbers there are have no thirty-sixth.
    width = _round_width(max((reach or 1.0) / BARS, sys.float_info.min))
    place, counts = np.unique(np.floor(delta[delta != 0] / width).astype(np.int64), return_counts=True)
    zeros = int((delta == 0).sum())
    most = max(zeros, int(counts.max(initial=0)))
    shown = [
        Bar(index * width, (index + 1) * width, count, count / most)
        for index, count in zip(place.tolist(), counts.tolist(), strict=True)
    ]
    return [*shown, Bar(-width / 4, width / 4, zeros, zeros / most)] if zeros else shown


def _round_width(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return power * next(times for times in (1, 2, 5, 10) if times * power >= rough)


TICKS = 5  # at most so many steps: a label each must fit on a phone


@dataclasses.dataclass(frozen=True)
class Axis:
    """A line from `low` to `high`."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def at(self, value: float) -> str:
        """Where a value lies; one beyond the line lies at its end."""
        share = (value - self.low) / (self.high - self.low)
        return f"{100 * min(1.0, max(0.0, share)):.2f}%"

    def span(self, ends: Interval | tuple[float, float]) -> str:
        """The style of a bar from one value to another."""
        low, high = sorted(ends)
        left, right = (float(self.at(end)[:-1]) for end in (low, high))
        return f"left:{left:.2f}%;width:{max(0.4, right - left):.2f}%"

    def minor(self, tick: float) -> bool:
        """Whether a tick is left out where there is room for every second one; zero never is."""
        step = self.ticks[1] - self.ticks[0] if len(self.ticks) > 1 else 1.0
        return len(self.ticks) > 3 and round(tick / step) % 2 == 1

    def beyond(self, value: float) -> bool:
        """Whether a value lies outside, so that an arrow must stand for it."""
        return not self.low <= value <= self.high


def axis(values: Iterable[Figure | Bounds | None], *, pad: float = 0.06) -> Axis:
    """A line that holds zero and all of these, with few round ticks."""
    known = [0.0]
    for value in values:
        if isinstance(value, Interval):
            known += value
        elif value is not None and not isinstance(value, Undefined):
            known.append(value)
    low, high = min(known), max(known)
    room = pad * (high - low) or 1.0
    low, high = low - room, high + room
    return Axis(low, high, _ticks(low, high))


def _ticks(low: float, high: float) -> tuple[float, ...]:
    rough = (high - low) / TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * next(times for times in (1, 2, 5, 10) if times * power >= rough)
    return tuple(index * step for index in range(math.ceil(low / step), math.floor(high / step) + 1))


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
        return self.score.triggers[side]

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
