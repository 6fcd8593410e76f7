"""Places on a line: axes, strips and histograms; and every task of every arm as the templates print it."""

import dataclasses
import functools
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from jaxtyping import Float

from worldfork.analysis.present.page.forks import places
from worldfork.analysis.present.page.material import Material
from worldfork.analysis.present.page.thresholds import SIDES
from worldfork.analysis.present.table import Table
from worldfork.analysis.present.tables.effects import KEYS
from worldfork.analysis.present.tables.value import prices, trials
from worldfork.analysis.present.text.answers import Answer, answer
from worldfork.analysis.present.text.arms import changed, update_words
from worldfork.analysis.present.text.formatting import defined, digits_for
from worldfork.analysis.present.text.triggers import Group, Rule, rule_groups
from worldfork.analysis.score.curves import CurvePoint
from worldfork.analysis.score.effects import Effect
from worldfork.analysis.score.records import TaskScore
from worldfork.analysis.score.undefined import Bounds, Figure, Interval, Undefined

BARS: Final = 36  # about so many, whatever the range
TICKS: Final = 5  # at most so many steps: a label each must fit on a phone
PAD: Final = 0.06  # of an axis, to either side of what lies on it


@dataclasses.dataclass(frozen=True)
class Axis:
    """A line from `low` to `high` with its ticks."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def at(self, value: float) -> str:
        """Return the place of a value in per cent of the line; a value beyond the line lies at its end."""
        share = (value - self.low) / (self.high - self.low)
        return f"{100 * min(1.0, max(0.0, share)):.2f}%"

    def span(self, ends: Interval | tuple[float, float]) -> str:
        """Return the style of a bar from one value to another."""
        low, high = sorted(ends)
        left, right = (float(self.at(end)[:-1]) for end in (low, high))
        return f"left:{left:.2f}%;width:{max(0.4, right - left):.2f}%"

    def minor(self, tick: float) -> bool:
        """Return whether a narrow screen leaves out the label of this tick; that of zero always stays."""
        step = self.ticks[1] - self.ticks[0] if len(self.ticks) > 1 else 1.0
        return len(self.ticks) > 2 and round(tick / step) % 2 == 1

    def beyond(self, value: float) -> bool:
        """Return whether a value lies outside, so that an arrow must stand for it."""
        return not self.low <= value <= self.high


@dataclasses.dataclass(frozen=True, kw_only=True)
class Strip:
    """Line of a chart: a mean with its intervals, and what it is to be seen beside."""

    mean: Figure
    student_t: Bounds | None = None
    bootstrap: Bounds | None = None
    checkpoints: Sequence[Figure] = ()
    chance: Figure | None = None
    chance_interval: Bounds | None = None
    forecast: Figure | None = None
    kind: str = ""  # of the dot: "hollow" fails a test, "grey" was not tested

    def values(self) -> Iterator[Figure | Bounds | None]:
        """Yield everything that the axis has to hold."""
        yield from (self.mean, self.student_t, self.bootstrap, self.chance_interval, self.forecast)
        yield from self.checkpoints


def axis(strips: Iterable[Strip], *, pad: float = PAD) -> Axis:
    """Return a line that holds zero and everything on these strips, with few round ticks."""
    held = [0.0]
    for strip in strips:
        for value in strip.values():
            if isinstance(value, Interval):
                held += value
            elif value is not None and not isinstance(value, Undefined):
                held.append(value)
    low, high = min(held), max(held)
    room = pad * (high - low) or 1.0
    low, high = low - room, high + room
    step = _round((high - low) / TICKS)
    ticks = tuple(index * step for index in range(math.ceil(low / step), math.floor(high / step) + 1))
    return Axis(low, high, ticks)


def near_axis(near: Sequence[Strip], far: Sequence[Strip]) -> Axis:
    """Return a line for all strips, or for the near ones alone where the far ones would leave these no room."""
    inner, outer = axis(near), axis([*near, *far])
    return inner if outer.high - outer.low > 2.5 * (inner.high - inner.low) else outer


def effect_strip(effect: Effect, *, checkpoints: bool = False) -> Strip:
    """Return the strip of a mean over checkpoints."""
    dots = tuple(effect.by_checkpoint.values()) if checkpoints else ()
    return Strip(mean=effect.mean, student_t=effect.student_t, bootstrap=effect.bootstrap, checkpoints=dots)


def curve_strip(point: CurvePoint) -> Strip:
    """Return the strip of a place along a curve: the band of all places, and in bold the interval of this one."""
    return Strip(mean=point.mean, student_t=point.band, bootstrap=point.student_t)


def rule_strip(rule: Rule) -> Strip:
    """Return the strip of an update rule beside its chance."""
    return Strip(
        mean=rule.earned,
        student_t=rule.interval,
        chance=rule.chance,
        chance_interval=rule.chance_interval,
        kind={"passes": "", "untested": "grey"}.get(rule.kind, "hollow"),
    )


def compare_axis(shown: Sequence["Part"], side: str) -> Axis:
    """Return one line for all parts and their directions."""
    return axis(strip for part in shown for strip in part.strips(side).values())


def around(mean: Figure, error: Figure) -> Interval | None:
    """Return a mean with its standard error to either side, where there is one."""
    if isinstance(mean, Undefined):
        return None
    half = defined(error) or 0.0
    return Interval(mean - half, mean + half)


def _round(rough: float) -> float:
    """Return 1, 2 or 5 times a power of ten, not below `rough`."""
    power = 10.0 ** math.floor(math.log10(rough))
    return power * next(times for times in (1, 2, 5, 10) if times * power >= rough)


@dataclasses.dataclass(frozen=True)
class Bar:
    """Forks with low <= dR < high, and their number as a share of the fullest bar's; exact zeros have their own."""

    low: float
    high: float
    forks: int
    share: float

    @property
    def side(self) -> str:
        """Side of zero that it lies on."""
        return "even" if self.low < 0 < self.high else "help" if self.low >= 0 else "hurt"


