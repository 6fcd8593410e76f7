"""The studies of results/, read without worldfork: folders, or files of one folder each."""

import atexit
import functools
import json
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Any

__all__ = ["RESULTS", "STUDIES", "folder_of", "rows_of"]

RESULTS = Path(__file__).parents[1] / "results"
STUDIES = tuple(
    sorted(
        [
            *(path.parent.name for path in RESULTS.glob("*/published.json")),
            *(path.name.removesuffix(".tar.xz") for path in RESULTS.glob("*.tar.xz")),
        ]
    )
)


@functools.cache
def folder_of(study: str) -> Path:
    """A folder with the files of the study, unpacked where it is one file."""
    if (RESULTS / study).is_dir():
        return RESULTS / study
    home = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    with tarfile.open(RESULTS / f"{study}.tar.xz") as tar:
        tar.extractall(home, filter="data")
    return Path(home) / study


def rows_of(cell: Path) -> list[dict[str, Any]]:
    """Return the rows of a cell's folder."""
    return [json.loads(line) for line in (cell / "forks.jsonl").read_text().splitlines()]
