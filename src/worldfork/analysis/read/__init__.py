"""Ledgers and flat tables in and out: the one place where the analysis meets files.

Data frames come with polars and are imported when they are first asked for. A study's forks are arrays: they can be
read, and thresholds fitted on them, where polars is not installed.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

from worldfork.analysis.read.ledger import Ledger, Source, open_ledger
from worldfork.analysis.read.outcomes import Forks, Frame, Outcomes, Table
from worldfork.analysis.read.prefork import Prefork
from worldfork.triggers import CellKey

if TYPE_CHECKING:
    from worldfork.analysis.read.files import write_frame
    from worldfork.analysis.read.frames import deployment_frame, recorded_frame, stream_frame, study_frame
    from worldfork.analysis.read.table import read_table

__all__ = [
    "CellKey",
    "Forks",
    "Frame",
    "Ledger",
    "Outcomes",
    "Prefork",
    "Source",
    "Table",
    "deployment_frame",
    "open_ledger",
    "read_table",
    "recorded_frame",
    "stream_frame",
    "study_frame",
    "write_frame",
]

WITH_POLARS: Final = {
    "deployment_frame": "frames",
    "read_table": "table",
    "recorded_frame": "frames",
    "stream_frame": "frames",
    "study_frame": "frames",
    "write_frame": "files",
}


def __getattr__(name: str) -> Any:
    if name not in WITH_POLARS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{WITH_POLARS[name]}"), name)
