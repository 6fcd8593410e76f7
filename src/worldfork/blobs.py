"""Bytes by their content: what a task names, and what a worker fetches.

A blob is a file that the driver has (of a checkpoint, of a stream), named by the SHA-256 of its bytes. Tasks name
blobs; they carry no arrays. Whoever does a task reads a blob here: from the driver's path where the two share a
disk, and otherwise from wherever the executor has put it (`fetching`). Whatever comes is checked against its name.
"""

import contextlib
import contextvars
import dataclasses
import hashlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from worldfork.errors import WorldforkError

__all__ = ["Blob", "as_files", "blob_of", "fetching", "read_blob", "shares_disk"]


@dataclasses.dataclass(frozen=True)
class Blob:
    """A file by its content."""

    name: str  # SHA-256 of its bytes
    path: Path = dataclasses.field(compare=False)  # where the driver has it


def blob_of(path: Path) -> Blob:
    """The file at `path`, named."""
    with path.open("rb") as file:
        return Blob(hashlib.file_digest(file, "sha256").hexdigest(), path)


def read_blob(blob: Blob) -> bytes:
    """The bytes of a blob, on whichever machine this is."""
    fetch = _fetch.get()
    try:
        content = blob.path.read_bytes() if fetch is None else fetch(blob.name)
    except OSError as error:
        raise WorldforkError(f"`{blob.path}` can not be read ({error}).") from error
    if hashlib.sha256(content).hexdigest() != blob.name:
        raise WorldforkError(
            f"`{blob.path}` is not what it was when this run began, or was damaged on its way here (its SHA-256 is "
            f"not {blob.name[:12]}). Run the same command again; if it comes back, look at disk and memory."
        )
    return content


@contextlib.contextmanager
def as_files(blobs: Sequence[Blob], *, stem: str) -> Iterator[Path]:
    """The path of the first of these blobs, with the others beside it: the driver's own files where they can be
    read here, else copies called `stem`, in a folder that is gone afterwards."""
    if shares_disk():
        yield blobs[0].path
        return
    with tempfile.TemporaryDirectory(prefix="worldfork-") as folder:
        for blob in blobs:
            Path(folder, stem + blob.path.suffix).write_bytes(read_blob(blob))
        yield Path(folder, stem + blobs[0].path.suffix)


def shares_disk() -> bool:
    """Return True if this process can read the driver's paths."""
    return _fetch.get() is None


@contextlib.contextmanager
def fetching(fetch: Callable[[str], bytes]) -> Iterator[None]:
    """Blobs come from `fetch` meanwhile: it is given a name and returns the bytes."""
    token = _fetch.set(fetch)
    try:
        yield
    finally:
        _fetch.reset(token)


_fetch: contextvars.ContextVar[Callable[[str], bytes] | None] = contextvars.ContextVar("fetch", default=None)
