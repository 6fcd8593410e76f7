"""What was registered, what was executed, and every way in which the two differ (paper, "Design corrections").

A deviation is found by comparing, not declared: cell.json says what determined the rows, the rows say what was
evaluated, and both are held against the registration that they point to.
"""

import collections
import json
from collections.abc import Iterable
from typing import Any

from worldfork.desk.page.material import Material, manifests
from worldfork.ledger.pretraining import read_seeds
from worldfork.ledger.row import ForkRow
from worldfork.ledger.store import Study
from worldfork.registration import Arm, Cell, Registration, difference
from worldfork.registration.advice import never_binds

__all__ = ["deviations", "record", "varies"]

ALIKE = ("device", "simulator", "packages", "source")  # what one study should have one of


def record(material: Material) -> dict[str, Any] | None:
    """Everything the page prints about how the ledger came about; None for a flat table."""
    study = material.study
    if study is None:
        return None
    registration = study.registration
    made = {cell: study.cell(cell.id).configuration for cell, rows in material.rows.items() if rows}
    return {
        "digest": registration.digest,
        "toml": (study.path / "registration.toml").read_text(encoding="utf-8"),
        "about": registration.about,
        "forks": sum(map(len, material.rows.values())),
        "registered_forks": sum(registration.arm(cell.arm).stream.decision_points for cell in material.rows),
        "deviations": deviations(registration, made, material.rows),
        "unscored": material.table.unscored,
        "notes": _notes(registration, made),
        "amendments": study.amendments(),
        "made_with": _made_with(study, made),
        "checkpoints": _checkpoints(study, made),
        "seeds": read_seeds(study),
    }


def deviations(
    registration: Registration, made: dict[Cell, dict[str, Any]], rows: dict[Cell, list[ForkRow]]
) -> list[dict[str, Any]]:
    """Each way in which what was executed differs from what is registered, with the cells concerned."""
    found: dict[str, list[str]] = collections.defaultdict(list)
    for cell, done in rows.items():
        points = registration.arm(cell.arm).stream.decision_points
        if len(done) != points:
            found[f"{len(done)} of {points} registered forks are in the ledger"].append(cell.id)
        for line in _differs(registration, cell, made[cell], done) if done else ():
            found[line].append(cell.id)
    for key in ALIKE:
        kinds = sorted({json.dumps(one[key], sort_keys=True) for one in made.values()})
        if len(kinds) > 1:
            found[f"cells differ in their {key}: {'; '.join(kinds)}"] = []
    return [{"what": what, "cells": cells} for what, cells in found.items()]


def _differs(registration: Registration, cell: Cell, made: dict[str, Any], rows: list[ForkRow]) -> Iterable[str]:
    arm = registration.arm(cell.arm)
    if made["registration"] != registration.digest:
        yield f"made under an earlier registration, {made['registration'][:12]} (see the amendments)"
    task = registration.tasks[cell.task]
    registered = {
        "arm": arm.model_dump(mode="json", exclude={"name", "tasks", "stream_seeds"}),
        "task": task.model_dump(mode="json"),
        "seed": registration.seed,
        "precision": arm.precision or task.precision,
    }
    for line in difference(registered, {key: made[key] for key in registered}):
        yield f"registered -> executed: {line}"
    for episodes, count in collections.Counter(len(row.hold) for row in rows).items():
        if episodes != arm.evaluation.episodes:
            yield f"{count} forks have {episodes} episodes per branch; {arm.evaluation.episodes} are registered"
    if unequal := sum(row.draws.hold != row.draws.update for row in rows):
        yield f"in {unequal} forks the branches received different random draws"
    for what in ("nonfinite_actions", "nonfinite_returns", "unstable_episodes"):
        for branch in ("hold", "update"):
            if count := sum(getattr(getattr(row, what), branch) for row in rows):
                yield f"{count} {what.replace('_', ' ').replace('nonfinite', 'non-finite')} in {branch.upper()}"
    if broken := sum(row.fit.non_finite > 0 for row in rows):
        yield f"{broken} updates left parameters that are not finite"


def _notes(registration: Registration, made: dict[Cell, dict[str, Any]]) -> list[str]:
    """Settings that never bind; how long an episode is, the cells say, so every task must have begun."""
    units = {cell.task: one["units"] for cell, one in made.items()}
    if any(task not in units for arm in registration.arms for task in arm.tasks):
        return []
    steps = {
        task: (one["episode_steps"], one["episode_steps"] * one["action_repeat"]) for task, one in units.items()
    }
    return never_binds(registration, steps)


def varies(registration: Registration) -> dict[str, list[str]]:
    """What every later arm changes with respect to the first."""
    first = _spelled(registration.arms[0])
    return {arm.name: difference(first, _spelled(arm)) for arm in registration.arms}


def _spelled(arm: Arm) -> dict[str, Any]:
    spelled: dict[str, Any] = arm.model_dump(mode="json", exclude={"name"})
    return spelled


def _made_with(study: Study, made: dict[Cell, dict[str, Any]]) -> list[tuple[str, list[str]]]:
    """Hardware, versions and digests, each with every value that occurs."""
    hosts = []
    for cell in made:
        path = study.cell(cell.id).path / "execution.json"
        hosts.append(json.loads(path.read_text(encoding="utf-8")) if path.exists() else {})
    packages = [f"{name} {version}" for one in made.values() for name, version in one["packages"].items()]
    listed = {
        "device": [one["device"] for one in made.values()],
        "machine": [one.get("machine", "") for one in hosts],
        "python": [one.get("python", "") for one in hosts],
        "simulator": [one["simulator"] for one in made.values()],
        "packages": packages,
        "precision": [one["precision"] for one in made.values()],
        "block shape": [json.dumps(one["block"]) for one in made.values() if one["block"]],
        "source digest": [one["source"] for one in made.values()],
    }
    return [(name, sorted({str(value) for value in values if value})) for name, values in listed.items()]


def _checkpoints(study: Study, made: dict[Cell, dict[str, Any]]) -> list[dict[str, Any]]:
    """Every checkpoint that was forked, with its clean return; where it was trained, also its seed and its gate."""
    trained = {one["file"]: one for one in manifests(study)}
    found = {}
    for cell, one in made.items():
        name = f"{cell.task}-{cell.checkpoint}"
        manifest = trained.get(name, {})
        gate = manifest.get("returns", {}).get("gate")
        found[name] = {
            "task": cell.task,
            "checkpoint": cell.checkpoint,
            "digest": one["checkpoint"]["digest"],
            "clean_return": one["checkpoint"]["clean_return"],
            "seed": manifest.get("seed"),
            "gate": sum(gate) / len(gate) if gate else None,
            "hardware": manifest.get("hardware"),
            "floor": one["task"]["competence_floor"],
        }
    return list(found.values())
