"""What became of every seed that was trained for a study: forked, spare, or rejected by the competence gate.

The gate selects on what dR is correlated with, so readers of a ledger must see what it left out. Pretraining leaves
a pretraining.json beside its checkpoints; a study keeps a copy of each as pretraining/<recipe's digest>.json, since
its tasks may come from several recipes.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

from worldfork.errors import WorldforkError
from worldfork.ledger import files
from worldfork.ledger.store import Study

__all__ = ["Seed", "keep_record", "read_seeds"]


@dataclasses.dataclass(frozen=True)
class Seed:
    """One training run. The gate's episodes are not those that the clean return is reported on; both are of the
    recipe's planner, and a checkpoint may be deployed with another."""

    task: str
    seed: int
    gate: float
    floor: float | None  # None where no manifest of its recipe is here
    clean_return: float
    deployed: float | None  # the clean return with the planner that a study deploys; None where it is not deployed
    fate: str  # "checkpoint 3", "rejected", "spare", or "not kept" where the floor is not known


def keep_record(study: Study, folder: Path) -> None:
    """Copy the record that lies beside the checkpoints in `folder`, where there is one."""
    source = folder / "pretraining.json"
    if source.exists():
        target = study.path / "pretraining" / f"{_read(source)['recipe'][:12]}.json"
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            files.replace(target, source.read_bytes())


def read_seeds(study: Study) -> list[Seed]:
    """Every seed of the recipes that the study's checkpoints came from, by task."""
    manifests = [_read(path) for path in sorted((study.path / "checkpoints").glob("*.json"))]
    forked = {one["digest"]: one.get("returns", {}).get("mean") for one in manifests if "digest" in one}
    floors = {one.get("recipe_digest"): one.get("recipe", {}).get("tasks", {}) for one in manifests}
    order = study.registration.grid.tasks
    found = []
    for path in sorted((study.path / "pretraining").glob("*.json")):
        record = _read(path)
        for task in order:
            seeds = [one for one in record["seeds"] if one["task"] == task]
            # A recipe may have trained a task whose checkpoints were then taken from another.
            if any(one["digest"] in forked for one in seeds):
                floor = floors.get(record["recipe"], {}).get(task, {}).get("floor")
                found += [_seed(one, floor, forked) for one in seeds]
    return sorted(found, key=lambda one: (order.index(one.task), one.seed))


def _seed(one: dict[str, Any], floor: float | None, forked: dict[str, float | None]) -> Seed:
    if one["digest"] in forked:
        fate = f"checkpoint {one['index']}"
    elif one["digest"] is None and floor is None:
        fate = "not kept"
    else:
        fate = "rejected" if floor is not None and one["gate"] < floor else "spare"
    mean = sum(one["returns"]) / len(one["returns"])
    return Seed(one["task"], one["seed"], one["gate"], floor, mean, forked.get(one["digest"]), fate)


def _read(path: Path) -> dict[str, Any]:
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise WorldforkError(f"`{path}` can not be read ({error}).") from error
    return record
