"""Tables of closed-loop deployments, and of where they part from what the one-step ledger says."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from worldfork.analysis.present.table import Column, Table
from worldfork.analysis.present.text import (
    DASH,
    TERMS,
    best_first,
    defined,
    estimate,
    followed_digits,
    number,
    rate,
    realised,
    silent_policies,
    unsigned,
    with_span,
    word,
)
from worldfork.analysis.score.deployment_records import Advantage, InDirection, PolicyOutcome, TaskDeployment
from worldfork.analysis.score.undefined import Undefined

__all__ = ["deployments", "followed_directions", "forecasts", "over_always"]

Tasks = Mapping[str, TaskDeployment]
KEYS = ("Task", "Policy")


class _Policy(NamedTuple):
    """Policy of a task, with the others beside it."""

    name: str
    outcome: PolicyOutcome
    deployed: TaskDeployment


def deployments(tasks: Tasks) -> Table:
    """Return every policy against never."""
    cautions = dict.fromkeys(caution for deployed in tasks.values() for caution in deployed.cautions)
    table = Table.of(
        "deployments",
        "Policies in closed-loop deployment: updates of one deployment, the mean return of an episode above that "
        "of never (paired difference, Student-t interval over checkpoints, the larger adjusted p of Student-t and "
        "sign flips, grade), the mean return, the difference on the matched evaluations, what the best policy in "
        f"hindsight returned more, and gradient steps.{''.join(f' {caution}' for caution in cautions)}",
        KEYS,
        _policies(tasks),
        [
            ("updates", lambda policy, _: f"{policy.outcome.updates:.1f}"),
            ("over never", lambda policy, digits: estimate(policy.outcome.advantage, digits)),
            ("p", lambda policy, _: _adjusted_p(policy.outcome.advantage)),
            ("grade", lambda policy, _: _grade(policy.outcome.advantage)),
            ("return", lambda policy, digits: unsigned(policy.outcome.returned, digits)),
            ("evaluated over never", lambda policy, digits: estimate(policy.outcome.evaluation, digits)),
            ("regret", lambda policy, digits: unsigned(policy.outcome.regret, digits)),
            (Column("gradient steps", optional=True), lambda policy, _: f"{policy.outcome.gradient_steps:,.0f}"),
        ],
    )
    return _with_silent(table, tasks)


def over_always(tasks: Tasks) -> Table:
    """Return what each trigger adds to its update."""
    table = Table.of(
        "over_always",
        "What a trigger adds to its update: the paired difference of the return of an episode with the policy that "
        "always fires the same update, named beside it (Student-t interval over checkpoints, the larger adjusted p "
        "of Student-t and sign flips, grade), and at how many checkpoints it returned more.",
        KEYS,
        [row for row in _policies(tasks) if not isinstance(row[1].outcome.over_always, Undefined)],
        [
            ("beside", lambda policy, _: policy.outcome.always or DASH),
            ("over always", lambda policy, digits: estimate(policy.outcome.over_always, digits)),
            ("p", lambda policy, _: _adjusted_p(policy.outcome.over_always)),
            ("grade", lambda policy, _: _grade(policy.outcome.over_always)),
            ("better at", lambda policy, _: _won(policy)),
        ],
    )
    return _with_silent(table, tasks)


def forecasts(tasks: Tasks) -> Table:
    """Return what the one-step ledger says of each policy, and what it came to."""
    table = Table.of(
        "forecasts",
        "What the one-step ledger says of a policy; what deploying it returned more than never, per episode, less "
        "that; and the rank by each. Then the grade of the difference, what was realised, and how often the policy "
        f"fires there and here. By the ledger: {TERMS['by the ledger']}",
        KEYS,
        _policies(tasks),
        [
            (
                Column("by the ledger", term="by the ledger"),
                lambda policy, digits: number(policy.outcome.ledger_value, digits),
            ),
            ("realised less ledger", lambda policy, digits: estimate(policy.outcome.parted, digits)),
            ("rank", lambda policy, _: _rank(policy)),
            (Column("its grade", optional=True), lambda policy, _: _grade(policy.outcome.parted)),
            (Column("realised", optional=True), lambda policy, digits: number(realised(policy.outcome), digits)),
            (Column("updates there", optional=True), lambda policy, _: unsigned(policy.outcome.ledger_updates, 1)),
            (Column("updates here", optional=True), lambda policy, _: f"{policy.outcome.updates:.1f}"),
        ],
    )
    return _with_silent(table, tasks)


def followed_directions(tasks: Tasks) -> Table:
    """Return the same for each direction of drift, where there are several."""
    table = Table.of(
        "followed_directions",
        "Policies in closed-loop deployment, by the direction of drift: updates of one deployment, what an "
        "episode returned more than under never, what the one-step ledger says per decision point, and what was "
        "realised less that. Student-t intervals over checkpoints, not adjusted.",
        ("Task", "Direction", "Policy"),
        _directions(tasks),
        [
            ("updates", lambda policy, _: f"{policy.updates:.1f}"),
            ("over never", lambda policy, digits: estimate(policy, digits)),
            ("by the ledger", lambda policy, digits: number(policy.ledger_value, digits)),
            (
                "realised less ledger",
                lambda policy, digits: with_span(policy.parted, policy.parted_student_t, digits),
            ),
        ],
    )
    return _with_silent(table, tasks)


def _policies(tasks: Tasks) -> Iterator[tuple[tuple[str, str], _Policy, int]]:
    """Yield the policies of every task that fired, and never, the best first."""
    for task, deployed in tasks.items():
        silent = silent_policies(deployed)
        for name in best_first(deployed):
            if name not in silent:
                yield (task, name), _Policy(name, deployed.policies[name], deployed), followed_digits(deployed)


def _directions(tasks: Tasks) -> Iterator[tuple[tuple[str, str, str], InDirection, int]]:
    policies = list(_policies(tasks))
    for task, deployed in tasks.items():
        for way in deployed.directions if len(deployed.directions) > 1 else ():
            for (of_task, name), policy, digits in policies:
                found = policy.outcome.by_direction.get(way)
                if of_task == task and found is not None:
                    yield (task, way, name), found, digits


def _with_silent(table: Table, tasks: Tasks) -> Table:
    """Return the table with the names of the policies that never fired below it."""
    silent = {task: names for task, deployed in tasks.items() if (names := silent_policies(deployed))}
    names = [f"{', '.join(names)}{f' ({task})' if len(tasks) > 1 else ''}" for task, names in silent.items()]
    if not names or not table.rows:
        return table
    return dataclasses.replace(table, folded=f"Never fired, and returned what never did: {'; '.join(names)}.")


def _adjusted_p(gained: Advantage | Undefined) -> str:
    return DASH if isinstance(gained, Undefined) else rate(gained.adjusted_p)


def _grade(gained: Advantage | Undefined) -> str:
    return DASH if isinstance(gained, Undefined) else word(gained.grade)


def _won(policy: _Policy) -> str:
    added = defined(policy.outcome.over_always)
    return DASH if added is None else f"{added.won} of {policy.deployed.checkpoints}"


def _rank(policy: _Policy) -> str:
    """Return the rank of a policy by the ledger and by what it returned."""
    outcomes = policy.deployed.policies
    by_ledger = _ranks({name: defined(outcome.ledger_value) for name, outcome in outcomes.items()})
    by_return = _ranks({name: realised(outcome) or 0.0 for name, outcome in outcomes.items()})
    return f"{by_ledger.get(policy.name, DASH)} / {by_return[policy.name]}"


def _ranks(values: Mapping[str, float | None]) -> dict[str, int]:
    """Return the rank of each policy that has a value, 1 being the best; equal ones share a rank.

    >>> _ranks({"never": 0.0, "always": -2.0, "adwin": 0.0, "kl": None})
    {'never': 1, 'always': 3, 'adwin': 1}
    """
    there = {name: value for name, value in values.items() if value is not None}
    return {name: 1 + sum(other > value for other in there.values()) for name, value in there.items()}
