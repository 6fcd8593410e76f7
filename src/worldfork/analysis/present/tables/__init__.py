"""Every table of a score, built from its records; `render` writes them in any medium."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from worldfork.analysis.present.table import Cell, Table
from worldfork.analysis.present.tables import deployments, design, effects, stopping, triggers, value
from worldfork.analysis.present.tables.effects import Scores
from worldfork.analysis.present.tables.paper import beside_paper, papers_arm
from worldfork.analysis.present.text.arms import arm_words
from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.score import Score
from worldfork.errors import WorldforkError
from worldfork.ledger.pretraining import Seed

__all__ = ["LABELS", "OF_TASKS", "all_tables", "choose", "papers_arm", "scores_of", "without_lone_arm"]

OF_TASKS: Final[Mapping[str, Callable[[Scores], Table]]] = {
    "effects": effects.effects,
    "grades": effects.grades,
    "directions": effects.directions,
    "quartiles": effects.quartiles,
    "severity": effects.severities,
    "curve": value.curve,
    "trials": value.trials,
    "price": value.prices,
    "robust": value.robust,
    "triggers": triggers.rivals,
    "useful": triggers.usefulness,
    "position": triggers.position,
    "endpoints": triggers.endpoints,
    "controls": triggers.controls,
    "proxies": triggers.proxies,
    "contraction": effects.contraction,
    "bins": effects.bins,
    "predictions": effects.predictions,
    "variance": design.variance,
    "draws": design.draws,
    "budget": design.budget,
}
OF_STUDY: Final[Mapping[str, Callable[[Score], Table]]] = {
    "stopping": stopping.stopping,
    "looks": stopping.looks,
    "over_tasks": effects.over_tasks,
    "arms": design.arms,
    "doses": lambda score: design.doses(score.doses, score.arms),
    "windows": design.windows,
    "noises": lambda score: design.noises(score.noises),
    "deployments": lambda score: deployments.deployments(score.deployment),
    "over_always": lambda score: deployments.over_always(score.deployment),
    "forecasts": lambda score: deployments.forecasts(score.deployment),
    "orders": lambda score: deployments.orders(score.deployment),
    "followed_directions": lambda score: deployments.followed_directions(score.deployment),
}
LABELS: Final = ("gate", *list(OF_TASKS)[:5], "seedrep", *list(OF_TASKS)[5:], *OF_STUDY)
# Tables that arms other than the paper's have beside its figures.
BRIEF: Final = (*("effects", "grades", "severity", "triggers", "useful", "position", "predictions", "draws"),)


def all_tables(
    score: Score,
    *,
    replication: Mapping[str, Forks] | None = None,
    seeds: Iterable[Seed] = (),
    paper: bool = False,
) -> list[Table]:
    """Return every table that has rows, with the arms of a task below one another, then the comparison of arms.

    Args:
        score: what to show.
        replication: forks, by task, of the same cells on other stream seeds.
        seeds: the seeds that were trained.
        paper: put the paper's figures beside those of the arm that is set as the paper's. Other arms have the
            tables of `BRIEF` alone. Where no arm is set so, the first has all, and nothing stands beside them.
    """
    primary = papers_arm(score.registration, score.arms) if paper else None
    shown = scores_of(score)
    in_full = score.label(primary or next(iter(score.arms)))
    of_primary = {key: figures for key, figures in shown.items() if key[1] == in_full}
    tables = [design.gate(seeds)]
    for label in LABELS:
        of_arms = of_primary if paper and label not in BRIEF else shown
        if label == "seedrep":
            tables.append(without_lone_arm(effects.seed_replication(of_arms, replication or {}, score.rules)))
        elif label in OF_TASKS:
            tables.append(without_lone_arm(OF_TASKS[label](of_arms)))
    if primary:
        tables = [beside_paper(table, arm=in_full) for table in tables]
    of_study = [build(score) for build in OF_STUDY.values()]
    tables += [beside_paper(table) if paper and table.label == "doses" else table for table in of_study]
    return [table for table in tables if table.rows]


def choose(tables: Iterable[Table], labels: str | None) -> list[Table]:
    """Return those with these labels, separated by commas; all of them where none is named."""
    wanted = [label.strip() for label in labels.split(",")] if labels else LABELS
    if unknown := [label for label in wanted if label not in LABELS]:
        raise WorldforkError(f"There is no table `{unknown[0]}`; there are {', '.join(LABELS)}.")
    return [table for table in tables if table.label in wanted]


def scores_of(score: Score) -> Scores:
    """Return every task of every arm, by task and the arm's label; the arms of a task stand together."""
    tasks = dict.fromkeys(task for arm in score.arms.values() for task in arm.tasks)
    return {
        (task, Cell(score.label(name), note=arm_words(score.registration, name))): arm.tasks[task]
        for task in tasks
        for name, arm in score.arms.items()
        if task in arm.tasks
    }


def without_lone_arm(table: Table) -> Table:
    """Return the table without its column of arms where one arm alone has rows; then the caption names it."""
    arms = {row[1] for row in table.rows}
    if len(arms) > 1 or table.heads[1] != "Arm":
        return table
    arm = next(iter(arms), "")
    caption = table.caption + (f" Arm: {arm}." if arm else "")
    return dataclasses.replace(table.without("Arm"), caption=caption)
