"""Whatever can be scored, opened: a study, a flat table, a data frame."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from worldfork.analysis.read.outcomes import ForkTable, Frame
from worldfork.analysis.read.study import read_rows, study_table
from worldfork.errors import WorldforkError
from worldfork.ledger.archive import SUFFIX, TABLES, is_archive, locate, nearest_study
from worldfork.ledger.recorded import RecordedLedger, RecorderSettings, is_recorded
from worldfork.ledger.row import Rows
from worldfork.ledger.store import Study
from worldfork.ledger.verify import require_as_registered
from worldfork.registration import Registration


@dataclasses.dataclass(frozen=True)
class Ledger:
    """Forks to be scored. Only a study has a registration, and rows with everything that was recorded."""

    name: str
    table: ForkTable
    study: Study | None = None
    registration: Registration | None = None
    rows: Rows = dataclasses.field(default_factory=dict)
    recorder: RecorderSettings | None = None  # question and guarantees of a recorded ledger


STUDY: Final = "a study has returns, and registers what a failure counts as"
Source = str | Path | Study | Frame | ForkTable | Ledger


def open_ledger(
    source: Source,
    *,
    higher_is_better: bool = True,
    failure_return: float | None = None,
    columns: Mapping[str, str] | None = None,
) -> Ledger:
    """Return the forks of a study, a recorded ledger, a flat table (.csv, .parquet or .jsonl) or a data frame.

    `higher_is_better`, `failure_return` and `columns` are for flat tables (`read_table`): a study registers the
    first two, a recorder states them.
    """
    options: dict[str, Any] = {} if higher_is_better else {"higher_is_better": False}
    options |= {} if failure_return is None else {"failure_return": failure_return}
    options |= {} if columns is None else {"columns": columns}
    match source:
        case Ledger():
            _refuse(options, "it has been read already")
            return source
        case ForkTable():
            _refuse(options, "it has been read already: give them to read_table")
            return Ledger("table", source)
        case Study():
            _refuse(options, STUDY)
            return _open_study(source)
        case str() | Path():
            return _open_path(Path(source), options)
        case _:
            return Ledger("table", _read_table(source, options))


def _refuse(options: Mapping[str, Any], why: str) -> None:
    if options:
        raise WorldforkError(f"{' and '.join(f'`{name}`' for name in options)}: for flat tables; {why}.")


def _open_path(path: Path, options: Mapping[str, Any]) -> Ledger:
    held = locate(path)
    if is_recorded(held):
        from worldfork.analysis.read.frames import read_recorded

        recorded = RecordedLedger(held)
        stated = {name: value for name, value in options.items() if name != "failure_return"}
        _refuse(stated, f"`{path}`: a recorder states what its returns mean")
        table = read_recorded(recorded, failure_return=options.get("failure_return"))
        return Ledger(held.name, table, recorder=recorded.settings)
    if held.is_dir() or is_archive(held):
        _refuse(options, f"`{path}`: {STUDY}")
        return _open_study(Study(held))
    if not path.exists():
        expected = "Expected a study (a folder or a .tar.xz) or a table (.csv, .parquet or .jsonl)."
        near = nearest_study(path, endings=(SUFFIX, *TABLES))
        raise WorldforkError(f"There is no `{path}`.{near} {expected}")
    return Ledger(path.name, _read_table(path, options))


def _open_study(study: Study) -> Ledger:
    require_as_registered(study)
    registration = study.registration
    rows = read_rows(study)
    return Ledger(registration.name, study_table(study, rows), study, registration, rows)


def _read_table(source: Path | Frame, options: Mapping[str, Any]) -> ForkTable:
    from worldfork.analysis.read.table import read_table  # with polars, which a study is read without

    return read_table(source, **options)
