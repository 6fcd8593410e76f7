"""Tables of closed-loop deployments, and of where they part from what the one-step ledger says."""

from collections.abc import Callable, Iterator, Mapping

from worldfork.analysis.present.table import Column, Table
from worldfork.analysis.present.text import (
    DASH,
    TERMS,
    best_first,
    estimate,
    followed_digits,
    known,
    number,
    rate,
    realised,
    silent_policies,
    unsigned,
    with_span,
    word,
)
from worldfork.analysis.score.deployment_records import Advantage, TaskDeployment
from worldfork.analysis.score.undefined import Undefined

__all__ = ["deployments", "followed_directions", "forecasts", "over_always"]

Tasks = Mapping[str, TaskDeployment]
NEVER_FIRED = "Never fired, and returned what never did: {}."


def deployments(tasks: Tasks) -> Table:
    """Return every policy against never."""
    cautions = dict.fromkeys(caution for deployed in tasks.values() for caution in deployed.cautions)
    return _of_every_task(
        tasks,
        _outcomes,
        (
            *("updates", "over never", "p", "grade", "return", "evaluated over never", "regret"),
            Column("gradient steps", optional=True),
        ),
        "deployments",
        "Policies that were followed all the way: updates of one deployment, the mean return of an episode above "
        "that of never (paired difference, Student-t interval over checkpoints, the larger adjusted p of Student-t "
        "and sign flips, grade), the mean return, the difference on the matched evaluations, what the best policy "
        f"in hindsight returned more, and gradient steps.{''.join(f' {caution}' for caution in cautions)}",
    )


def over_always(tasks: Tasks) -> Table:
    """Return what each trigger adds to its update."""
    return _of_every_task(
        tasks,
        _additions,
        ("beside", "over always", "p", "grade", "better at"),
        "over_always",
        "What a trigger adds to its update: the paired difference of the return of an episode with the policy that "
        "always fires the same update, named beside it (Student-t interval over checkpoints, the larger adjusted p "
        "of Student-t and sign flips, grade), and at how many checkpoints it returned more.",
    )


def forecasts(tasks: Tasks) -> Table:
    """Return what the one-step ledger says of each policy, and what it came to."""
    return _of_every_task(
        tasks,
        _forecasts,
        (
            *(Column("by the ledger", term="by the ledger"), "realised less ledger", "rank"),
            *(Column(head, optional=True) for head in ("its grade", "realised", "updates there", "updates here")),
        ),
        "forecasts",
        "What the one-step ledger says of a policy; what following it returned more than never, per episode, less "
        "that; and the rank by each. Then the grade of the difference, what was realised, and how often the policy "
        f"fires there and here. By the ledger: {TERMS['by the ledger']}",
    )


def followed_directions(tasks: Tasks) -> Table:
    """Return the same for each direction of drift, where there are several."""
    return _of_every_task(
        tasks,
        _by_direction,
        ("updates", "over never", "by the ledger", "realised less ledger"),
        "followed_directions",
        "Policies that were followed all the way, by the direction of drift: updates of one deployment, what an "
        "episode returned more than under never, what the one-step ledger says per decision point, and what was "
        "realised less that. Student-t intervals over checkpoints, not adjusted.",
        keys=("Direction", "Policy"),
    )


def _of_every_task(
    tasks: Tasks,
    rows_of: Callable[[TaskDeployment], Iterator[tuple[str, ...]]],
    columns: tuple[str | Column, ...],
    label: str,
    caption: str,
    *,
    keys: tuple[str, ...] = ("Policy",),
) -> Table:
    """Return the rows of every task in one table, without those of policies that never fired."""
    name, silent = len(keys) - 1, {task: silent_policies(deployed) for task, deployed in tasks.items()}
    rows = [
        (task, *row)
        for task, deployed in tasks.items()
        for row in rows_of(deployed)
        if row[name] not in silent[task]
    ]
    named = [
        f"{', '.join(names)}{f' ({task})' if len(tasks) > 1 else ''}" for task, names in silent.items() if names
    ]
    folded = NEVER_FIRED.format("; ".join(named)) if named and rows else ""
    return Table(label, caption, ("Task", *keys, *columns), rows, keys=1 + len(keys), folded=folded)


def _outcomes(deployed: TaskDeployment) -> Iterator[tuple[str, ...]]:
    digits = followed_digits(deployed)
    for name in best_first(deployed):
        outcome = deployed.policies[name]
        yield (
            name,
            f"{outcome.updates:.1f}",
            *_graded(outcome.advantage, digits),
            unsigned(outcome.returned, digits),
            estimate(outcome.evaluation, digits),
            unsigned(outcome.regret, digits),
            f"{outcome.gradient_steps:,.0f}",
        )


def _additions(deployed: TaskDeployment) -> Iterator[tuple[str, ...]]:
    for name in best_first(deployed):
        outcome = deployed.policies[name]
        if (added := known(outcome.over_always)) is not None:
            better_at = f"{added.won} of {deployed.checkpoints}"
            yield name, outcome.always or DASH, *_graded(added, followed_digits(deployed)), better_at


def _graded(gained: Advantage | Undefined, digits: int) -> tuple[str, str, str]:
    """Return a difference with its interval, the adjusted p and the grade."""
    if isinstance(gained, Undefined):
        return DASH, DASH, DASH
    return estimate(gained, digits), rate(gained.adjusted_p), word(gained.grade)


def _forecasts(deployed: TaskDeployment) -> Iterator[tuple[str, ...]]:
    digits = followed_digits(deployed)
    by_ledger = _ranks({name: known(outcome.ledger_value) for name, outcome in deployed.policies.items()})
    by_return = _ranks({name: realised(outcome) or 0.0 for name, outcome in deployed.policies.items()})
    for name in best_first(deployed):
        outcome = deployed.policies[name]
        parted = known(outcome.parted)
        yield (
            name,
            number(outcome.ledger_value, digits),
            estimate(parted, digits),
            f"{by_ledger.get(name, DASH)} / {by_return[name]}",
            word(parted.grade if parted else None),
            number(realised(outcome), digits),
            unsigned(outcome.ledger_updates, 1),
            f"{outcome.updates:.1f}",
        )


def _ranks(values: Mapping[str, float | None]) -> dict[str, int]:
    """Return the rank of each policy that has a value, 1 being the best; equal ones share a rank.

    >>> _ranks({"never": 0.0, "always": -2.0, "adwin": 0.0, "kl": None})
    {'never': 1, 'always': 3, 'adwin': 1}
    """
    there = {name: value for name, value in values.items() if value is not None}
    return {name: 1 + sum(other > value for other in there.values()) for name, value in there.items()}


def _by_direction(deployed: TaskDeployment) -> Iterator[tuple[str, ...]]:
    digits = followed_digits(deployed)
    for way in deployed.directions if len(deployed.directions) > 1 else ():
        for name in best_first(deployed):
            if (found := deployed.policies[name].by_direction.get(way)) is not None:
                yield (
                    way,
                    name,
                    f"{found.updates:.1f}",
                    estimate(found, digits),
                    number(found.ledger_value, digits),
                    with_span(found.parted, found.parted_student_t, digits),
                )
