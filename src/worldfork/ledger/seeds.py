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
    """One training run. The gate's episodes are not those that the clean return is reported on."""

    task: str
    seed: int
    gate: float
    floor: float | None  # None where no manifest of its recipe is here
    clean_return: float
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
    """Every seed of the study's tasks, in the order in which they were trained."""
    floors, order = _floors(study), study.registration.grid.tasks
    found = []
    for path in sorted((study.path / "pretraining").glob("*.json")):
        record = _read(path)
        for one in record["seeds"]:
            if (task := one["task"]) in order:
                floor = floors.get((record["recipe"], task))
                mean = sum(one["returns"]) / len(one["returns"])
                found.append(Seed(task, one["seed"], one["gate"], floor, mean, _fate(one, floor)))
    return sorted(found, key=lambda one: (order.index(one.task), one.seed))


def _fate(one: dict[str, Any], floor: float | None) -> str:
    if one["index"] is not None:
        return f"checkpoint {one['index']}"
    return "not kept" if floor is None else "rejected" if one["gate"] < floor else "spare"


def _floors(study: Study) -> dict[tuple[str, str], float]:
    """By recipe and task, from the recipes that the manifests hold."""
    manifests = (_read(path) for path in sorted((study.path / "checkpoints").glob("*.json")))
    return {
        (one["recipe_digest"], task): entry["floor"]
        for one in manifests
        if "recipe_digest" in one
        for task, entry in one["recipe"]["tasks"].items()
    }


def _read(path: Path) -> dict[str, Any]:
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise WorldforkError(f"`{path}` can not be read ({error}).") from error
    return record
