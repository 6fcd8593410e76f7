"""Checkpoints of TD-MPC2 before any training, as pretraining would write them, for tests that need files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from worldfork import randomness
from worldfork.lab.agents.checkpoints import save
from worldfork.lab.agents.tdmpc2.plugin import TDMPC2Plugin
from worldfork.lab.environments import load
from worldfork.lab.environments.base import prove_clean
from worldfork.randomness import Event, Purpose

__all__ = ["SMALLEST", "write_checkpoint"]

SMALLEST = {
    "size": "tiny", "latent": 8, "encoder": 8, "hidden": 8, "values": 2, "sequences": 4,
    "candidates": 12, "proposals": 3, "iterations": 2, "elites": 4,
}  # fmt: skip


def write_checkpoint(path: Path, *, seed: int = 0, settings: Mapping[str, Any] = SMALLEST) -> Path:
    """A cartpole model that has learnt nothing and predicts something, drawn from the seed."""
    environment = load("cartpole-swingup", threads=1)
    agent = TDMPC2Plugin(**settings).build(environment, precision="float32")
    keys = randomness.words(Event(purpose=Purpose.PRETRAINING, checkpoint=str(seed)))[None]
    parameters, optimiser = ({name: np.asarray(x)[0] for name, x in part.items()} for part in agent.fresh({}, keys))
    random = np.random.default_rng(seed)
    moved = {name: x + 0.1 * random.normal(size=x.shape).astype(np.float32) for name, x in parameters.items()}
    manifest = {
        "task": "cartpole-swingup",
        "seed": seed,
        "model": agent.described,
        "returns": {"mean": 100.0},
        "clean_physics": prove_clean(environment),
    }
    save(path, {**moved, "scale/policy": parameters["scale/policy"]}, optimiser, manifest)
    return path
