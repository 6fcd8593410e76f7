"""A study to pass on: everything that scoring, the report and `verify` read, without models and windows.

Models and the transitions that UPDATE trained on are nearly all of a study's bytes. What leaves them out says so in
published.json; the rows and the manifests keep their digests.
"""

import json
import shutil
from pathlib import Path
from typing import Any, Final

from worldfork.errors import WorldforkError
from worldfork.ledger import arrays, files
from worldfork.ledger.store import CellFolder, Study
from worldfork.registration.canonical import canonical

__all__ = ["leaves_windows_out", "publish"]

NAME: Final = "published.json"
SCHEMA: Final = "worldfork.published/1"
MODELS: Final = "checkpoints/*.safetensors"
WINDOWS: Final = "cells/*/window.npz"


def publish(study: Study, folder: Path) -> int:
    """Copy the study into a new `folder`, less what is left out; returns the bytes written."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise WorldforkError(f"`{folder}` is there already. Remove it, or publish to another folder.")
    record = {"schema": SCHEMA, "registration": study.registration.digest, "left_out": [MODELS, WINDOWS]}
    for path in sorted(path for path in study.path.rglob("*") if path.is_file()):
        place = path.relative_to(study.path)
        if path.name.startswith(".") or place.match(MODELS) or place.match(WINDOWS):
            continue
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        if path.name == "stream.parquet":  # the same columns, packed as this version packs them
            arrays.write_parquet(folder / place, CellFolder(path.parent).read_log())
        else:
            shutil.copyfile(path, folder / place)
    files.replace(folder / NAME, (canonical(record) + "\n").encode())
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def leaves_windows_out(study: Study) -> bool:
    """Whether this copy says that it has no windows."""
    path = study.path / NAME
    if not path.exists():
        return False
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if record["schema"] != SCHEMA:
            raise ValueError(f"schema {record['schema']!r}")
        return WINDOWS in record["left_out"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WorldforkError(f"`{path}` does not say what was left out ({error}).") from error
