"""What was registered to be tested together: the candidates, and the means, of every task and arm.

Holm's adjustment (Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
Statistics 1979) runs over the registered family, not over what happens to be computed: scoring one arm, one task
or one trigger alone must not make a test easier to pass. Members that were not computed count as p = 1, which can
only raise the others. What is not in the family is exploratory: it is adjusted as one more member, and says so
wherever it is shown.
"""

import dataclasses
from collections.abc import Hashable, Iterable, Mapping
from typing import Final, TypeVar

import numpy as np

from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.read.triggers import is_reference
from worldfork.analysis.score import intervals
from worldfork.analysis.score.intervals import SIGNIFICANT
from worldfork.analysis.score.judgement import Gain, Judgement, Standing
from worldfork.analysis.score.policy_returns import usefulness
from worldfork.analysis.score.records import Effect, Estimands, TaskScore, TriggerScore
from worldfork.analysis.score.rules import Rules
from worldfork.analysis.score.undefined import Figure, Undefined
from worldfork.registration.records import CANDIDATES

Key = TypeVar("Key", bound=Hashable)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Family:
    """The tests that were decided on beforehand."""

    candidates: tuple[str, ...]
    tasks_of_arms: tuple[tuple[str, str], ...]  # every (arm, task) of the study, scored or not
    registered: bool  # False: a flat table, whose family is whatever it has

    @property
    def means(self) -> frozenset[tuple[str, str]]:
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

    def exploratory(self, name: str) -> bool:
        """Whether a trigger was not registered as a candidate."""
        return name not in self.candidates


def adjust(p_values: Mapping[Key, Figure], family: Iterable[Key]) -> dict[Key, Figure]:
    """Holm's adjustment of each p over the family, whether or not all of it was computed.

    A member of the family without a p value (undefined, or not computed) counts as p = 1. What is not a member is
    adjusted as one more, on its own, so that it makes no registered test stricter.
    """
    members = frozenset(family)
    known = {key: p for key, p in p_values.items() if not isinstance(p, Undefined)}
    inside = {key: p for key, p in known.items() if key in members}
    adjusted: dict[Key, Figure] = dict(holm(inside, size=len(members)))
    for key, p in known.items():
        if key not in members:
            adjusted[key] = holm({**inside, key: p}, size=len(members) + 1)[key]
    return {key: adjusted.get(key, p) for key, p in p_values.items()}


