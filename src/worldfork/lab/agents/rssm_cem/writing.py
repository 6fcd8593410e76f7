"""Checkpoints to disk. Apart from reading them, since what writes a checkpoint computes no row of a ledger."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save as spell

from worldfork.lab.agents.base import Arrays
from worldfork.lab.agents.rssm_cem.checkpoints import SCHEMA
from worldfork.ledger import files

__all__ = ["rewrite", "save"]


def save(path: Path, parameters: Arrays, optimiser: Arrays, manifest: Mapping[str, Any]) -> str:
    """Write one parameter set (no leading axis) and its manifest; returns the digest of the arrays' file."""
    arrays = {
        f"{kind}/{name}": np.ascontiguousarray(array, np.float32)
        for kind, group in (("parameters", parameters), ("optimiser", optimiser))
        for name, array in group.items()
    }
    content = spell(arrays)
    digest = hashlib.sha256(content).hexdigest()
    shapes = {name: list(array.shape) for name, array in arrays.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    full = {"schema": SCHEMA, **manifest, "shapes": shapes, "digest": digest}
    files.replace(path, content)
    rewrite(path, full)
    return digest


def rewrite(path: Path, manifest: Mapping[str, Any]) -> None:
    """Another manifest for the checkpoint at `path`."""
    files.replace(path.with_suffix(".json"), (json.dumps(manifest, indent=1, sort_keys=True) + "\n").encode())
