"""Tests that were registered together, and the grades of means and triggers among them.

Holm's adjustment (Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
Statistics 1979) runs over the registered family, not over what happens to be computed: scoring one arm, one task
or one trigger alone must not make a test easier to pass. Members that were not computed count as p = 1, which can
only raise the others. What is not in the family is exploratory: it is adjusted as one more member, and says so
wherever it is shown.
"""

import dataclasses
from collections.abc import Hashable, Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

import numpy as np

from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.read.triggers import is_reference
from worldfork.analysis.score import intervals
from worldfork.analysis.score.intervals import SIGNIFICANT
from worldfork.analysis.score.judgement import Gain, Grade, Judgement, Standing
from worldfork.analysis.score.policy_returns import usefulness
from worldfork.analysis.score.records import Effect, MeanByCheckpoint, TriggerFigures, TriggerScore
from worldfork.analysis.score.rules import Rules
from worldfork.analysis.score.undefined import Figure, Undefined
from worldfork.registration.schema import CANDIDATES

Key = TypeVar("Key", bound=Hashable)
Place = tuple[str, str]  # arm, task

CONTROLS: Final = ("random", "random_shift", "swapped")
BASELINES: Final = ("better_of_both", "position_table")
REQUIRED: Final = (*CONTROLS, *BASELINES)  # what a useful policy has to beat


@dataclasses.dataclass(frozen=True, kw_only=True)
class Family:
    """The tests that were decided on beforehand."""

    candidates: tuple[str, ...]
    tasks_of_arms: tuple[Place, ...]  # every (arm, task) of the study, scored or not
    registered: bool  # False: a flat table, whose family is whatever it has

    @property
    def means(self) -> frozenset[Place]:
        """The registered means, by arm and task."""
        return frozenset(self.tasks_of_arms)

    @property
    def triggers(self) -> frozenset[tuple[str, str, str]]:
        """The registered candidates, by arm, task and name."""
        return frozenset((arm, task, name) for arm, task in self.tasks_of_arms for name in self.candidates)

    @property
    def permutations_needed(self) -> int:
        """The fewest permutations with which the smallest p there is, 1 / (1 + permutations), can pass the
        strictest step of Holm's adjustment."""
        return len(self.triggers) * round(1 / SIGNIFICANT)

    def standing(self, name: str) -> Standing:
        """Return the role of a trigger: registered candidate, reference (a schedule, a coin), or exploratory."""
        if is_reference(name):
            return "reference"
        return "candidate" if name in self.candidates else "exploratory"


def registered_family(arms: Mapping[str, Mapping[str, Forks]], rules: Rules) -> Family:
    """Return the registered family; of a flat table, all that it has."""
    scored = tuple((arm, task) for arm, tasks in arms.items() for task in tasks)
    if rules.candidates is not None:
        return Family(candidates=rules.candidates, tasks_of_arms=rules.members or scored, registered=True)
    tables = [forks.prefork for tasks in arms.values() for forks in tasks.values()]
    signals = {name for table in tables for name, values in table.signals.items() if not np.isnan(values).all()}
    streams = CANDIDATES if any(any(table.streams) for table in tables) else ()
    candidates = tuple(name for name in dict.fromkeys([*streams, *sorted(signals)]) if not is_reference(name))
    return Family(candidates=candidates, tasks_of_arms=rules.members or scored, registered=False)


def adjust(p_values: Mapping[Key, Figure], family: Iterable[Key]) -> dict[Key, Figure]:
    """Return Holm's adjustment of each p over the family, whether or not all of it was computed.

    A member of the family without a p value (undefined, or not computed) counts as p = 1. What is not a member is
    adjusted as one more, on its own, so that it makes no registered test stricter.
    """
    members = frozenset(family)
    defined = {key: p for key, p in p_values.items() if not isinstance(p, Undefined)}
    inside = {key: p for key, p in defined.items() if key in members}
    adjusted: dict[Key, Figure] = dict(holm(inside, size=len(members)))
    for key, p in defined.items():
        if key not in members:
            adjusted[key] = holm({**inside, key: p}, size=len(members) + 1)[key]
    return {key: adjusted.get(key, p) for key, p in p_values.items()}


def holm(p_values: Mapping[Key, float], *, size: int | None = None) -> dict[Key, float]:
    """Return Holm's adjustment over all of them, among `size` tests of which the others have p = 1.

    >>> holm({"a": 0.01, "b": 0.04, "c": 0.03})
    {'a': 0.03, 'c': 0.06, 'b': 0.06}
    >>> holm({"a": 0.01}, size=3)
    {'a': 0.03}
    """
    count = len(p_values) if size is None else size
    adjusted: dict[Key, float] = {}
    highest = 0.0
    for rank, (key, p) in enumerate(sorted(p_values.items(), key=lambda item: item[1])):
        highest = max(highest, min(1.0, (count - rank) * p))
        adjusted[key] = highest
    return adjusted


