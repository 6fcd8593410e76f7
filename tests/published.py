"""The rows of results/, read without worldfork: plain or compressed."""

import gzip
import json
from pathlib import Path
from typing import Any

__all__ = ["rows_of"]


def rows_of(cell: Path) -> list[dict[str, Any]]:
    """What the folder of a cell has in forks.jsonl, or in forks.jsonl.gz."""
    plain = cell / "forks.jsonl"
    content = plain.read_bytes() if plain.exists() else gzip.decompress((cell / "forks.jsonl.gz").read_bytes())
    return [json.loads(line) for line in content.splitlines()]
