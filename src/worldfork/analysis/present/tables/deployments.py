"""Tables of closed-loop deployments, and of where they part from what the one-step ledger says."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Final

from worldfork.analysis.present.strips import Strip
from worldfork.analysis.present.table import Cells, Column, Row, Table
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
from worldfork.analysis.score.deployment_records import Advantage, PolicyOutcome, SizedForecast, TaskDeployment
from worldfork.analysis.score.undefined import Bounds, Figure, Undefined

Tasks = Mapping[str, TaskDeployment]
KEYS = ("Task", "Policy")


def deployments(tasks: Tasks) -> Table:
    """Return every policy against never."""
    cautions = dict.fromkeys(caution for deployed in tasks.values() for caution in deployed.cautions)
    has_trials = any(deployed.has_trials for deployed in tasks.values())
    kept = f" Kept: {TERMS['kept']}" if has_trials else ""
    rows = []
    for key, outcome, digits in _policies(tasks):
        gained, trials = outcome.advantage, outcome.trials
        cells: list[tuple[str | Column, str]] = [
            ("updates", f"{outcome.updates:.1f}"),
            (Column("kept", term="kept"), f"{trials.kept:.1f} of {trials.decided:.1f}" if trials else ""),
            ("over never", estimate(gained, digits)),
            *_tests(gained, "p, max-T"),
            (Column("return", optional=True), unsigned(outcome.returned, digits)),
            (Column("corrected for skew", optional=True), _johnson(gained, digits)),
            (Column("evaluated over never", optional=True), estimate(outcome.evaluation, digits)),
            (Column("regret", optional=True), unsigned(outcome.regret, digits)),
            (Column("gradient steps", optional=True), f"{outcome.gradient_steps:,.0f}"),
        ]
        rows.append(Row(key, cells, _strip(outcome)))
    table = Table.of(
        "deployments",
        "Policies in closed-loop deployment: updates of one deployment, the mean return of an episode above that "
        "of never (paired difference, Student-t interval over checkpoints), p after Holm's adjustment (the larger "
        "of Student-t and sign flips) and after step-down max-T over policies, which share checkpoints, the grade "
        "by the registered one of both (Holm's where none is) and by max-T; the mean return, the interval of the "
        "difference corrected for skewness (Johnson), the difference on the matched evaluations, what the best "
        f"policy in hindsight returned more, and gradient steps.{kept}{''.join(f' {each}' for each in cautions)}",
        KEYS,
        rows,
    )
    return _with_silent(table if has_trials else table.without("kept"), tasks)


def _tests(gained: Advantage | Undefined, max_t: str | Column) -> Cells:
    """Return the adjusted p of a difference and its grades, by Holm and by max-T."""
    return [
        ("p, Holm", text_of(gained, lambda gained: rate(gained.adjusted_p))),
        (max_t, text_of(gained, lambda gained: rate(gained.adjusted_max_t))),
        ("grade", text_of(gained, lambda gained: graded(gained.grade))),
        ("by max-T", text_of(gained, lambda gained: graded(gained.grade_max_t))),
    ]


def over_always(tasks: Tasks) -> Table:
    """Return what each trigger adds to its update."""
    rows = []
    for key, outcome, digits in _policies(tasks):
        added = outcome.over_always
        if not isinstance(added, Undefined):
            cells: Cells = [
                ("beside", outcome.always or DASH),
                ("over always", estimate(added, digits)),
                *_tests(added, Column("p, max-T", optional=True)),
                ("better at", f"{added.won} of {tasks[key[0]].checkpoints}"),
            ]
            rows.append(Row(key, cells))
    table = Table.of(
        "over_always",
        "What a trigger adds to its update: the paired difference of the return of an episode with the policy that "
        "always fires the same update, named beside it (Student-t interval over checkpoints, p and grades as in "
        "the table of policies), and at how many checkpoints it returned more.",
        KEYS,
        rows,
    )
    return _with_silent(table, tasks)


def forecasts(tasks: Tasks) -> Table:
    """Return what one-step labels forecast of each policy, and what it came to."""
    rows = []
    for (task, name), outcome, digits in _policies(tasks):
        cells: Cells = [
            ("one step", number(outcome.one_step, digits)),
            ("realised less one step", estimate(outcome.parted_one_step, digits)),
            ("carried", number(outcome.carried, digits)),
            ("realised less carried", estimate(outcome.parted_carried, digits)),
            ("rank", _rank(name, tasks[task].policies)),
            (Column("realised", optional=True), number(realised(outcome), digits)),
            (Column("by the ledger", term="by the ledger", optional=True), number(outcome.ledger_value, digits)),
            (Column("updates there", optional=True), unsigned(outcome.ledger_updates, 1)),
            (Column("updates here", optional=True), f"{outcome.updates:.1f}"),
        ]
        rows.append(Row((task, name), cells))
    table = Table.of(
        "forecasts",
        "What one-step labels say that deploying a policy returns more than never, per episode, over the decisions "
        "that an episode follows, and what was realised less that. One step: the mean of dR where it fires, which "
        "is to order policies. Carried: dR of the present decision from its first fire on, which is to say how "
        "much they return. Then the rank by one step and by what was realised. By the ledger: "
        f"{TERMS['by the ledger']}",
        KEYS,
        rows,
    )
    return _with_silent(table, tasks)


def orders(tasks: Tasks) -> Table:
    """Return how well each forecast orders policies, and how far it is off."""
    rows = []
    for task, deployed in tasks.items():
        for name, policies, correlation, bootstrap, sized in _orders(deployed):
            cells: Cells = [
                ("rank correlation", with_span(correlation, defined(bootstrap), 2)),
                ("root mean square error", unsigned(sized.error, followed_digits(deployed)) if sized else ""),
                ("policies missed", str(sized.missed) if sized else ""),
            ]
            rows.append(Row((task, name, policies), cells))
    return Table.of(
        "orders",
        "Spearman's correlation over policies of a forecast with what was realised (bootstrap over checkpoints), "
        "of all and of those that fire one update; the root mean square error, and how many policies were resolved "
        "to return something else. The count of fires times the mean dR of the update needs no label of a fork. "
        "Given the count: the partial correlation, which is what labels of single forks know beyond it.",
        ("Task", "Forecast", "Policies"),
        rows,
    )


ORDERS: Final = "How well each forecast orders policies by what they returned, with bootstrap 95% over checkpoints."


def _orders(deployed: TaskDeployment) -> Iterator[tuple[str, str, Figure, Bounds, SizedForecast | None]]:
    """Yield the rank correlation of every forecast over all policies, and over those of one update."""
    shown = defined(deployed.forecasts)
    if shown is None:
        return
    given = shown.partial
    for name, order in (("one step", shown.one_step), ("carried", shown.carried), ("count of fires", shown.count)):
        sized = order if isinstance(order, SizedForecast) else None
        yield name, "all", order.rank_correlation, order.bootstrap, sized
        yield from ((name, arm, each.rank_correlation, each.bootstrap, None) for arm, each in order.within.items())
    name = "one step, given the count"
    yield name, "all", given.value, given.bootstrap, None
    yield from ((name, arm, each.rank_correlation, each.bootstrap, None) for arm, each in given.within.items())


def followed_directions(tasks: Tasks) -> Table:
    """Return the same for each direction of drift, where there are several."""
    rows = []
    for task, deployed in tasks.items():
        for way in deployed.directions if len(deployed.directions) > 1 else ():
            for key, outcome, digits in _policies({task: deployed}):
                if (inside := outcome.by_direction.get(way)) is not None:
                    cells: Cells = [
                        ("updates", f"{inside.updates:.1f}"),
                        ("over never", estimate(inside, digits)),
                        ("by the ledger", number(inside.ledger_value, digits)),
                        ("realised less ledger", with_span(inside.parted, inside.parted_student_t, digits)),
                    ]
                    rows.append(Row((task, way, key[1]), cells))
    table = Table.of(
        "followed_directions",
        "Policies in closed-loop deployment, by the direction of drift: updates of one deployment, what an "
        "episode returned more than under never, what the one-step ledger says per decision point, and what was "
        "realised less that. Student-t intervals over checkpoints, not adjusted.",
        ("Task", "Direction", "Policy"),
        rows,
    )
    return _with_silent(table, tasks)


def _policies(tasks: Tasks) -> Iterator[tuple[tuple[str, str], PolicyOutcome, int]]:
    """Yield the policies of every task that fired, and never, the best first; with the decimals of returns."""
    for task, deployed in tasks.items():
        silent, digits = silent_policies(deployed), followed_digits(deployed)
        for name in best_first(deployed):
            if name not in silent:
                yield (task, name), deployed.policies[name], digits


def _with_silent(table: Table, tasks: Tasks) -> Table:
    """Return the table with the names of the policies that never fired below it."""
    silent = {task: names for task, deployed in tasks.items() if (names := silent_policies(deployed))}
    names = [f"{', '.join(names)}{f' ({task})' if len(tasks) > 1 else ''}" for task, names in silent.items()]
    if not names or not table.rows:
        return table
    return dataclasses.replace(table, folded=f"Never fired, and returned what never did: {'; '.join(names)}.")


def _johnson(gained: Advantage | Undefined, digits: int) -> str:
    """Return the interval corrected for skewness, where skewness takes anything from the other."""
    skew = None if isinstance(gained, Undefined) else defined(gained.skew)
    return span(skew.johnson, digits) if skew and skew.words else ""


def _strip(outcome: PolicyOutcome) -> Strip:
    """Return the chart of a policy's gain, which may lie far outside where it is shown to lose. Where deployments
    diverged it is the gain of the others."""
    gained = defined(outcome.advantage)
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


def _rank(name: str, policies: Mapping[str, PolicyOutcome]) -> str:
    """Return the rank of a policy by its one-step forecast and by what it returned; equal ones share a rank."""
    forecast = {other: value for other, each in policies.items() if (value := defined(each.one_step)) is not None}
    returned = {other: realised(each) or 0.0 for other, each in policies.items()}
    ranks = [
        str(1 + sum(value > values[name] for value in values.values())) if name in values else DASH
        for values in (forecast, returned)
    ]
    return " / ".join(ranks)
