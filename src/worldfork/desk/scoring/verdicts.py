"""Verdicts, once every task of every arm is scored: each p value meets its registered family (family.py)."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from worldfork.desk.reading.outcomes import Forks
from worldfork.desk.scoring import anytime, few_clusters
from worldfork.desk.scoring.earnings import usefulness
from worldfork.desk.scoring.family import CANDIDATES, Family, adjust
from worldfork.desk.scoring.judgement import Gain, Judgement, Standing
from worldfork.desk.scoring.records import Effect, TaskScore, TriggerScore
from worldfork.desk.scoring.rules import Rules
from worldfork.desk.scoring.undefined import Figure, Undefined
from worldfork.desk.triggers import is_reference

__all__ = ["REQUIRED", "judge_all", "judge_mean", "registered_family", "standing"]

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
        p_student_t=few_clusters.student_p(values),
        p_sign_flip=few_clusters.sign_flip_p(values, seed=seed, task=task),
        p_wild=few_clusters.wild_p(values, seed=seed, task=task),
        least_p=2.0 ** (1 - len(values)) if len(values) else alone,
        family=1,
        adjusted_student_t=alone,
        adjusted_sign_flip=alone,
        leave_one_out=few_clusters.leave_one_out(values, list(known)),
        anytime=anytime.anytime_interval(values),
        more_checkpoints=alone,
    )
    return _graded(judgement, effect, judgement.p_student_t, judgement.p_sign_flip, family=1)


def judge_all(tasks: Mapping[Place, TaskScore], family: Family) -> dict[Place, TaskScore]:
    """Every task with its grade and with its triggers adjusted over the family."""
    student = adjust({place: one.judgement.p_student_t for place, one in tasks.items()}, family.means)
    flips = adjust({place: one.judgement.p_sign_flip for place, one in tasks.items()}, family.means)
    retained = _adjusted({place: one.triggers for place, one in tasks.items()}, family)
    attempted = _adjusted({place: one.triggers_all_attempted for place, one in tasks.items()}, family)
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
            triggers=retained[place],
            triggers_all_attempted=attempted[place],
            candidates=len(family.candidates),
            candidates_unread=sum(name in family.candidates for name in one.triggers_unavailable),
        )
        for place, one in tasks.items()
    }


def _graded(judgement: Judgement, effect: Effect, student: Figure, flips: Figure, *, family: int) -> Judgement:
    known = [mean for mean in effect.by_checkpoint.values() if not isinstance(mean, Undefined)]
    values = np.array(known)
    grade = few_clusters.grade(values, adjusted_student_p=student, adjusted_sign_flip_p=flips)
    more = 0 if grade == "resolved" else few_clusters.more_checkpoints(values, family=family)
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
    for p in (gain.p_student_t, gain.p_sign_flip):
        if isinstance(p, Undefined):
            return p
    return max(float(gain.p_student_t), float(gain.p_sign_flip))  # type: ignore[arg-type]


def _held(trigger: TriggerScore, adjusted: dict[str, Figure], stands: Standing) -> TriggerScore:
    if isinstance(trigger.random, Undefined) or isinstance(trigger.gains, Undefined):
        why = trigger.random if isinstance(trigger.random, Undefined) else trigger.gains
        assert isinstance(why, Undefined)
        return dataclasses.replace(trigger, standing=stands, adjusted=adjusted, passes_control=why, useful=why)
    return dataclasses.replace(
        trigger,
        standing=stands,
        adjusted=adjusted,
        passes_control=_below(adjusted[name] for name in ("random", "random_shift")),
        useful=usefulness(adjusted, {name: trigger.gains[name].mean for name in YARDSTICKS}),
    )


def _below(adjusted: Iterable[Figure]) -> bool:
    return all(not isinstance(p, Undefined) and p < few_clusters.SIGNIFICANT for p in adjusted)
