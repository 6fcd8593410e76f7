"""The paper's figures beside ours. `paper.toml` holds them as printed, with the place they are from."""

import functools
import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Final

from worldfork.desk.tables.text_table import TextTable
from worldfork.registration import Arm, Registration

__all__ = ["ARM", "beside_paper", "not_run_yet", "papers_arm", "stated"]

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
