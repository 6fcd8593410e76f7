"""What the template prints, part by part: a part is one task in one arm. Every number comes from the score."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from worldfork.desk.page.material import Material
from worldfork.desk.page.strips import Axis, axis
from worldfork.desk.scoring.few_clusters import SIGNIFICANT
from worldfork.desk.scoring.partition import partition
from worldfork.desk.scoring.records import (
    Contrast,
    Effect,
    Estimands,
    RandomControl,
    ReferencePolicies,
    TaskScore,
    TriggerScore,
)
from worldfork.desk.scoring.undefined import Figure, Interval, Undefined
from worldfork.desk.triggers import is_reference
from worldfork.desk.wording import digits_for, known, rate
from worldfork.registration import Registration

__all__ = ["SIDES", "Comparison", "Dose", "Part", "Rule", "compare_axis", "comparisons", "doses", "parts"]

SIDES: Final = ("all_attempted", "retained")
BEATEN: Final = {
    "random": "its random control",
    "random_shift": "its shifted control",
    "swapped": "the fires of other checkpoints",
    "better_of_both": "the better of never and always",
    "position_table": "the position table",
}


@dataclasses.dataclass(frozen=True)
class Rule:
    """One line of the policies' table."""

    name: str
    total: Figure
    fires: int | Undefined | None
    figures: TriggerScore | None = None  # None for never, always and the oracle

    @property
    def random(self) -> RandomControl | None:
        """Its random control, where there is one."""
        return known(self.figures.random) if self.figures else None

    @property
    def standing(self) -> str:
        """Whether it was registered as a candidate, is a yardstick, or was looked at besides."""
        return "candidate" if self.figures is None else self.figures.standing

    @property
    def fails(self) -> list[str]:
        """What it should beat and does not."""
        useful = known(self.figures.useful) if self.figures else None
        return [BEATEN[name] for name in useful.does_not_beat] if useful else []

    @property
    def kind(self) -> str:
        """fixed, passes, or nothing to be said."""
        if self.figures is None:
            return "fixed"
        return "passes" if self.figures.passes_control is True else ""


