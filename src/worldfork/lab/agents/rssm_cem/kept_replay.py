"""The replay that a checkpoint keeps: some of what it was pretrained on, for mechanisms that rehearse.

It lies beside the checkpoint as `<name>.npz`, with its digest in the manifest. A checkpoint's own digest is that of
its weights and knows nothing of this. Transitions are kept as whole sequences, and `first` marks where each begins.
"""

import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from worldfork.errors import WorldforkError
from worldfork.lab.agents.base import Window
from worldfork.ledger import arrays, files

__all__ = ["COLUMNS", "SUFFIX", "keep", "read"]

SUFFIX: Final = ".npz"
COLUMNS: Final = ("observation", "action", "reward", "next_observation", "first")


def keep(path: Path, columns: Mapping[str, np.ndarray], *, source: str) -> dict[str, Any]:
    """Write transitions beside the checkpoint at `path`; returns what its manifest says of them."""
    stored = {name: np.asarray(columns[name], bool if name == "first" else np.float32) for name in COLUMNS}
    content = arrays.npz_bytes(stored, compress=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    files.replace(path.with_suffix(SUFFIX), content)
    return {
        "transitions": len(stored["reward"]),
        "digest": hashlib.sha256(content).hexdigest(),
        "source": source,
    }


def read(path: Path, manifest: Mapping[str, Any]) -> tuple[Window | None, str | None]:
    """The replay beside the checkpoint at `path`, with a leading axis of one, and its digest; None without one."""
    entry, beside = manifest.get("replay"), path.with_suffix(SUFFIX)
    if entry is None or not beside.exists():
        return None, None
    content = beside.read_bytes()
    if hashlib.sha256(content).hexdigest() != entry["digest"]:
        raise WorldforkError(
            f"{beside} is not the replay that its manifest describes (truncated or altered): fetch it again."
        )
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        columns = {name: stored[name][None] for name in COLUMNS}
    return Window(**columns, size=np.array([columns["reward"].shape[1]])), entry["digest"]