class Graded(NamedTuple):
    """The strength of evidence of a mean among others that it was tested together with."""

    grade: Grade | Undefined
    adjusted_student_t: Figure
    adjusted_sign_flip: Figure
    family: int


def grade_together(means: Mapping[Key, MeanByCheckpoint], family: Iterable[Key]) -> dict[Key, Graded]:
    """Return the grade of each mean, both of its p values adjusted over the family."""
    members = frozenset(family)
    student = adjust({key: mean.p_student_t for key, mean in means.items()}, members)
    flips = adjust({key: mean.p_sign_flip for key, mean in means.items()}, members)
    graded = {}
    for key, mean in means.items():
        grade = intervals.grade(known_means(mean), adjusted_student_p=student[key], adjusted_sign_flip_p=flips[key])
        graded[key] = Graded(grade, student[key], flips[key], len(members | {key}))
    return graded


def known_means(mean: MeanByCheckpoint) -> np.ndarray:
    """Return the means of the checkpoints that have one."""
    return np.array([value for value in mean.by_checkpoint.values() if not isinstance(value, Undefined)])


def judge_means(effects: Mapping[Place, Effect], family: Family, *, seed: int) -> dict[Place, Judgement]:
    """Return the strength of evidence of every mean, graded over the registered means."""
    graded = grade_together(effects, family.means)
    judged = {}
    for place, effect in effects.items():
        values, found = known_means(effect), graded[place]
        names = [name for name, mean in effect.by_checkpoint.items() if not isinstance(mean, Undefined)]
        judged[place] = Judgement(
            **found._asdict(),
            p_student_t=effect.p_student_t,
            p_sign_flip=effect.p_sign_flip,
            p_wild=intervals.wild_p(values, seed=seed, task=place[1]),
            least_p=2.0 ** (1 - len(values)) if len(values) else Undefined("there is no checkpoint"),
            leave_one_out=intervals.leave_one_out(values, names),
            anytime=intervals.anytime_interval(values),
            more_checkpoints=0
            if found.grade == "resolved"
            else intervals.more_checkpoints(values, family=found.family),
        )
    return judged


def judge_triggers(
    measured: Mapping[Place, Mapping[str, TriggerFigures]], family: Family
) -> dict[Place, dict[str, TriggerScore]]:
    """Return every trigger with its tests, each adjusted over candidates x tasks x arms."""
    every = {(*place, name): figures for place, named in measured.items() for name, figures in named.items()}
    adjusted = {
        test: adjust({key: _p(figures, test) for key, figures in every.items()}, family.triggers)
        for test in REQUIRED
    }
    return {
        place: {
            name: _judged(figures, {test: adjusted[test][*place, name] for test in REQUIRED}, family.standing(name))
            for name, figures in named.items()
        }
        for place, named in measured.items()
    }


def _p(trigger: TriggerFigures, test: str) -> Figure:
    """Return the p value of a test; over a baseline the larger of Student-t's and the sign flips'."""
    if test in CONTROLS:
        control = getattr(trigger, test)
        return control if isinstance(control, Undefined) else control.p
    if isinstance(trigger.gains, Undefined):
        return trigger.gains
    gain: Gain = trigger.gains[test]
    return _largest((gain.p_student_t, gain.p_sign_flip))


def _largest(p_values: Iterable[Figure]) -> Figure:
    """Return the largest p, or the first that is undefined."""
    values: list[float] = []
    for p in p_values:
        if isinstance(p, Undefined):
            return p
        values.append(p)
    return max(values)


def _judged(trigger: TriggerFigures, adjusted: dict[str, Figure], standing: Standing) -> TriggerScore:
    why = trigger.random if isinstance(trigger.random, Undefined) else trigger.gains
    if isinstance(why, Undefined):
        return TriggerScore(
            **vars(trigger), standing=standing, adjusted=adjusted, passes_control=why, useful=why, control_p=why
        )
    control_p = _largest(adjusted[test] for test in ("random", "random_shift"))
    return TriggerScore(
        **vars(trigger),
        standing=standing,
        adjusted=adjusted,
        control_p=control_p,
        passes_control=not isinstance(control_p, Undefined) and control_p < SIGNIFICANT,
        useful=usefulness(
            adjusted,
            {name: why[name].mean for name in BASELINES},
            {name: why[name].refitted for name in BASELINES} if standing == "candidate" else None,
        ),
    )
