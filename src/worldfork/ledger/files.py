"""Writing that survives a kill: a file is replaced whole or not at all, a line appended whole or cut off again."""

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from worldfork.errors import WorldforkError

__all__ = ["append", "cut_torn_line", "exclusive", "replace"]


def replace(path: Path, data: bytes) -> None:
    """Put `data` at `path`: readers see the old file or the new one, never a part."""
    partial = path.with_name(f".{path.name}.partial")
    with _explained(path):
        try:
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            try:
                _write(descriptor, data)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.replace(partial, path)
        except OSError:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)


def append(path: Path, data: bytes) -> None:
    """Add `data` at the end of `path` and see it to the disk, or leave the file as it was."""
    with _explained(path):
        known = path.exists()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            before = os.fstat(descriptor).st_size
            try:
                _write(descriptor, data)
                os.fsync(descriptor)
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, before)
                raise
        finally:
            os.close(descriptor)
        if not known:
            _sync_folder(path.parent)


def cut_torn_line(path: Path) -> int:
    """Cut off what follows the last line end: the rest of a line that a kill interrupted. Returns its length."""
    if not path.exists():
        return 0
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        with _explained(path):
            os.truncate(path, whole)
    return len(content) - whole


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the kernel's lock on `path`: one writer at a time, and the lock dies with its process."""
    with _explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise WorldforkError(
                f"Another run is writing to `{path.parent}`: one writer at a time. Wait, or use another folder."
            ) from error
        yield
    finally:
        os.close(descriptor)


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _sync_folder(folder: Path) -> None:
    """Make a new name in `folder` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn what the system says about a file into what to do about it."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            told = (
                "the disk is full. Free some space and run the same command again: it resumes with what is missing"
            )
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            told = "the folder can not be written to. Change its permissions or choose another with -o"
        else:
            told = f"{error.strerror or error}"
        raise WorldforkError(f"Could not write `{path}`: {told}. What was written before is kept.") from error
