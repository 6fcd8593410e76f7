"""Flat tables as files: .csv, .parquet and .jsonl, in and out, one row per fork.

All of a .csv or .jsonl is read as text: what a number is, `columns` decides, and can say where it is not one.
Parquet goes through pyarrow here as everywhere else (`ledger.arrays` says why on one thread).
"""

import codecs
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

import polars as pl

from worldfork.analysis.read.outcomes import EPISODES
from worldfork.errors import WorldforkError
from worldfork.ledger import files
from worldfork.ledger.recorded import RecordedRow

ZIP: Final = b"PK\x03\x04"  # also of .xlsx
SEPARATORS: Final = {";": "semicolons", "\t": "tabs", "|": "bars"}


def read_frame(path: Path) -> pl.DataFrame:
    """Return the table at `path`, as it stands there."""
    suffix = path.suffix.lower()
    if suffix not in READERS:
        raise WorldforkError(
            f"A flat table ends in {', '.join(READERS)}; got `{path.name}`. "
            "A study is a folder with registration.json, or NAME.tar.xz."
        )
    if not path.is_file():
        raise WorldforkError(f"There is no file `{path}`.")
    if path.stat().st_size == 0:
        raise WorldforkError(f"`{path}` is empty. Expected a table with one row per fork, and a header above them.")
    try:
        return READERS[suffix](path)
    except WorldforkError:
        raise
    except (
        Exception,
        pl.exceptions.PanicException,
    ) as error:  # the libraries raise a dozen kinds on a damaged file
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise WorldforkError(f"`{path}` could not be read as {suffix[1:]}: {reason}") from error


def write_frame(frame: pl.DataFrame, path: Path) -> None:
    """Write a flat table, whole or not at all; the ending says how."""
    files.replace(path, encode(frame, path.suffix.lower(), name=path.name))


def encode(frame: pl.DataFrame, suffix: str, *, name: str = "") -> bytes:
    """Return the bytes of a flat table. A .csv has no place for lists: hold and update are left out."""
    match suffix:
        case ".csv":
            return frame.drop(*EPISODES, "evaluation", strict=False).write_csv().encode()
        case ".parquet":
            return _parquet_bytes(frame)
        case ".jsonl":
            return frame.write_ndjson().encode()
        case _:
            raise WorldforkError(f"A flat table ends in {', '.join(READERS)}; got `{name or suffix}`.")


def _read_csv(path: Path) -> pl.DataFrame:
    with path.open("rb") as file:
        first = file.read(4)
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise WorldforkError(
            f"`{path}` is text in UTF-16; expected UTF-8. Write it again so (pandas: `to_csv(path, index=False)`; "
            'a spreadsheet: "CSV UTF-8").'
        )
    if first.startswith(ZIP):
        raise WorldforkError(
            f"`{path}` is a zip archive or a spreadsheet, not text. Unpack it, or save the sheet as CSV."
        )
    with path.open(encoding="utf-8-sig", newline="") as file:
        header = file.readline().rstrip("\r\n")
    _refuse_header(header, path)
    frame = pl.read_csv(path, infer_schema=False)
    filled = frame.select(pl.any_horizontal(pl.all().is_not_null())).to_series()
    return frame.head(int(filled.arg_true()[-1]) + 1 if filled.any() else 0)  # blank lines at the end are no rows


def _refuse_header(header: str, path: Path) -> None:
    """Refuse a header that is not what a .csv has, named as what it is."""
    names = [name.strip('"') for name in header.split(",")]
    for separator, called in SEPARATORS.items():
        if header.count(separator) > header.count(","):
            raise WorldforkError(
                f"`{path}` is separated by {called}; expected commas, with a point in numbers. Write it again so "
                '(pandas: `to_csv(path, index=False)`; a spreadsheet: "CSV UTF-8, comma").'
            )
    if padded := [name for name in names if name != name.strip()]:
        raise WorldforkError(
            f"`{path}` has blanks beside its commas: a column is called {padded[0]!r}. Take them out of the header."
        )
    if twice := sorted({name for name in names if name and names.count(name) > 1}):
        raise WorldforkError(f"`{path}` has the column {', '.join(twice)} twice. Keep one of each.")


def _read_parquet(path: Path) -> pl.DataFrame:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pa.OSFile(str(path)) as source:
        table = pq.ParquetFile(source, pre_buffer=False).read(use_threads=False)
    for column in table.schema:
        if "decimal256" in str(column.type):  # also inside a list
            raise WorldforkError(
                f"`{path}`, column `{column.name}`: {column.type} is not read. Write it as float64."
            )
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame


def _parquet_bytes(frame: pl.DataFrame) -> bytes:
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    pq.write_table(frame.to_arrow(), buffer, compression="zstd")
    return buffer.getvalue()


def _read_jsonl(path: Path) -> pl.DataFrame:
    columns: dict[str, list[object]] = {}
    count = 0
    with path.open(encoding="utf-8") as file:
        for line, text in enumerate(file, 1):
            if not text.strip():
                continue
            try:
                row = json.loads(text)
            except json.JSONDecodeError as error:
                raise WorldforkError(f"`{path}`, line {line} is not JSON: {error.msg}.") from error
            if not isinstance(row, dict):
                raise WorldforkError(f"`{path}`, line {line}: expected an object with one fork, got {text[:40]!r}.")
            if row.get("schema") == RecordedRow.version:
                raise WorldforkError(f"`{path}` holds the rows of a recorder: name its folder, `{path.parent}`.")
            for column, value in row.items():
                cells = columns.setdefault(column, [])
                cells.extend([None] * (count - len(cells)))
                cells.append(value)
            count += 1
    return pl.DataFrame([_series(column, values, count) for column, values in columns.items()])


def _series(column: str, values: list[object], count: int) -> pl.Series:
    """Return a column as text, as in a .csv: a column that mixes types is then refused by its row."""
    values.extend([None] * (count - len(values)))
    if column in EPISODES:
        return pl.Series(column, values, dtype=pl.Object)
    return pl.Series(column, [None if value is None else str(value) for value in values], dtype=pl.String)


READERS: Final[dict[str, Callable[[Path], pl.DataFrame]]] = {
    ".csv": _read_csv,
    ".parquet": _read_parquet,
    ".jsonl": _read_jsonl,
}
