"""Ledgers and flat tables in and out: the one place where the desk meets files."""

from worldfork.desk.reading.files import write_frame
from worldfork.desk.reading.ledger import Ledger, Source, open_ledger
from worldfork.desk.reading.outcomes import Forks, Outcomes
from worldfork.desk.reading.prefork import CellKey, Prefork
from worldfork.desk.reading.study import stream_frame, study_frame
from worldfork.desk.reading.table import Frame, Table, read_table

__all__ = [
    "CellKey",
    "Forks",
    "Frame",
    "Ledger",
    "Outcomes",
    "Prefork",
    "Source",
    "Table",
    "open_ledger",
    "read_table",
    "stream_frame",
    "study_frame",
    "write_frame",
]
