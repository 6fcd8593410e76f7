"""The stream's arrays on disk: Parquet for what was logged, .npz without pickle for what UPDATE needs."""

import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worldfork.errors import WorldforkError
from worldfork.ledger import files

__all__ = [
    "Columns",
    "content_digest",
    "npz_arrays",
    "npz_bytes",
    "parquet_bytes",
    "parquet_columns",
    "read_bytes",
    "read_npz",
    "read_parquet",
    "write_npz",
    "write_parquet",
]

Columns = Mapping[str, NDArray[np.generic]]


def content_digest(arrays: Columns) -> str:
    """SHA-256 of names, types, shapes and values: the same for the same arrays, however a file stores them."""
    hashed = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        hashed.update(f"{name}:{array.dtype.str}:{array.shape};".encode())
        hashed.update(array.tobytes())
    return hashed.hexdigest()


def write_parquet(path: Path, columns: Columns) -> str:
    """Write equally long columns; returns their content digest."""
    files.replace(path, parquet_bytes(columns))
    return content_digest(columns)


def parquet_bytes(columns: Columns) -> bytes:
    """Equally long columns as a file stores them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    # What an agent logs is single precision in double columns: split into bytes, it packs into less than half.
    packed = {"i": "DELTA_BINARY_PACKED", "f": "BYTE_STREAM_SPLIT"}
    encoding = {name: packed.get(column.dtype.kind, "PLAIN") for name, column in columns.items()}
    table = pa.table({name: pa.array(column) for name, column in columns.items()})
    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer, compression="zstd", use_dictionary=False, column_encoding=encoding)
    return bytes(buffer.getvalue().to_pybytes())


def read_parquet(path: Path) -> dict[str, NDArray[np.generic]]:
    """The columns back, in the types they were written in."""
    return parquet_columns(read_bytes(path), path)


def read_bytes(path: Path) -> bytes:
    """A file of arrays as it is stored."""
    with _readable(path):
        return path.read_bytes()


def parquet_columns(content: bytes, path: Path) -> dict[str, NDArray[np.generic]]:
    """The columns of a file's bytes; `path` says in errors which file.

    On this thread alone: a thread of Arrow's that still holds a buffer when the interpreter ends aborts the
    process, after everything has succeeded.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    with _readable(path), pa.BufferReader(content) as source:
        table = pq.ParquetFile(source, pre_buffer=False).read(use_threads=False)
        return {name: table[name].to_numpy() for name in table.column_names}


def write_npz(path: Path, arrays: Columns) -> str:
    """Write named arrays; returns their content digest."""
    files.replace(path, npz_bytes(arrays))
    return content_digest(arrays)


def npz_bytes(arrays: Columns, *, compress: bool = False) -> bytes:
    """Return named arrays as a file stores them; arrays of Python objects, which take pickle, are refused."""
    if objects := [name for name, array in arrays.items() if array.dtype.hasobject]:
        raise ValueError(f"Expected arrays of plain values, got Python objects in {objects}: nothing is pickled.")
    buffer, stored = io.BytesIO(), dict[str, Any](arrays)
    (np.savez_compressed if compress else np.savez)(buffer, **stored)  # numpy 2.0 knows no `allow_pickle`
    return buffer.getvalue()


def read_npz(path: Path) -> dict[str, NDArray[np.generic]]:
    """The arrays back."""
    return npz_arrays(read_bytes(path), path)


def npz_arrays(content: bytes, path: Path) -> dict[str, NDArray[np.generic]]:
    """The arrays of a file's bytes; `path` says in errors which file."""
    with _readable(path), np.load(io.BytesIO(content), allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


class _readable:
    """Any failure to read `path` as one clear error: the libraries raise a dozen kinds on a damaged file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, WorldforkError):
            raise WorldforkError(f"`{self.path}` is damaged or not there ({error}).") from error
