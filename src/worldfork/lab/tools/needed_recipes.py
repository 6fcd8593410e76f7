"""Pretraining recipes that a registration needs before it can run."""

import os
from pathlib import Path

from worldfork.errors import WorldforkError
from worldfork.lab.forks.checkpoints import checkpoint_source
from worldfork.lab.tools.pretraining import read_recipe
from worldfork.ledger import files
from worldfork.registration import Registration, cells
from worldfork.registration.library import find_recipe, recipe_of


def needed_recipes(
    registration: Registration, root: Path, *, beside: Path, within: Path
) -> list[tuple[Path, Path]]:
    """Return each recipe to train, and the folder of its checkpoints.

    Checkpoints that are there already, bundled or generated need none.

    Args:
        registration: what is to be run.
        root: the folder of its file. Recipes are copied there.
        beside: where its file came from. A recipe lies there, or comes with worldfork.
        within: the folder that everything is written to.
    """
    recipes: dict[Path, Path] = {}
    for task, index in sorted({(cell.task, cell.checkpoint) for cell in cells(registration)}):
        registered = registration.tasks[task].checkpoints
        source = checkpoint_source(registration, task, index, root=root)
        if registered in ("generated", "bundled") or source is None:
            continue
        folder = Path(os.path.normpath(source.parent))
        if not folder.is_relative_to(Path(os.path.normpath(within))):
            if source.is_file():
                continue
            raise WorldforkError(
                f"`{registered}` of {task} is no file and lies outside the output folder. What is to be pretrained "
                "is registered as ../checkpoints/NAME/{task}-{checkpoint}.safetensors, with a recipe pretrain-NAME."
            )
        if folder not in recipes:
            recipes[folder] = _copied(recipe_of(registration.name, folder.name), root, beside=beside)
        _require_trained(recipes[folder], task, index)
    return [(recipe, folder) for folder, recipe in recipes.items()]


def _copied(name: str, root: Path, *, beside: Path) -> Path:
    recipe, copy = beside / f"{name}.toml", root / f"{name}.toml"
    source = recipe if recipe.is_file() else find_recipe(name)
    if source.resolve() != copy.resolve():
        root.mkdir(parents=True, exist_ok=True)
        files.replace(copy, source.read_bytes())
    return copy


def _require_trained(recipe: Path, task: str, index: int) -> None:
    """Refuse a checkpoint that the recipe does not train, before an hour is spent."""
    trained = read_recipe(recipe).tasks.get(task)
    kept = 0 if trained is None else min(trained.wanted, len(trained.seeds))
    if index >= kept:
        raise WorldforkError(
            f"The registration names checkpoint {index} of {task}; {recipe.name} trains {kept} of it. Name another "
            "folder in `checkpoints` (../checkpoints/NAME/...), and write the recipe pretrain-NAME for it."
        )