def holm(p_values: Mapping[Key, float], *, size: int | None = None) -> dict[Key, float]:
    """Holm's adjustment over all of them, among `size` tests of which the others have p = 1.

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


Place = tuple[str, str]  # arm, task

CONTROLS: Final = ("random", "random_shift", "swapped")
YARDSTICKS: Final = ("better_of_both", "position_table")
REQUIRED: Final = (*CONTROLS, *YARDSTICKS)  # what a useful policy has to beat


def registered_family(arms: Mapping[str, Mapping[str, Forks]], rules: Rules) -> Family:
    """What was decided on beforehand; of a flat table, all that it has."""
    scored = tuple((arm, task) for arm, tasks in arms.items() for task in tasks)
    if rules.candidates is not None:
        return Family(candidates=rules.candidates, tasks_of_arms=rules.members or scored, registered=True)
    tables = [forks.prefork for tasks in arms.values() for forks in tasks.values()]
    signals = {name for one in tables for name, values in one.signals.items() if not np.isnan(values).all()}
    streams = CANDIDATES if any(any(one.streams) for one in tables) else ()
    candidates = tuple(name for name in dict.fromkeys([*streams, *sorted(signals)]) if not is_reference(name))
    return Family(candidates=candidates, tasks_of_arms=rules.members or scored, registered=False)


def standing(name: str, family: Family) -> Standing:
    """A registered candidate, a yardstick, or something that was looked at besides."""
    if is_reference(name):
        return "reference"
    return "exploratory" if family.exploratory(name) else "candidate"


def judge_mean(effect: Effect, *, seed: int, task: str) -> Judgement:
    """Everything that does not depend on the family; the rest as if this were the only mean."""
    known = {name: mean for name, mean in effect.by_checkpoint.items() if not isinstance(mean, Undefined)}
    values = np.array(list(known.values()))
    alone = Undefined("there is no checkpoint")
    judgement = Judgement(
        grade=alone,
        p_student_t=intervals.student_p(values),
        p_sign_flip=intervals.sign_flip_p(values, seed=seed, task=task),
        p_wild=intervals.wild_p(values, seed=seed, task=task),
        least_p=2.0 ** (1 - len(values)) if len(values) else alone,
        family=1,
        adjusted_student_t=alone,
        adjusted_sign_flip=alone,
        leave_one_out=intervals.leave_one_out(values, list(known)),
        anytime=intervals.anytime_interval(values),
        more_checkpoints=alone,
    )
    return _graded(judgement, effect, judgement.p_student_t, judgement.p_sign_flip, family=1)


def judge_all(tasks: Mapping[Place, TaskScore], family: Family) -> dict[Place, TaskScore]:
    """Every task with its grade and with its triggers adjusted over the family."""
    student = adjust({place: one.judgement.p_student_t for place, one in tasks.items()}, family.means)
    flips = adjust({place: one.judgement.p_sign_flip for place, one in tasks.items()}, family.means)
    retained = _adjusted({place: one.triggers.retained for place, one in tasks.items()}, family)
    attempted = _adjusted({place: one.triggers.all_attempted for place, one in tasks.items()}, family)
    return {
        place: dataclasses.replace(
            one,
            judgement=_graded(
                one.judgement,
                one.effect.all_attempted,
                student[place],
                flips[place],
                family=len(family.means | {place}),
            ),
            triggers=Estimands(all_attempted=attempted[place], retained=retained[place]),
            candidates=len(family.candidates),
            candidates_unread=sum(name in family.candidates for name in one.triggers_unavailable),
        )
        for place, one in tasks.items()
    }


def _graded(judgement: Judgement, effect: Effect, student: Figure, flips: Figure, *, family: int) -> Judgement:
    known = [mean for mean in effect.by_checkpoint.values() if not isinstance(mean, Undefined)]
    values = np.array(known)
    grade = intervals.grade(values, adjusted_student_p=student, adjusted_sign_flip_p=flips)
    more = 0 if grade == "resolved" else intervals.more_checkpoints(values, family=family)
    return dataclasses.replace(
        judgement,
        grade=grade,
        family=family,
        adjusted_student_t=student,
        adjusted_sign_flip=flips,
        more_checkpoints=more,
    )


def _adjusted(
    triggers: Mapping[Place, Mapping[str, TriggerScore]], family: Family
) -> dict[Place, dict[str, TriggerScore]]:
    """Every trigger's tests, each adjusted over candidates x tasks x arms."""
    every = {(*place, name): one for place, named in triggers.items() for name, one in named.items()}
    adjusted = {
        test: adjust({key: _p(one, test) for key, one in every.items()}, family.triggers) for test in REQUIRED
    }
    return {
        place: {
            name: _held(one, {test: adjusted[test][*place, name] for test in REQUIRED}, standing(name, family))
            for name, one in named.items()
        }
        for place, named in triggers.items()
    }


def _p(trigger: TriggerScore, test: str) -> Figure:
    """The p value of a test; over a yardstick the larger of Student-t's and the sign flips'."""
    if test in CONTROLS:
        control = getattr(trigger, test)
        return control if isinstance(control, Undefined) else control.p
    if isinstance(trigger.gains, Undefined):
        return trigger.gains
    return _larger(trigger.gains[test])


def _larger(gain: Gain) -> Figure:
    return _largest((gain.p_student_t, gain.p_sign_flip))


def _largest(p_values: Iterable[Figure]) -> Figure:
    """Return the largest p, or the first that is undefined."""
    known: list[float] = []
    for p in p_values:
        if isinstance(p, Undefined):
            return p
        known.append(p)
    return max(known)


def _held(trigger: TriggerScore, adjusted: dict[str, Figure], stands: Standing) -> TriggerScore:
    if isinstance(trigger.random, Undefined) or isinstance(trigger.gains, Undefined):
        why = trigger.random if isinstance(trigger.random, Undefined) else trigger.gains
        assert isinstance(why, Undefined)
        return dataclasses.replace(
            trigger, standing=stands, adjusted=adjusted, passes_control=why, useful=why, control_p=why
        )
    return dataclasses.replace(
        trigger,
        standing=stands,
        adjusted=adjusted,
        passes_control=_below(adjusted[name] for name in ("random", "random_shift")),
        control_p=_largest(adjusted[name] for name in ("random", "random_shift")),
        useful=usefulness(adjusted, {name: trigger.gains[name].mean for name in YARDSTICKS}),
    )


def _below(adjusted: Iterable[Figure]) -> bool:
    return all(not isinstance(p, Undefined) and p < intervals.SIGNIFICANT for p in adjusted)