def bars(delta: Float[np.ndarray, "forks"]) -> list[Bar]:
    """Return the bars of a histogram that hold every fork; none straddles zero, and empty ones are left out."""
    reach = max(0.0, float(delta.max())) - min(0.0, float(delta.min()))
    # The smallest numbers there are have no thirty-sixth.
    width = _round(max((reach or 1.0) / BARS, sys.float_info.min))
    place, counts = np.unique(np.floor(delta[delta != 0] / width).astype(np.int64), return_counts=True)
    zeros = int((delta == 0).sum())
    most = max(zeros, int(counts.max(initial=0)))
    shown = [
        Bar(index * width, (index + 1) * width, count, count / most)
        for index, count in zip(place.tolist(), counts.tolist(), strict=True)
    ]
    return [*shown, Bar(-width / 4, width / 4, zeros, zeros / most)] if zeros else shown


@dataclasses.dataclass(frozen=True)
class Part:
    """A task in one arm."""

    index: int
    arm: str
    task: str
    label: str  # the arm as readers know it
    update: str  # what its arm does; empty where a registration does not say
    several: bool  # whether the study has other arms
    score: TaskScore
    extremes: Mapping[str, tuple[int, float]]  # the worst and the best fork: its place on the page, and its dR

    @property
    def name(self) -> str:
        """The task, behind the arm where there are several."""
        return f"{self.label} · {self.task}" if self.several and self.label else self.task

    @property
    def digits(self) -> int:
        """Decimals of an effect."""
        return digits_for(self.score.effect.all_attempted)

    @functools.cached_property
    def answer(self) -> Answer:
        """The verdict in words."""
        return answer(self.score)

    @functools.cached_property
    def bars(self) -> list[Bar]:
        """Histogram of dR over all attempted forks."""
        return bars(self.score.evidence.forks.delta)

    @property
    def strip(self) -> Strip:
        """Mean over all attempted forks with the mean of every checkpoint."""
        return dataclasses.replace(effect_strip(self.score.effect.all_attempted, checkpoints=True), bootstrap=None)

    @functools.cached_property
    def axis(self) -> Axis:
        """A line for the histogram and the mean below it."""
        ends = tuple(end for bar in self.bars for end in (bar.low, bar.high))
        return axis([self.strip, Strip(mean=0.0, checkpoints=ends)], pad=0.02)

    def strips(self, side: str) -> dict[str, Strip]:
        """Return the strip of the mean, under an empty name, and those of every direction of drift."""
        effect: Effect = getattr(self.score.effect, side)
        return {"": effect_strip(effect)} | {
            direction: Strip(
                mean=effect.by_direction[direction], student_t=ends.student_t, bootstrap=ends.bootstrap
            )
            for direction, ends in effect.by_direction_intervals.items()
        }

    @property
    def curves(self) -> Mapping[str, Sequence[CurvePoint]]:
        """Places along drift, and along what the frozen model still returns, where these are known."""
        shown = {"level": self.score.curves.level, "hold_share": self.score.curves.hold_share}
        return {name: curve.points for name, curve in shown.items() if not isinstance(curve, Undefined)}

    @property
    def value_tables(self) -> Sequence[Table]:
        """Trials before an update is kept, and prices of an update."""
        tables = (build({("", ""): self.score}).without(*KEYS) for build in (trials, prices))
        return [table for table in tables if table.rows]

    @property
    def bin_strips(self) -> list[Strip]:
        """Mean dR by what HOLD returned, with its standard error to either side."""
        bins = defined(self.score.contraction.bins) or ()
        return [Strip(mean=part.mean, student_t=around(part.mean, part.standard_error)) for part in bins]

    @property
    def points(self) -> int:
        """Decision points of a deployment."""
        return int(self.score.evidence.forks.prefork.k.max())

    def forks(self, side: str) -> int:
        """Return how many forks are scored."""
        return self.score.forks.attempted if side == "all_attempted" else self.score.forks.retained

    @property
    def sides(self) -> Sequence[str]:
        """Sets of forks that differ: where nothing diverged, the retained are all that were attempted."""
        return SIDES if self.score.forks.diverged else SIDES[:1]

    def rules(self, side: str) -> list[Group]:
        """Return every update rule, in groups."""
        return rule_groups(self.score, side=side)

    def rules_axis(self, shown: Sequence[Group]) -> Axis:
        """Return a line for what they earn; always updating may lie far outside."""
        rules = [rule for group in shown for rule in group.rules]
        near = [rule_strip(rule) for rule in rules if rule.name != "always"]
        return near_axis(near, [rule_strip(rule) for rule in rules if rule.name == "always"])

    @property
    def unreadable(self) -> Mapping[str, Sequence[str]]:
        """Triggers that are left out, by the reason."""
        reasons: dict[str, list[str]] = {}
        for name, reason in self.score.triggers_unavailable.items():
            reasons.setdefault(reason, []).append(name)
        return reasons


