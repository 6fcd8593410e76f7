"""Arrays of a stream on disk: the log as Parquet, the transitions for updates as .npz without pickle."""

import contextlib
import hashlib
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worldfork.errors import WorldforkError
from worldfork.ledger import files

Columns = Mapping[str, NDArray[np.generic]]


def content_digest(arrays: Columns) -> str:
    """Return the SHA-256 of names, types, shapes and values, which no file format changes."""
    hashed = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        hashed.update(f"{name}:{array.dtype.str}:{array.shape};".encode())
        hashed.update(array.tobytes())
    return hashed.hexdigest()


def write_parquet(path: Path, columns: Columns) -> str:
    """Write equally long columns; return their content digest."""
    files.replace(path, parquet_bytes(columns))
    return content_digest(columns)


def parquet_bytes(columns: Columns) -> bytes:
    """Return equally long columns as the bytes of a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    # Agents log single precision in double columns: split into bytes, it packs into less than half.
    packed = {"i": "DELTA_BINARY_PACKED", "f": "BYTE_STREAM_SPLIT"}
    encoding = {name: packed.get(column.dtype.kind, "PLAIN") for name, column in columns.items()}
    table = pa.table({name: pa.array(column) for name, column in columns.items()})
    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer, compression="zstd", use_dictionary=False, column_encoding=encoding)
    return bytes(buffer.getvalue().to_pybytes())


def read_parquet(path: Path) -> dict[str, NDArray[np.generic]]:
    """Return the columns of a Parquet file, in the types they were written in."""
    return parquet_columns(read_bytes(path), path)


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a file of arrays."""
    with _readable(path):
        return path.read_bytes()


def parquet_columns(content: bytes, path: Path) -> dict[str, NDArray[np.generic]]:
    """Return the columns of a Parquet file's bytes; `path` names the file in errors.

    On this thread alone: a thread of Arrow's that still holds a buffer when the interpreter ends aborts the
    process, after everything has succeeded.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    with _readable(path), pa.BufferReader(content) as source:
        table = pq.ParquetFile(source, pre_buffer=False).read(use_threads=False)
        return {name: table[name].to_numpy() for name in table.column_names}


def write_npz(path: Path, arrays: Columns) -> str:
    """Write named arrays; return their content digest."""
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
    """Return the arrays of an .npz file."""
    return npz_arrays(read_bytes(path), path)


def npz_arrays(content: bytes, path: Path) -> dict[str, NDArray[np.generic]]:
    """Return the arrays of an .npz file's bytes; `path` names the file in errors."""
    with _readable(path), np.load(io.BytesIO(content), allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Raise any failure to read `path` as one clear error: the libraries raise a dozen kinds on a damaged file."""
    try:
        yield
    except WorldforkError:
        raise
    except Exception as error:
        raise WorldforkError(f"`{path}` is damaged or not there ({error}).") from error