@dataclasses.dataclass(frozen=True)
class Part:
    """One task in one arm."""

    index: int
    arm: str
    task: str
    name: str
    score: TaskScore

    @property
    def digits(self) -> int:
        """Decimals of an effect; a total has one less."""
        return digits_for(self.score.effect.all_attempted)

    @property
    def graded(self) -> str:
        """What the grade of the verdict rests on, in words."""
        judged = self.score.judgement
        words = [f"Sign flips give p {rate(judged.p_sign_flip)}"]
        if judged.family > 1:
            words.append(f", {rate(judged.adjusted_sign_flip)} adjusted over {judged.family} means")
        least, more = known(judged.least_p), known(judged.more_checkpoints)
        if least is not None and least >= SIGNIFICANT:
            words.append(
                f"; {self.score.effect.all_attempted.clusters} checkpoints can not give less than {rate(least)}"
            )
        if more:
            words.append(f". {more} more would resolve it, were mean and spread to stay")
        without = known(judged.leave_one_out)
        if without and without.crosses and judged.grade != "unresolved":
            words.append(f". Without checkpoint {' or '.join(without.crosses)} the interval reaches 0")
        return "".join(words) + "."

    @property
    def hold(self) -> float:
        """What the frozen model returned, averaged as dR is: over cells, then checkpoints."""
        forks = self.score.evidence.forks
        grouped = partition(forks.prefork)
        return float(np.nanmean(grouped.checkpoint_means(grouped.cell_means(forks.outcomes.r_hold))))

    @property
    def share(self) -> float | None:
        """The effect in per cent of what the frozen model returned."""
        mean = known(self.score.effect.all_attempted.mean)
        return None if mean is None or self.hold <= 0 else 100 * mean / self.hold

    @property
    def axis(self) -> Axis:
        """A line that holds both estimands, their intervals and every checkpoint."""
        return _effect_axis([self.score.effect.all_attempted, self.score.effect.retained])

    def forks(self, side: str) -> int:
        """How many forks are scored."""
        return self.score.forks.attempted if side == "all_attempted" else self.score.forks.retained

    def references(self, side: str) -> ReferencePolicies:
        """never, always and the oracle."""
        return self.score.policies_all_attempted if side == "all_attempted" else self.score.policies

    def triggers(self, side: str) -> Mapping[str, TriggerScore]:
        """Every trigger that could be read."""
        return self.score.triggers_all_attempted if side == "all_attempted" else self.score.triggers

    def rules(self, side: str) -> list[Rule]:
        """Every update rule, those that need no trigger first."""
        fixed, forks = self.references(side), self.forks(side)
        return [
            Rule("never", fixed.never, 0),
            Rule("always", fixed.always, forks),
            Rule("dR oracle", fixed.oracle, None),
            Rule("position table", fixed.position_table, None),
            Rule("direction clock", fixed.direction_clock, None),
            *(
                Rule(name, figures.policy_total, figures.fires, figures)
                for name, figures in self.triggers(side).items()
            ),
        ]

    @property
    def sides(self) -> Sequence[str]:
        """The sets of forks that differ: where nothing diverged, the retained are all that were attempted."""
        return SIDES if self.score.forks.diverged else SIDES[:1]

    def rules_axis(self, side: str) -> Axis:
        """A line for the rules' totals. Always updating may lie far outside: then an arrow stands for it."""
        rules = [rule for rule in self.rules(side) if rule.name != "always"]
        values = [rule.total for rule in rules] + [rule.random.interval for rule in rules if rule.random]
        inside, always = axis(values), known(self.references(side).always)
        if always is None or inside.high - inside.low < 0.4 * abs(always):
            return inside
        return axis([*values, always])

    @property
    def best(self) -> Rule | None:
        """The candidate with the largest total among those that beat their random control."""
        passing = [
            rule
            for rule in self.rules("all_attempted")
            if rule.kind == "passes" and not is_reference(rule.name) and known(rule.total) is not None
        ]
        return max(passing, key=lambda rule: known(rule.total) or 0.0, default=None)

    def passing(self, side: str) -> list[str]:
        """The triggers that beat their random control."""
        return [name for name, figures in self.triggers(side).items() if figures.passes_control is True]

    @property
    def bins_axis(self) -> Axis:
        """A line for mean dR by what HOLD returned, standard errors included."""
        return axis([_around(bar.mean, bar.standard_error) for bar in known(self.score.contraction.bins) or ()])

    def around(self, mean: Figure, error: Figure) -> Interval | None:
        """A mean with its standard error to either side."""
        return _around(mean, error)

    def table(self) -> list[tuple[str, list[float | None]]]:
        """dR by cell and decision point, for those who read rather than look."""
        prefork, delta = self.score.evidence.forks.prefork, self.score.evidence.forks.delta
        last = int(prefork.k.max())
        cells = []
        for index, span in prefork.spans():
            key = prefork.cells[index]
            by_k = dict(zip(prefork.k[span].tolist(), delta[span].tolist(), strict=True))
            name = f"checkpoint {key.checkpoint}, {key.direction}, seed {key.stream_seed}"
            cells.append((name, [by_k.get(k) for k in range(1, last + 1)]))
        return cells


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Two arms on one task."""

    arms: str
    task: str
    contrast: Estimands[Contrast | Undefined]
    parts: tuple[Part, ...]  # the later arm, then the first


@dataclasses.dataclass(frozen=True)
class Dose:
    """One task at several numbers of gradient steps, ascending."""

    task: str
    parts: Sequence[tuple[int, Part]]

    def axis(self, side: str) -> Axis:
        """A line for all of them."""
        return _effect_axis([getattr(part.score.effect, side) for _, part in self.parts])


def parts(material: Material) -> list[Part]:
    """Every task of every arm, in the order of the score."""
    several = len(material.score.arms) > 1
    scores = [
        (arm, task, score) for arm, scored in material.score.arms.items() for task, score in scored.tasks.items()
    ]
    return [
        Part(index, arm, task, f"{arm} · {task}" if several and arm else task, score)
        for index, (arm, task, score) in enumerate(scores)
    ]


def comparisons(material: Material, shown: Sequence[Part]) -> list[Comparison]:
    """Every later arm beside the first, task by task."""
    by_name = {(part.arm, part.task): part for part in shown}
    first, *others = material.score.arms
    compared = []
    for other in others:
        for task, contrast in material.score.contrasts.get(f"{other} - {first}", {}).items():
            pair = (by_name[other, task], by_name[first, task])
            compared.append(Comparison(f"{other} \N{MINUS SIGN} {first}", task, contrast, pair))
    return compared


def compare_axis(shown: Sequence[Part], side: str) -> Axis:
    """One line for all parts."""
    return _effect_axis([getattr(part.score.effect, side) for part in shown])


def doses(registration: Registration | None, shown: Sequence[Part]) -> list[Dose]:
    """Tasks on which at least three arms differ in their number of gradient steps."""
    if registration is None:
        return []
    steps = {arm.name: arm.mechanism.steps for arm in registration.arms}
    dosed = []
    for task in dict.fromkeys(part.task for part in shown):
        arms = sorted(((steps[part.arm], part) for part in shown if part.task == task), key=lambda pair: pair[0])
        if len({count for count, _ in arms}) >= 3:
            dosed.append(Dose(task, arms))
    return dosed


def _effect_axis(effects: Sequence[Effect]) -> Axis:
    return axis(
        value
        for effect in effects
        for value in (effect.mean, effect.student_t, effect.bootstrap, *effect.by_checkpoint.values())
    )


def _around(mean: Figure, error: Figure) -> Interval | None:
    if isinstance(mean, Undefined):
        return None
    half = known(error) or 0.0
    return Interval(mean - half, mean + half)
