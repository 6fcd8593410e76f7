"""The paper's figures beside ours. `paper.toml` holds them as printed, with the place they are from."""

import dataclasses
import functools
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from worldfork.analysis.present.table import Table
from worldfork.registration import Arm, Registration

# The paper's name, gradient steps, window and scope. It gives no learning rate: 1.0, pretraining's, is ours.
UPDATE: Final = ("finetune", 200, 10_000, "model")
PERIOD: Final = 20_000  # environment steps of its corrected schedule
LEGACY: Final = {"hopper-hop": 2_000}  # the control's drift went ten times as fast


@functools.cache
def stated() -> Mapping[str, Table]:
    """Return every table in which the paper states figures of ours."""
    given = tomllib.loads(Path(__file__).with_name("paper.toml").read_text(encoding="utf-8"))
    return {
        label: Table(label, f"Paper: {table['source']}.", table["heads"], table["rows"], keys=table["keys"])
        for label, table in given.items()
    }


def beside_paper(ours: Table, *, arm: str | None = None) -> Table:
    """Return our table with the paper's row above each of ours that it states.

    A row of the paper stands once, where several of ours are about the same; among arms it is about `arm`.
    """
    if ours.label not in stated():
        return ours
    theirs = stated()[ours.label]
    unplaced = {tuple(row[: theirs.keys]): row[theirs.keys :] for row in theirs.rows}
    has_arms = ours.heads[1] == "Arm"
    rows = []
    for row in ours.rows:
        key = tuple(row[: ours.keys])
        subject = (key[0], *key[2:]) if has_arms else key
        if subject in unplaced and (not has_arms or key[1] == arm):
            rows.append((*key, "paper", *unplaced.pop(subject)))
        rows.append((*key, "worldfork", *row[ours.keys :]))
    if len(rows) == len(ours.rows):
        return ours
    columns = (*ours.columns[: ours.keys], "by", *ours.columns[ours.keys :])
    caption = f"{ours.caption} {theirs.caption}"
    return dataclasses.replace(ours, caption=caption, columns=columns, rows=rows, keys=ours.keys + 1, strips=())


def papers_arm(registration: Registration | None, scored: Collection[str]) -> str | None:
    """Return the first of the scored arms that is set as the paper's primary one.

    A flat table does not say how its arms are set: there it is the first.
    """
    if registration is None:
        return next(iter(scored), None)
    return next((arm.name for arm in registration.arms if arm.name in scored and _as_paper(arm)), None)


def _as_paper(arm: Arm) -> bool:
    update = arm.mechanism
    return (
        (update.name, update.steps, update.window, update.scope) == UPDATE
        and update.settings.get("rate", 1.0) == 1.0
        and (arm.evaluation.mode, arm.stream.action_noise) == ("pinned", 0.0)
        and all(arm.stream.drift_period == LEGACY.get(task, PERIOD) for task in arm.tasks)
    )
