"""Training in progress on disk, so that a killed run goes on from its last save."""

import json
import os
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors.numpy import load_file, save_file

from worldfork.errors import WorldforkError
from worldfork.lab.pretraining.recipe import Recipe

__all__ = ["discard", "load", "save"]

NAME = "training.safetensors"


def save(folder: Path, recipe: Recipe, state: Any, *, episode: int, curves: list[Any], seconds: float) -> None:
    """Write the whole training state; an interrupted write leaves the previous one in place."""
    folder.mkdir(parents=True, exist_ok=True)
    leaves = {f"{n:05d}": np.asarray(leaf) for n, leaf in enumerate(jax.tree.leaves(state))}
    about = {"recipe": recipe.digest, "episode": episode, "curves": curves, "seconds": seconds}
    save_file(leaves, folder / f"{NAME}.part", metadata={"about": json.dumps(about)})
    os.replace(folder / f"{NAME}.part", folder / NAME)


def load(folder: Path, recipe: Recipe, like: Any) -> tuple[Any, int, list[Any], float] | None:
    """The saved state in the shape of `like`, the next episode, the curves and seconds; None if there is none."""
    path = folder / NAME
    if not path.exists():
        return None
    from safetensors import safe_open

    with safe_open(path, "numpy") as file:
        about = json.loads(file.metadata()["about"])
    if about["recipe"] != recipe.digest:
        raise WorldforkError(
            f"{path} belongs to another recipe ({about['recipe'][:12]}, not {recipe.digest[:12]}). "
            "Choose another output folder, or remove that file to begin anew."
        )
    leaves = load_file(path)
    state = jax.tree.unflatten(
        jax.tree.structure(like), [jax.numpy.asarray(leaves[name]) for name in sorted(leaves)]
    )
    return state, about["episode"], about["curves"], about["seconds"]


def discard(folder: Path) -> None:
    """Remove the training state of a run that is finished."""
    (folder / NAME).unlink(missing_ok=True)
