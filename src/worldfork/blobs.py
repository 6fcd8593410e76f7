"""Files of the driver, such as checkpoints and streams, by the SHA-256 of their bytes.

Tasks carry the names of blobs and no arrays. A worker reads a blob from the driver's path if they share a disk, and
else through the executor (`fetching`). The bytes are checked against the name in either case.
"""

import contextlib
import contextvars
import dataclasses
import hashlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from worldfork.errors import WorldforkError


@dataclasses.dataclass(frozen=True)
class Blob:
    """A file, named by its content."""

    name: str  # SHA-256 of its bytes
    path: Path = dataclasses.field(compare=False)  # on the driver's disk


def blob_of(path: Path) -> Blob:
    """Return the blob of the file at `path`."""
    with path.open("rb") as file:
        return Blob(hashlib.file_digest(file, "sha256").hexdigest(), path)


def read_blob(blob: Blob) -> bytes:
    """Return the bytes of a blob, on the driver or on a worker."""
    fetch = _fetch.get()
    try:
        content = blob.path.read_bytes() if fetch is None else fetch(blob.name)
    except OSError as error:
        raise WorldforkError(f"`{blob.path}` can not be read ({error}).") from error
    if hashlib.sha256(content).hexdigest() != blob.name:
        raise WorldforkError(
            f"`{blob.path}` changed since this run began, or was damaged on its way here (its SHA-256 is not "
            f"{blob.name[:12]}). Run the same command again; if it comes back, check disk and memory."
        )
    return content


@contextlib.contextmanager
def as_files(blobs: Sequence[Blob], *, stem: str) -> Iterator[Path]:
    """Yield the path of the first of these blobs, with the others beside it.

    These are the driver's own files if they can be read here, else copies called `stem` in a temporary folder.
    """
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
    """Read blobs through `fetch`, a function from name to bytes, within this context."""
    token = _fetch.set(fetch)
    try:
        yield
    finally:
        _fetch.reset(token)


_fetch: contextvars.ContextVar[Callable[[str], bytes] | None] = contextvars.ContextVar("fetch", default=None)
