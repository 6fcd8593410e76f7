"""A whole ledger scored by the rules it registered: which arms, which pairs of them, whatever it is read from."""

import dataclasses
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

from worldfork.desk.reading.ledger import Ledger, Source, open_ledger, uncollected
from worldfork.desk.reading.outcomes import Forks
from worldfork.desk.reading.study import Rows
from worldfork.desk.scoring.deployment_records import TaskDeployment
from worldfork.desk.scoring.deployments import score_deployments
from worldfork.desk.scoring.doses import score_doses
from worldfork.desk.scoring.noises import score_noises
from worldfork.desk.scoring.pairs import compared_pairs
from worldfork.desk.scoring.predictions import Prediction, answer, is_about_deployment
from worldfork.desk.scoring.products import on_one_thread
from worldfork.desk.scoring.records import TaskScore
from worldfork.desk.scoring.result import ArmScore, Score
from worldfork.desk.scoring.rules import Rules
from worldfork.desk.scoring.score import score
from worldfork.desk.scoring.undefined import Undefined
from worldfork.desk.triggers import chosen_triggers
from worldfork.errors import WorldforkError, nearest
from worldfork.progress import Progress, silent
from worldfork.registration import Registration

__all__ = ["Arms", "choose_arms", "only_arm", "rules_of", "score_ledger"]

Arms = Mapping[str, Mapping[str, Forks]]


@uncollected()
@on_one_thread()
def score_ledger(
    source: Source,
    *,
    arm: str | None = None,
    contrast: str | tuple[str, str] | None = None,
    higher_is_better: bool = True,
    failure_return: float | None = None,
    progress: Progress = silent,
    **changes: Any,
) -> Score:
    """Score a study, a flat table or a data frame, by the rules it registered or else the paper's.

    `arm` scores one arm alone. Arms are compared as registered (`pairs.py`), those of a table each with the first,
    or `contrast` names the two to compare, as a pair or as "FIRST,SECOND". `higher_is_better` and `failure_return`
    say how a flat table is read (`read_table`).
    Any rule can be changed by name: `seed=1`, `permutations=1_000`, `triggers="residual"`, `divergence=None`.
    """
    ledger = open_ledger(source, higher_is_better=higher_is_better, failure_return=failure_return)
    arms, pairs = choose_arms(ledger.table.arms, arm=arm, contrast=contrast, registration=ledger.registration)
    rules = rules_of(ledger, **changes)
    scored = score(
        arms, rules, contrasts=pairs, whole=ledger.table.arms, failed=ledger.table.failed, progress=progress
    )
    scored = dataclasses.replace(scored, name=ledger.name, higher_is_better=ledger.table.higher_is_better)
    if ledger.study is None or ledger.registration is None:
        return scored
    tasks = {name: scored_arm.tasks for name, scored_arm in scored.arms.items()}
    scored = dataclasses.replace(
        scored,
        missing=_missing(ledger.rows, ledger.registration),
        doses=score_doses(ledger.registration, tasks, seed=rules.seed),
        noises=score_noises(ledger.registration, tasks, seed=rules.seed),
    )
    if ledger.registration.deployment is None:
        return scored
    followed = score_deployments(ledger.study, ledger.table.arms, seed=rules.seed)
    return dataclasses.replace(scored, arms=_answered(scored.arms, followed, rules), deployment=followed)


def _answered(
    arms: Mapping[str, ArmScore], followed: Mapping[str, TaskDeployment], rules: Rules
) -> dict[str, ArmScore]:
    """The arms with the predictions answered that are about policies which were followed. Each is with the others
    of the arm that it names, which is the one whose mechanism the policy fires, or else with those of the first."""
    about = [prediction for prediction in rules.predictions if is_about_deployment(prediction)]
    first, answered = next(iter(arms)), {}
    for arm, score_of in arms.items():
        tasks = {}
        for task, figures in score_of.tasks.items():
            outcome = followed.get(task, Undefined(f"the policies of {task} have not been followed yet"))
            more = tuple(
                answer(prediction, outcome, premises=_premises(prediction, score_of, figures))
                for prediction in about
                if prediction.task == task and (prediction.arm or first) == arm
            )
            tasks[task] = dataclasses.replace(figures, predictions=(*figures.predictions, *more))
        answered[arm] = ArmScore(tasks)
    return answered


