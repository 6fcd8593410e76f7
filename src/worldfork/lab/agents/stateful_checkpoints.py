"""Files of an agent that keeps its state inside: the state, a record of it, and a replay where it keeps one."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from worldfork.errors import WorldforkError
from worldfork.lab.agents.base import Checkpoint, Window
from worldfork.ledger import arrays

__all__ = ["OPTIMISER", "REPLAY", "keep_replay", "parted", "read_checkpoint"]

OPTIMISER: Final = "optimiser."  # how names of a state begin that are the optimiser's
REPLAY: Final = ".npz"


def read_checkpoint(path: Path) -> Checkpoint:
    """Read the state at `path`, its record, and the replay that the record names."""
    from safetensors.numpy import load_file

    file = path.with_suffix(".safetensors")
    record = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    parameters, optimiser = parted(load_file(file))
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    replay = None if "replay" not in record else _read_replay(path, record["replay"])
    return Checkpoint(
        parameters,
        optimiser,
        float(record["clean_return"]),
        digest,
        record.get("remark", ""),
        replay,
        record.get("replay"),
        record.get("after_end"),
    )


def keep_replay(path: Path, columns: Mapping[str, np.ndarray]) -> dict[str, str]:
    """Write transitions beside the checkpoint at `path`; returns what its record says of them."""
    beside = path.with_suffix(REPLAY)
    arrays.write_npz(beside, dict(columns))
    return {"replay": hashlib.sha256(beside.read_bytes()).hexdigest()}


def _read_replay(path: Path, digest: str) -> Window | None:
    """Read the replay with a leading axis of one; None where its file did not come along."""
    beside = path.with_suffix(REPLAY)
    if not beside.exists():
        return None
    if hashlib.sha256(beside.read_bytes()).hexdigest() != digest:
        raise WorldforkError(f"`{beside}` is not the replay that its checkpoint was saved with: fetch it again.")
    rows: dict[str, Any] = {
        name: values[None] for name, values in arrays.read_npz(beside).items() if name in Window.__annotations__
    }
    return Window(**rows, size=np.array([rows["reward"].shape[1]]))


def parted(state: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Split a state into parameters and optimiser, each array with a leading axis of one."""
    whole = {name: np.asarray(array)[None] for name, array in state.items()}
    optimiser = {name: array for name, array in whole.items() if name.startswith(OPTIMISER)}
    return {name: array for name, array in whole.items() if name not in optimiser}, optimiser
