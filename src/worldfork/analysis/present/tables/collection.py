"""The paper's figures beside ours. `paper.toml` holds them as printed, with the place they are from."""

import dataclasses
import functools
import tomllib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final

from worldfork.analysis.present.tables import deployments, design, effects, triggers
from worldfork.analysis.present.tables.table import TextTable
from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.score import Rules, Score, TaskScore
from worldfork.errors import WorldforkError
from worldfork.ledger.pretraining import Seed
from worldfork.registration import Arm, Registration

NOT_RUN: Final = "not run yet"
ARM: Final = "Arm"  # the head of the second column where a table has several
# The paper's name, gradient steps, window and scope. It gives no learning rate: 1.0, pretraining's, is ours.
UPDATE: Final = ("finetune", 200, 10_000, "model")
PERIOD: Final = 20_000  # environment steps of its corrected schedule
LEGACY: Final = {"hopper-hop": 2_000}  # the control's drift went ten times as fast


@functools.cache
def stated() -> dict[str, TextTable]:
    """Every table in which the paper states figures of ours."""
    given = tomllib.loads(Path(__file__).with_name("paper.toml").read_text(encoding="utf-8"))
    return {
        label: TextTable(
            label,
            f"Paper: {table['source']}.",
            tuple(table["heads"]),
            tuple(tuple(row) for row in table["rows"]),
            keys=table["keys"],
        )
        for label, table in given.items()
    }


def beside_paper(ours: TextTable, *, arm: str | None = None) -> TextTable:
    """Above each of our rows the paper's, where it states one: once, where several of ours are about the same.

    In a table with a column of arms they are those about `arm`.
    """
    if ours.label not in stated():
        return ours
    theirs = stated()[ours.label]
    to_place = {row[: theirs.keys]: row[theirs.keys :] for row in theirs.rows}
    of_arms = ours.heads[1] == ARM
    rows = []
    for row in ours.rows:
        key = row[: ours.keys]
        about = (key[0], *key[2:]) if of_arms else key
        if about in to_place and (not of_arms or key[1] == arm):
            rows.append((*key, "paper", *to_place.pop(about)))
        rows.append((*key, "worldfork", *row[ours.keys :]))
    return _named(ours, rows) if len(rows) > len(ours.rows) else ours


def papers_arm(registration: Registration | None, scored: Collection[str]) -> str | None:
    """The first of the scored arms that is set as the paper's primary one. A flat table does not say how its arms
    are set: there it is the first."""
    if registration is None:
        return next(iter(scored), None)
    return next((arm.name for arm in registration.arms if arm.name in scored and _set_as_the_papers(arm)), None)


def _set_as_the_papers(arm: Arm) -> bool:
    update = arm.mechanism
    return (
        (update.name, update.steps, update.window, update.scope) == UPDATE
        and update.settings.get("rate", 1.0) == 1.0
        and (arm.evaluation.mode, arm.stream.action_noise) == ("pinned", 0.0)
        and all(arm.stream.drift_period == LEGACY.get(task, PERIOD) for task in arm.tasks)
    )


def not_run_yet(ours: TextTable, tasks: Collection[str]) -> TextTable:
    """The paper's rows about these tasks, with our place below each left free. `ours` has no rows yet."""
    rows = []
    for row in stated()[ours.label].rows if ours.label in stated() else ():
        if row[0] in tasks:
            key, rest = row[: ours.keys], row[ours.keys :]
            rows += [(*key, "paper", *rest), (*key, "worldfork", NOT_RUN, *[""] * (len(rest) - 1))]
    return _named(ours, rows) if rows else ours


def _named(ours: TextTable, rows: list[tuple[str, ...]]) -> TextTable:
    heads = (*ours.heads[: ours.keys], "by", *ours.heads[ours.keys :])
    caption = f"{ours.caption} {stated()[ours.label].caption}"
    return TextTable(ours.label, caption, heads, tuple(rows), keys=ours.keys + 1)


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
    dosed = design.doses(score.doses, score.arms)
    tables = [design.gate(seeds)]
    tables += [beside_paper(table, arm=primary) for table in joined] if paper and primary else joined
    tables += [design.arms(score.contrasts), beside_paper(dosed) if paper else dosed, design.noises(score.noises)]
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
    planned += [design.doses({}, {})] if dosed else []
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
        triggers.grades(tasks),
        effects.directions(tasks),
        effects.quartiles(tasks),
        effects.severities(tasks),
        replicated,
        triggers.rivals(tasks),
        triggers.usefulness(tasks),
        triggers.earnings(tasks),
        triggers.position(tasks),
        triggers.endpoints(tasks),
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
