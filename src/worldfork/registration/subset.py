"""A registration restricted to some of its tasks: the same cells with the same draws, nothing about the others."""

import json
from collections.abc import Collection
from typing import Any

from worldfork.errors import WorldforkError
from worldfork.registration.reading import restore
from worldfork.registration.records import Registration

__all__ = ["only_tasks", "require_tasks"]


def only_tasks(registration: Registration, tasks: Collection[str]) -> Registration:
    """What of a registration is about these tasks. The draws of a cell and the shape of its blocks are those of the
    whole study, and so are its rows; the registration's digest is another."""
    require_tasks(registration, tasks)
    if set(tasks) >= set(registration.tasks):
        return registration
    tables: dict[str, Any] = registration.model_dump(mode="json", by_alias=True)
    arms = [{**arm, "tasks": _kept(arm["tasks"], tasks)} for arm in tables["arms"]]
    tables["arms"] = [arm for arm in arms if arm["tasks"]]
    tables["grid"]["tasks"] = _kept(tables["grid"]["tasks"], tasks)
    tables["tasks"] = {name: table for name, table in tables["tasks"].items() if name in tasks}
    tables["guess"] = {name: table for name, table in tables["guess"].items() if name in tasks}
    scoring = tables["scoring"]
    scoring["contraction_edges"] = {n: edges for n, edges in scoring["contraction_edges"].items() if n in tasks}
    arm_names = {None, *(arm["name"] for arm in tables["arms"])}
    tables["predictions"] = [
        prediction
        for prediction in tables["predictions"]
        if {prediction["task"], (prediction["premise"] or {}).get("task") or prediction["task"]} <= set(tasks)
        and {prediction["arm"], prediction["against"]} <= arm_names
    ]
    return restore(json.dumps(tables), name=f"{registration.name}, restricted to {', '.join(tasks)}")


def require_tasks(registration: Registration, tasks: Collection[str]) -> None:
    """Refuse tasks that the registration does not have."""
    if unknown := sorted(set(tasks) - set(registration.tasks)):
        raise WorldforkError(
            f"`{registration.name}` has no task {', '.join(map(repr, unknown))}; its tasks are "
            f"{', '.join(registration.tasks)}."
        )


def _kept(names: list[str], tasks: Collection[str]) -> list[str]:
    return [name for name in names if name in tasks]
