"""Files of an agent that keeps its state inside: the state, a record of it, and a replay where it keeps one.

Checkpoints that are trained here keep a replay in the same way (`checkpoints.py`).
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from pydantic import ConfigDict, ValidationError

from worldfork.errors import WorldforkError
from worldfork.lab.agents.base import Checkpoint, Window
from worldfork.ledger import arrays
from worldfork.validation import Record, explain

OPTIMISER: Final = "optimiser."  # how names of a state begin that are the optimiser's
REPLAY: Final = ".npz"


class CheckpointRecord(Record):
    """The .json file beside a state. Further fields are its author's."""

    model_config = ConfigDict(extra="ignore")

    clean_return: float
    remark: str = ""
    replay: str | None = None  # SHA-256 of the replay's file
    after_end: Literal["reset", "wait"] | None = None  # of the episodes that `clean_return` was measured on


def read_checkpoint(path: Path) -> Checkpoint:
    """Read the state at `path`, its record, and the replay that the record names."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    file, beside = path.with_suffix(".safetensors"), path.with_suffix(".json")
    try:
        record = CheckpointRecord.model_validate_json(beside.read_bytes())
        parameters, optimiser = parted(load_file(file))
    except ValidationError as error:
        problems = "; ".join(explain(error, CheckpointRecord))
        raise WorldforkError(
            f"`{beside}` is not the record of a checkpoint, as `save_checkpoint` writes it: {problems}"
        ) from error
    except SafetensorError as error:
        raise WorldforkError(f"`{file}` is not the state of a checkpoint: {error}.") from error
    return Checkpoint(
        parameters,
        optimiser,
        record.clean_return,
        digest=hashlib.sha256(file.read_bytes()).hexdigest(),
        remark=record.remark,
        replay=read_replay(path, record.replay),
        replay_digest=record.replay,
        after_end=record.after_end,
    )


def keep_replay(path: Path, columns: Mapping[str, np.ndarray]) -> dict[str, str]:
    """Write transitions beside the checkpoint at `path`; returns what its record says of them."""
    beside = path.with_suffix(REPLAY)
    arrays.write_npz(beside, dict(columns))
    return {"replay": hashlib.sha256(beside.read_bytes()).hexdigest()}


def read_replay(path: Path, digest: str | None) -> Window | None:
    """Read the replay beside the checkpoint at `path`; None where it keeps none or its file did not come along."""
    beside = path.with_suffix(REPLAY)
    if digest is None or not beside.exists():
        return None
    if hashlib.sha256(beside.read_bytes()).hexdigest() != digest:
        raise WorldforkError(
            f"{beside} is not the replay that its checkpoint describes (truncated or altered): fetch it again."
        )
    return replay_window(arrays.read_npz(beside))


def replay_window(columns: Mapping[str, np.ndarray]) -> Window:
    """Return the columns of a replay as a window with a leading axis of one; other columns are left out."""
    rows: dict[str, Any] = {
        name: values[None] for name, values in columns.items() if name in Window.__annotations__
    }
    return Window(**rows, size=np.array([len(columns["reward"])]))


def parted(state: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Split a state into parameters and optimiser, each array with a leading axis of one."""
    whole = {name: np.asarray(array)[None] for name, array in state.items()}
    optimiser = {name: array for name, array in whole.items() if name.startswith(OPTIMISER)}
    return {name: array for name, array in whole.items() if name not in optimiser}, optimiser
