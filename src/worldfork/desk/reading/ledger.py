"""Whatever can be scored, opened: a study, a flat table, a data frame."""

import contextlib
import dataclasses
import gc
from collections.abc import Iterator
from pathlib import Path

from worldfork.desk.reading.base import Frame, Table
from worldfork.desk.reading.study import Rows, read_rows, study_table
from worldfork.errors import WorldforkError
from worldfork.ledger.archive import is_archive, locate, nearest_study
from worldfork.ledger.store import Study
from worldfork.ledger.verify import require_as_registered
from worldfork.registration import Registration

__all__ = ["Ledger", "Source", "open_ledger", "uncollected"]


@dataclasses.dataclass(frozen=True)
class Ledger:
    """Forks to be scored. Only a study has a registration, and rows with everything that was recorded."""

    name: str
    table: Table
    study: Study | None = None
    registration: Registration | None = None
    rows: Rows = dataclasses.field(default_factory=dict)


Source = str | Path | Study | Frame | Table | Ledger


def open_ledger(source: Source) -> Ledger:
    """The forks in a study (its path, or a `Study`), in a flat table (.csv, .parquet, .jsonl) or a data frame."""
    match source:
        case Ledger():
            return source
        case Table():
            return Ledger("table", source)
        case Study():
            return _open_study(source)
        case str() | Path():
            return _open_path(Path(source))
        case _:
            return Ledger("table", _read_table(source))


def _open_path(path: Path) -> Ledger:
    if (held := locate(path)).is_dir() or is_archive(held):
        return _open_study(Study(held))
    if not path.exists():
        expected = "Expected a study (a folder or a .tar.xz) or a table (.csv, .parquet or .jsonl)."
        raise WorldforkError(f"There is no `{path}`.{nearest_study(path)} {expected}")
    return Ledger(path.name, _read_table(path))


def _open_study(study: Study) -> Ledger:
    require_as_registered(study)
    registration = study.registration
    with uncollected():
        rows = read_rows(study)
        table = study_table(study, rows)
    return Ledger(registration.name, table, study, registration, rows)


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Without looking for garbage: of ten thousands of rows none is, and looking takes as long as reading them, and
    again while they are scored."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _read_table(source: Path | Frame) -> Table:
    from worldfork.desk.reading.table import read_table  # with polars, which a study is read without

    return read_table(source)
