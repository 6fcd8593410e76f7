"""A ledger's tables, the paper's Tables 1 to 3 among them."""

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from worldfork.desk.reading.outcomes import Forks
from worldfork.desk.scoring import Rules, Score, TaskScore
from worldfork.desk.tables import deployments, design, effects, judgements, policies, sweeps, triggers
from worldfork.desk.tables.paper import ARM, beside_paper, not_run_yet, papers_arm
from worldfork.desk.tables.text_table import TextTable
from worldfork.errors import WorldforkError
from worldfork.ledger.pretraining import Seed
from worldfork.registration import Registration

__all__ = ["LABELS", "choose", "paper_tables", "planned_tables"]

LABELS: Final = (
    *("gate", "effects", "grades", "directions", "quartiles", "severity", "seedrep", "triggers", "useful"),
    *("earnings", "position", "endpoints", "controls", "proxies", "contraction", "predictions", "variance"),
    *("draws", "budget", "arms", "doses", "noises", "deployments", "over_always", "forecasts"),
    "followed_directions",
)

# What a later arm has beside the primary one.
BRIEF: Final = (
    "effects",
    "grades",
    "severity",
    "triggers",
    "useful",
    "earnings",
    "position",
    "predictions",
    "draws",
)


def paper_tables(
    score: Score,
    rules: Rules,
    *,
    replication: Mapping[str, Forks] | None = None,
    seeds: Iterable[Seed] = (),
    paper: bool = False,
    registration: Registration | None = None,
) -> list[TextTable]:
    """Every table, with the arms of a task below one another, then the comparison of arms.

    `replication` holds forks, by task, of the same cells on other stream seeds. With `paper` its figures stand
    beside those of the arm that the registration sets as the paper's, and other arms have the tables of `BRIEF`
    alone; where no arm is set so, the first has all tables, and the paper's figures stand beside none.
    """
    primary = papers_arm(registration, score.arms)
    in_full = primary or next(iter(score.arms))
    of_arms: dict[str, dict[str, TextTable]] = {}
    for arm, scored in score.arms.items():
        for table in _arm_tables(scored.tasks, effects.seed_replication(scored.tasks, replication or {}, rules)):
            if paper and arm != in_full and table.label not in BRIEF:
                continue
            of_arms.setdefault(table.label, {})[arm] = table
    joined = [_arms_joined(by_arm) for by_arm in of_arms.values()]
    dosed = sweeps.doses(score.doses, score.arms)
    tables = [design.gate(seeds)]
    tables += [beside_paper(table, arm=primary) for table in joined] if paper and primary else joined
    tables += [design.arms(score.contrasts), beside_paper(dosed) if paper else dosed, sweeps.noises(score.noises)]
    followed = score.deployment
    tables += [
        deployments.deployments(followed),
        deployments.over_always(followed),
        deployments.forecasts(followed),
        deployments.followed_directions(followed),
    ]
    return [table for table in tables if table.rows]


def planned_tables(tasks: Collection[str], *, dosed: bool = False) -> list[TextTable]:
    """What the paper states about these tasks, with our place left free: a study that has not been run.

    `dosed` says that its arms differ in the number of gradient steps.
    """
    planned = _arm_tables({}, effects.seed_replication({}, {}, Rules()))
    planned += [sweeps.doses({}, {})] if dosed else []
    return [table for table in (not_run_yet(table, tasks) for table in planned) if table.rows]


def choose(tables: Iterable[TextTable], labels: str | None) -> list[TextTable]:
    """Those with these labels, separated by commas; all of them where none is named."""
    wanted = [label.strip() for label in labels.split(",")] if labels else LABELS
    if unknown := [label for label in wanted if label not in LABELS]:
        raise WorldforkError(f"There is no table `{unknown[0]}`; there are {', '.join(LABELS)}.")
    return [table for table in tables if table.label in wanted]


def _arm_tables(tasks: Mapping[str, TaskScore], replicated: TextTable) -> list[TextTable]:
    """The tables of one arm."""
    return [
        effects.effects(tasks),
        judgements.grades(tasks),
        effects.directions(tasks),
        effects.quartiles(tasks),
        effects.severities(tasks),
        replicated,
        triggers.rivals(tasks),
        judgements.usefulness(tasks),
        policies.earnings(tasks),
        policies.position(tasks),
        policies.endpoints(tasks),
        triggers.controls(tasks),
        triggers.proxies(tasks),
        effects.contraction(tasks),
        effects.predictions(tasks),
        design.variance(tasks),
        design.draws(tasks),
        design.budget(tasks),
    ]


def _arms_joined(by_arm: Mapping[str, TextTable]) -> TextTable:
    """One table of them all, in which the arms of a task stand below one another. A caption names a lone arm."""
    filled = {arm: table for arm, table in by_arm.items() if table.rows}
    if len(filled) < 2:
        arm, table = next(iter((filled or by_arm).items()))
        return dataclasses.replace(table, caption=table.caption + (f" Arm: {arm}." if arm else ""))
    tasks = dict.fromkeys(row[0] for table in filled.values() for row in table.rows)
    first = next(iter(filled.values()))
    return dataclasses.replace(
        first,
        heads=(first.heads[0], ARM, *first.heads[1:]),
        rows=tuple(
            (task, arm, *row[1:])
            for task in tasks
            for arm, table in filled.items()
            for row in table.rows
            if row[0] == task
        ),
        keys=first.keys + 1,
    )