def _premises(prediction: Prediction, arm: ArmScore, figures: TaskScore) -> TaskScore | Undefined:
    if prediction.premise is None or prediction.premise.task is None:
        return figures
    return arm.tasks.get(prediction.premise.task, Undefined(f"`{prediction.premise.task}` is not scored here"))


def rules_of(ledger: Ledger, **changes: Any) -> Rules:
    """The rules that a study registered, or the paper's for a flat table, with these changes."""
    known = [field.name for field in dataclasses.fields(Rules)]
    if unknown := [name for name in changes if name not in known]:
        raise WorldforkError(
            f"There is no rule `{unknown[0]}`; there are {', '.join(known)}.{nearest(unknown[0], known)}"
        )
    for name, kind in (("divergence", Real), ("rate", Real), ("permutations", Integral), ("seed", Integral)):
        value = changes.get(name, 1)
        if (isinstance(value, bool) or not isinstance(value, kind)) and (name, value) != ("divergence", None):
            expected = "a whole number" if kind is Integral else "a number"
            raise WorldforkError(f"The rule `{name}` is {expected}; got {value!r:.40}.")
    if changes.get("seed", 0) < 0:
        raise WorldforkError(f"The rule `seed` is a whole number from 0; got {changes['seed']}.")
    if changes.get("triggers") is not None:
        changes["triggers"] = chosen_triggers(changes["triggers"])
    rules = Rules() if ledger.registration is None else Rules.registered(ledger.registration)
    return dataclasses.replace(rules, **changes)


def choose_arms(
    arms: Arms,
    *,
    arm: str | None = None,
    contrast: str | tuple[str, str] | None = None,
    registration: Registration | None = None,
) -> tuple[Arms, list[tuple[str, str]]]:
    """The arms to score, and the pairs to compare: those of `contrast`, of a study those that its registration asks
    for, else every later arm with the first."""
    known = ", ".join(name or "(unnamed)" for name in arms)
    pair = tuple(name.strip() for name in contrast.split(",")) if isinstance(contrast, str) else contrast or ()
    if contrast is not None and len(pair) != 2:
        raise WorldforkError(f"A contrast takes two arms, FIRST,SECOND; got `{contrast}`. The ledger has {known}.")
    for name in pair if arm is None else (arm, *pair):
        if name not in arms:
            raise WorldforkError(f"There is no arm `{name}`; the ledger has {known}.")
    if pair:
        chosen = arms if arm is None else {name: arms[name] for name in dict.fromkeys((arm, *pair))}
        return chosen, [(pair[0], pair[1])]
    if arm is not None:
        return {arm: arms[arm]}, []
    if registration is not None:
        return arms, [(pair.later, pair.earlier) for pair in compared_pairs(registration, arms)]
    first, *others = arms
    return arms, [(other, first) for other in others]


def only_arm(source: Source) -> Mapping[str, Forks]:
    """The tasks of a ledger with one arm, such as a replication on other stream seeds."""
    ledger = open_ledger(source)
    if len(ledger.table.arms) != 1:
        raise WorldforkError(f"A replication has one arm; `{ledger.name}` has {', '.join(ledger.table.arms)}.")
    return next(iter(ledger.table.arms.values()))


def _missing(rows: Rows, registration: Registration) -> str:
    """What a reader of every figure has to know first: that forks are not there."""
    points = {arm.name: arm.stream.decision_points for arm in registration.arms}
    there, registered = sum(map(len, rows.values())), sum(points[cell.arm] for cell in rows)
    if there >= registered:
        return ""
    return (
        f"{registered - there:,} of {registered:,} registered forks are not there: the study is not complete, and "
        "every figure is of the others."
    )
