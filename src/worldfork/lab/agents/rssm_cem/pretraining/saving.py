"""Training on disk: a killed run goes on from its last save."""

import json
import os
import platform
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save_file

from worldfork.errors import WorldforkError
from worldfork.lab.agents.rssm_cem.pretraining.outcomes import AnyRecipe

__all__ = ["NAME", "load", "save"]

NAME = "training.safetensors"


def save(folder: Path, recipe: AnyRecipe, state: Any, *, episode: int, curves: list[Any], seconds: float) -> None:
    """Write the whole training state; an interrupted write leaves the previous one in place."""
    folder.mkdir(parents=True, exist_ok=True)
    leaves = {f"{n:05d}": np.asarray(leaf) for n, leaf in enumerate(jax.tree.leaves(state))}
    about = {"recipe": recipe.digest, "episode": episode, "curves": curves, "seconds": seconds}
    # A name of its own: a worker that was given up may still be writing what another goes on with.
    part = folder / f"{NAME}.{platform.node()}-{os.getpid()}.part"
    save_file(leaves, part, metadata={"about": json.dumps(about)})
    os.replace(part, folder / NAME)


def load(folder: Path, recipe: AnyRecipe, like: Any) -> tuple[Any, int, list[Any], float] | None:
    """The saved state in the shape of `like`, the next episode, the curves and seconds; None if there is none."""
    path = folder / NAME
    if not path.exists():
        return None
    try:
        with safe_open(path, "numpy") as file:
            about = json.loads(file.metadata()["about"])
    except (SafetensorError, KeyError, TypeError, ValueError):
        raise WorldforkError(
            f"{path} is truncated or not a training state. Remove that file to begin anew."
        ) from None
    if about["recipe"] != recipe.digest:
        raise WorldforkError(
            f"{path} belongs to another recipe ({about['recipe'][:12]}, not {recipe.digest[:12]}). "
            "Choose another output folder, or remove that file to begin anew."
        )
    arrays = load_file(path)
    leaves = [arrays[name] for name in sorted(arrays)]
    if [leaf.shape for leaf in leaves] != [leaf.shape for leaf in jax.tree.leaves(like)]:
        raise WorldforkError(
            f"{path} was written by another version of worldfork: finish it with that one, or remove the file to "
            "begin anew."
        )
    state = jax.tree.unflatten(jax.tree.structure(like), list(map(jax.numpy.asarray, leaves)))
    return state, about["episode"], about["curves"], about["seconds"]
