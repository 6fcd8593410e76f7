"""A ledger's tables, the paper's Tables 1 to 3 among them."""

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from worldfork.desk.reading.outcomes import Forks
from worldfork.desk.scoring import Rules, Score
from worldfork.desk.tables import design, effects, triggers
from worldfork.desk.tables.paper import beside_paper, not_run_yet
from worldfork.desk.tables.text_table import TextTable
from worldfork.errors import WorldforkError
from worldfork.ledger.pretraining import Seed

__all__ = ["LABELS", "choose", "paper_tables", "planned_tables"]

LABELS: Final = (
    *("gate", "effects", "directions", "quartiles", "seedrep", "triggers", "controls", "proxies", "contraction"),
    *("predictions", "variance", "budget", "arms"),
)

BRIEF: Final = ("effects", "triggers")  # what a later arm has beside the primary one


def paper_tables(
    score: Score,
    rules: Rules,
    *,
    replication: Mapping[str, Forks] | None = None,
    seeds: Iterable[Seed] = (),
    paper: bool = False,
) -> list[TextTable]:
    """All tables of every arm, then the comparison of arms.

    `replication` holds forks, by task, of the same cells on other stream seeds. With `paper` its figures stand
    beside those of the first arm, the primary one, and later arms have their effects and triggers alone.
    """
    tables = [design.gate(seeds)]
    for number, (arm, scored) in enumerate(score.arms.items()):
        plain: effects.Plain = {task: one.to_json() for task, one in scored.tasks.items()}
        made = _primary(plain, effects.seed_replication(scored.tasks, replication or {}, rules))
        if paper:
            made = (
                [beside_paper(one) for one in made] if number == 0 else [one for one in made if one.label in BRIEF]
            )
        tables += [dataclasses.replace(one, caption=one.caption + (f" Arm: {arm}." if arm else "")) for one in made]
    contrasts: Any = score.to_json()["contrasts"]
    tables.append(design.arms(contrasts))
    return [one for one in tables if one.rows]


def planned_tables(tasks: Collection[str]) -> list[TextTable]:
    """What the paper states about these tasks, with our place left free: a study that has not been run."""
    found = [not_run_yet(one, tasks) for one in _primary({}, effects.seed_replication({}, {}, Rules()))]
    return [one for one in found if one.rows]


def choose(tables: Iterable[TextTable], labels: str | None) -> list[TextTable]:
    """Those with these labels, separated by commas; all of them where none is named."""
    wanted = [label.strip() for label in labels.split(",")] if labels else LABELS
    if unknown := [label for label in wanted if label not in LABELS]:
        raise WorldforkError(f"There is no table `{unknown[0]}`; there are {', '.join(LABELS)}.")
    return [one for one in tables if one.label in wanted]


def _primary(plain: effects.Plain, replicated: TextTable) -> list[TextTable]:
    """The tables of one arm."""
    return [
        effects.effects(plain),
        effects.directions(plain),
        effects.quartiles(plain),
        replicated,
        triggers.rivals(plain),
        triggers.controls(plain),
        triggers.proxies(plain),
        effects.contraction(plain),
        effects.predictions(plain),
        design.variance(plain),
        design.budget(plain),
    ]