def parts(material: Material) -> list[Part]:
    """Return every task of every arm, in the order of the score."""
    several = len(material.score.arms) > 1
    scores = [
        (arm, task, score) for arm, scored in material.score.arms.items() for task, score in scored.tasks.items()
    ]
    return [
        Part(
            index,
            arm,
            task,
            label=material.score.label(arm),
            update=_update(material, arm),
            several=several,
            score=score,
            extremes=_extremes(material, arm, task, score),
        )
        for index, (arm, task, score) in enumerate(scores)
    ]


def _update(material: Material, arm: str) -> str:
    """Return what UPDATE does in an arm: of the first all of it, of a later one what it has otherwise."""
    registration = material.study.registration if material.study else None
    if registration is None:
        return ""
    first = registration.arms[0].name
    return "; ".join(changed(registration, first, arm)) or update_words(registration)


def _extremes(material: Material, arm: str, task: str, score: TaskScore) -> dict[str, tuple[int, float]]:
    """Return the worst and the best fork by their places in the page's order, which depends on the whole ledger."""
    forks = score.evidence.forks
    shown = places(forks, material.rows, arm=arm, task=task)
    order = np.argsort(forks.delta, kind="stable")
    return {
        name: (shown.index.index(int(order[end])), float(forks.delta[order[end]]))
        for name, end in (("worst", 0), ("best", -1))
    }
