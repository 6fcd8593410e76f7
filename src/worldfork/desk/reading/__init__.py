"""Ledgers and flat tables in and out: the one place where the desk meets files."""

from worldfork.desk.reading.files import write_frame
from worldfork.desk.reading.ledger import Ledger, Source, open_ledger
from worldfork.desk.reading.outcomes import Forks, Outcomes
from worldfork.desk.reading.prefork import CellKey, Prefork
from worldfork.desk.reading.study import study_frame
from worldfork.desk.reading.table import Table, read_table

__all__ = [
    "CellKey",
    "Forks",
    "Ledger",
    "Outcomes",
    "Prefork",
    "Source",
    "Table",
    "open_ledger",
    "read_table",
    "study_frame",
    "write_frame",
]
