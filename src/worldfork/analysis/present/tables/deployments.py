"""Tables of closed-loop deployments, and of where they part from what the one-step ledger says."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from worldfork.analysis.present.strips import Strip
from worldfork.analysis.present.table import Column, Table
from worldfork.analysis.present.text.deployments import best_first, followed_digits, realised, silent_policies
from worldfork.analysis.present.text.formatting import (
    DASH,
    defined,
    estimate,
    graded,
    number,
    rate,
    span,
    text_of,
    unsigned,
    with_span,
)
from worldfork.analysis.present.text.terms import TERMS
from worldfork.analysis.score.deployment_records import (
    Advantage,
    InDirection,
    PolicyOutcome,
    SizedForecast,
    TaskDeployment,
)
from worldfork.analysis.score.undefined import Bounds, Figure, Undefined

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
    has_trials = any(deployed.has_trials for deployed in tasks.values())
    kept = f" Kept: {TERMS['kept']}" if has_trials else ""
    table = Table.of(
        "deployments",
        "Policies in closed-loop deployment: updates of one deployment, the mean return of an episode above that "
        "of never (paired difference, Student-t interval over checkpoints), p after Holm's adjustment (the larger "
        "of Student-t and sign flips) and after step-down max-T over policies, which share checkpoints, the grade "
        "by the registered one of both (Holm's where none is) and by max-T; the mean return, the interval of the "
        "difference corrected for skewness (Johnson), the difference on the matched evaluations, what the best "
        f"policy in hindsight returned more, and gradient steps.{kept}{''.join(f' {each}' for each in cautions)}",
        KEYS,
        _policies(tasks),
        [
            ("updates", lambda policy, _: f"{policy.outcome.updates:.1f}"),
            *([(Column("kept", term="kept"), lambda policy, _: _kept(policy.outcome))] if has_trials else []),
            ("over never", lambda policy, digits: estimate(policy.outcome.advantage, digits)),
            (
                "p, Holm",
                lambda policy, _: text_of(policy.outcome.advantage, lambda gained: rate(gained.adjusted_p)),
            ),
            (
                "p, max-T",
                lambda policy, _: text_of(policy.outcome.advantage, lambda gained: rate(gained.adjusted_max_t)),
            ),
            ("grade", lambda policy, _: text_of(policy.outcome.advantage, lambda gained: graded(gained.grade))),
            (
                "by max-T",
                lambda policy, _: text_of(policy.outcome.advantage, lambda gained: graded(gained.grade_max_t)),
            ),
            (Column("return", optional=True), lambda policy, digits: unsigned(policy.outcome.returned, digits)),
            (
                Column("corrected for skew", optional=True),
                lambda policy, digits: _johnson(policy.outcome.advantage, digits),
            ),
            (
                Column("evaluated over never", optional=True),
                lambda policy, digits: estimate(policy.outcome.evaluation, digits),
            ),
            (Column("regret", optional=True), lambda policy, digits: unsigned(policy.outcome.regret, digits)),
            (Column("gradient steps", optional=True), lambda policy, _: f"{policy.outcome.gradient_steps:,.0f}"),
        ],
        strip=_strip,
    )
    return _with_silent(table, tasks)


def over_always(tasks: Tasks) -> Table:
    """Return what each trigger adds to its update."""
    table = Table.of(
        "over_always",
        "What a trigger adds to its update: the paired difference of the return of an episode with the policy that "
        "always fires the same update, named beside it (Student-t interval over checkpoints, p and grades as in "
        "the table of policies), and at how many checkpoints it returned more.",
        KEYS,
        [row for row in _policies(tasks) if not isinstance(row[1].outcome.over_always, Undefined)],
        [
            ("beside", lambda policy, _: policy.outcome.always or DASH),
            ("over always", lambda policy, digits: estimate(policy.outcome.over_always, digits)),
            (
                "p, Holm",
                lambda policy, _: text_of(policy.outcome.over_always, lambda gained: rate(gained.adjusted_p)),
            ),
            (
                Column("p, max-T", optional=True),
                lambda policy, _: text_of(policy.outcome.over_always, lambda gained: rate(gained.adjusted_max_t)),
            ),
            ("grade", lambda policy, _: text_of(policy.outcome.over_always, lambda gained: graded(gained.grade))),
            (
                "by max-T",
                lambda policy, _: text_of(policy.outcome.over_always, lambda gained: graded(gained.grade_max_t)),
            ),
            (
                "better at",
                lambda policy, _: text_of(
                    policy.outcome.over_always, lambda added: f"{added.won} of {policy.deployed.checkpoints}"
                ),
            ),
        ],
    )
    return _with_silent(table, tasks)


def forecasts(tasks: Tasks) -> Table:
    """Return what one-step labels forecast of each policy, and what it came to."""
    table = Table.of(
        "forecasts",
        "What one-step labels say that deploying a policy returns more than never, per episode, over the decisions "
        "that an episode follows, and what was realised less that. One step: the mean of dR where it fires, which "
        "is to order policies. Carried: dR of the present decision from its first fire on, which is to say how "
        "much they return. Then the rank by one step and by what was realised. By the ledger: "
        f"{TERMS['by the ledger']}",
        KEYS,
        _policies(tasks),
        [
            ("one step", lambda policy, digits: number(policy.outcome.one_step, digits)),
            ("realised less one step", lambda policy, digits: estimate(policy.outcome.parted_one_step, digits)),
            ("carried", lambda policy, digits: number(policy.outcome.carried, digits)),
            ("realised less carried", lambda policy, digits: estimate(policy.outcome.parted_carried, digits)),
            ("rank", lambda policy, _: _rank(policy)),
            (Column("realised", optional=True), lambda policy, digits: number(realised(policy.outcome), digits)),
            (
                Column("by the ledger", term="by the ledger", optional=True),
                lambda policy, digits: number(policy.outcome.ledger_value, digits),
            ),
            (Column("updates there", optional=True), lambda policy, _: unsigned(policy.outcome.ledger_updates, 1)),
            (Column("updates here", optional=True), lambda policy, _: f"{policy.outcome.updates:.1f}"),
        ],
    )
    return _with_silent(table, tasks)


def orders(tasks: Tasks) -> Table:
    """Return how well each forecast orders policies, and how far it is off."""
    return Table.of(
        "orders",
        "Spearman's correlation over policies of a forecast with what was realised (bootstrap over checkpoints), "
        "of all and of those that fire one update; the root mean square error, and how many policies were resolved "
        "to return something else. The count of fires times the mean dR of the update needs no label of a fork. "
        "Given the count: the partial correlation, which is what labels of single forks know beyond it.",
        ("Task", "Forecast", "Policies"),
        [
            ((task, name, policies), line, followed_digits(deployed))
            for task, deployed in tasks.items()
            for name, policies, line in _orders(deployed)
        ],
        [
            ("rank correlation", lambda line, _: with_span(line.correlation, defined(line.bootstrap), 2)),
            (
                "root mean square error",
                lambda line, digits: unsigned(line.sized.error, digits) if line.sized else "",
            ),
            ("policies missed", lambda line, _: str(line.sized.missed) if line.sized else ""),
        ],
    )


ORDERS: Final = "How well each forecast orders policies by what they returned, with bootstrap 95% over checkpoints."


class _Order(NamedTuple):
    """Rank correlation of a forecast, and its error where it has one."""

    correlation: Figure
    bootstrap: Bounds
    sized: SizedForecast | None = None


def _orders(deployed: TaskDeployment) -> Iterator[tuple[str, str, _Order]]:
    """Yield every forecast over all policies, and over those of one update."""
    shown = defined(deployed.forecasts)
    if shown is None:
        return
    given = shown.partial
    found = [
        ("one step", _Order(shown.one_step.rank_correlation, shown.one_step.bootstrap, shown.one_step)),
        ("carried", _Order(shown.carried.rank_correlation, shown.carried.bootstrap, shown.carried)),
        ("count of fires", _Order(shown.count.rank_correlation, shown.count.bootstrap)),
        ("one step, given the count", _Order(given.value, given.bootstrap)),
    ]
    within = (shown.one_step.within, shown.carried.within, shown.count.within, given.within)
    for (name, of_all), arms in zip(found, within, strict=True):
        yield name, "all", of_all
        yield from ((name, arm, _Order(order.rank_correlation, order.bootstrap)) for arm, order in arms.items())


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


def _kept(outcome: PolicyOutcome) -> str:
    """Return how many trials of one deployment kept their update."""
    return f"{outcome.trials.kept:.1f} of {outcome.trials.decided:.1f}" if outcome.trials else ""


def _johnson(gained: Advantage | Undefined, digits: int) -> str:
    """Return the interval corrected for skewness, where skewness takes anything from the other."""
    skew = None if isinstance(gained, Undefined) else defined(gained.skew)
    return span(skew.johnson, digits) if skew and skew.words else ""


def _strip(policy: _Policy) -> Strip:
    """Return the chart of a policy's gain, which may lie far outside where it is shown to lose. Where deployments
    diverged it is the gain of the others."""
    outcome, gained = policy.outcome, defined(policy.outcome.advantage)
    if gained is None:
        return Strip(mean=0.0)
    mean = defined(gained.mean)
    loses = mean is not None and mean < 0 and defined(gained.grade) in ("resolved", "leaning")
    if outcome.diverged:
        kept = defined(outcome.retained)
        none_left = Undefined("no deployment is left that did not diverge")
        return Strip(mean=kept.mean if kept else none_left, student_t=kept.student_t if kept else None, far=loses)
    return Strip(
        mean=gained.mean,
        student_t=gained.student_t,
        checkpoints=tuple(gained.by_checkpoint.values()),
        forecast=outcome.ledger_value,
        far=loses,
    )


def _rank(policy: _Policy) -> str:
    """Return the rank of a policy by its one-step forecast and by what it returned."""
    outcomes = policy.deployed.policies
    forecast = _ranks({name: defined(outcome.one_step) for name, outcome in outcomes.items()})
    by_return = _ranks({name: realised(outcome) or 0.0 for name, outcome in outcomes.items()})
    return f"{forecast.get(policy.name, DASH)} / {by_return[policy.name]}"


def _ranks(values: Mapping[str, float | None]) -> dict[str, int]:
    """Return the rank of each policy that has a value, 1 being the best; equal ones share a rank.

    >>> _ranks({"never": 0.0, "always": -2.0, "adwin": 0.0, "kl": None})
    {'never': 1, 'always': 3, 'adwin': 1}
    """
    there = {name: value for name, value in values.items() if value is not None}
    return {name: 1 + sum(other > value for other in there.values()) for name, value in there.items()}
