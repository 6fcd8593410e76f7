"""Fates of the seeds that were trained for a study: forked, spare, or rejected by the competence gate.

The gate selects on a quantity that dR is correlated with, so readers of a ledger must see the rejected seeds.
Pretraining leaves a pretraining.json beside its checkpoints; a study keeps a copy of each as
pretraining/<recipe's digest>.json, since its tasks may come from several recipes.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field

from worldfork.ledger.documents import OpenRecord, check, read_json
from worldfork.ledger.store import Study, StudyWriter


@dataclasses.dataclass(frozen=True)
class Seed:
    """A training run and its fate. The gate and the clean return are of different episodes, both with the planner
    of the recipe, which need not be the deployed one."""

    task: str
    seed: int
    gate: float
    floor: float | None  # None where no manifest of its recipe is here
    clean_return: float
    deployed: float | None  # the clean return with the planner that a study deploys; None where it is not deployed
    fate: str  # "checkpoint 3", "rejected", "spare", or "not kept" where the floor is not known


class TrainedSeed(OpenRecord):
    """A training run in pretraining.json."""

    task: str
    seed: int
    gate: float
    index: int | None
    returns: tuple[Annotated[float, Field(ge=-1e150, le=1e150)], ...] = Field(min_length=1)  # can be averaged
    digest: str | None  # of the checkpoint's file, where one was kept


class PretrainingRecord(OpenRecord):
    """pretraining.json: a recipe's digest, and every seed that was trained by it."""

    recipe: str = Field(pattern=r"^[\w-]{1,128}$")
    seeds: tuple[TrainedSeed, ...]


class RecipeTask(OpenRecord):
    """The part of a recipe's task that is read here."""

    floor: float | None = None


class RecipeTasks(OpenRecord):
    """The part of a recipe that is read here."""

    tasks: dict[str, RecipeTask] = Field(default_factory=dict)


class Returns(OpenRecord):
    """Returns of a checkpoint in the clean world."""

    mean: float | None = None


class Manifest(OpenRecord):
    """The part of a checkpoint's manifest that is read here."""

    digest: str | None = None
    returns: Returns = Returns()
    recipe: RecipeTasks = RecipeTasks()
    recipe_digest: str | None = None


def keep_record(study: StudyWriter, folder: Path) -> None:
    """Copy pretraining.json from the folder of checkpoints into the study, if there is one."""
    source = folder / "pretraining.json"
    if source.exists():
        study.keep(f"pretraining/{_read_record(source).recipe[:12]}.json", source)


def read_seeds(study: Study) -> list[Seed]:
    """Return every seed of the recipes that the study's checkpoints came from, by task."""
    paths = sorted((study.path / "checkpoints").glob("*.json"))
    manifests = [check(read_json(path), Manifest, where=f"`{path}`") for path in paths]
    forked = {manifest.digest: manifest.returns.mean for manifest in manifests if manifest.digest}
    floors = {manifest.recipe_digest: manifest.recipe.tasks for manifest in manifests}
    order = study.registration.grid.tasks
    seeds = []
    for path in sorted((study.path / "pretraining").glob("*.json")):
        record = _read_record(path)
        for task in order:
            trained = [seed for seed in record.seeds if seed.task == task]
            # A recipe may have trained a task whose checkpoints were then taken from another.
            if any(seed.digest in forked for seed in trained):
                floor = floors.get(record.recipe, {}).get(task, RecipeTask()).floor
                seeds += [_seed(seed, floor, forked) for seed in trained]
    return sorted(seeds, key=lambda seed: (order.index(seed.task), seed.seed))


def _seed(trained: TrainedSeed, floor: float | None, forked: Mapping[str, float | None]) -> Seed:
    if trained.digest in forked:
        fate = f"checkpoint {trained.index}"
    elif trained.digest is None and floor is None:
        fate = "not kept"
    else:
        fate = "rejected" if floor is not None and trained.gate < floor else "spare"
    mean = sum(trained.returns) / len(trained.returns)
    deployed = forked.get(trained.digest) if trained.digest else None
    return Seed(trained.task, trained.seed, trained.gate, floor, mean, deployed, fate)


def _read_record(path: Path) -> PretrainingRecord:
    return check(read_json(path), PretrainingRecord, where=f"`{path}`")
