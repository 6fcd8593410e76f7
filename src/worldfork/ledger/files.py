"""File operations that survive a kill and do not leave the study's folder.

A file is replaced whole or not at all, a line appended whole or cut off again, and nothing is written through a
link: a study may come from a stranger.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from worldfork.errors import WorldforkError

# Errors of disks without locks: NFS without a lock service, Lustre without `-o flock`, some of FUSE.
NO_LOCKS: Final = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS)
UNLOCKED: Final = "WORLDFORK_NO_LOCK"  # set by a user who ensures one run at a time on a disk without locks


def replace(path: Path, data: bytes) -> None:
    """Write `data` to `path`: readers see the old file or the new one, never a part.

    A link at `path` is replaced itself; its target stays as it is.
    """
    partial = path.with_name(f".{path.name}.partial")
    with _explained(path):
        try:
            partial.unlink(missing_ok=True)  # left behind by a kill
            # O_EXCL fails where somebody put a link in the meantime.
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            try:
                _write(descriptor, data)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.replace(partial, path)
        except OSError:
            with contextlib.suppress(OSError):
                partial.unlink()
            raise
        _sync_folder(path.parent)


def append(path: Path, data: bytes) -> None:
    """Append `data` to `path` and flush it to the disk, or leave the file as it was."""
    with _explained(path):
        existed = path.exists()
        descriptor = _open_plain(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
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
        if not existed:
            _sync_folder(path.parent)


def cut_torn_line(path: Path) -> int:
    """Cut off the bytes after the last line end, a line that a kill interrupted; return their number."""
    if not path.exists():
        return 0
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        with _explained(path):
            descriptor = _open_plain(path, os.O_WRONLY)
            try:
                os.ftruncate(descriptor, whole)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    return len(content) - whole


@contextlib.contextmanager
def exclusive(path: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold the kernel's lock on `path`, which dies with its process; a lock that is taken is refused or awaited."""
    with _explained(path):
        descriptor = _open_plain(path, os.O_RDWR | os.O_CREAT)
    try:
        with _explained(path):
            locked = _lock(descriptor, wait=wait)
        # The file may have been removed between opening and locking; the lock would then exclude nobody.
        if not locked or not _still_names(path, descriptor):
            raise WorldforkError(
                f"Another run is writing to `{path.parent}`: one writer at a time. Wait, or use another folder."
            )
        yield
    finally:
        os.close(descriptor)


def make_folders(path: Path) -> list[Path]:
    """Make the folder `path`; return the folders that were made, the outermost first."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()][::-1]
    with _explained(path):
        path.mkdir(parents=True, exist_ok=True)
    return missing


def refuse_what_is_not_plain(folder: Path) -> None:
    """Raise unless `folder` holds plain files and folders alone, and no link that leads out of it.

    A file from outside, read as part of the study, could end up on a page that is passed on; a pipe never ends.
    """
    home = folder.resolve()
    for place, folders, names in os.walk(folder):
        for path in (os.path.join(place, name) for name in (*folders, *names)):
            if os.path.islink(path) and not (leads := Path(path).resolve()).is_relative_to(home):
                raise WorldforkError(
                    f"`{path}` is a link that leads out of `{folder}`, to `{leads}`: a study is read from its own "
                    "folder alone. Put a copy of what it points to in its place, or remove it."
                )
            if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
                raise WorldforkError(f"`{path}` is neither a file nor a folder: remove it.")


def refuse_other_folders(path: Path, *, kind: str, record: str, begun: Collection[str]) -> None:
    """Raise unless `path` is new, empty, or has the file `record`, or only what a kill may leave before it.

    What it holds must be plain, so that nothing is written to another folder.
    """
    if path.exists() and not path.is_dir():
        raise WorldforkError(f"`{path}` is a file, and a {kind} is a folder. Choose another.")
    others = sorted(item.name for item in path.iterdir()) if path.exists() else []
    if record not in others and not set(others) <= set(begun):
        other = next(name for name in others if name not in begun)
        raise WorldforkError(
            f"`{path}` is not empty and is not a {kind} (it holds {other} and no {record}). Choose another."
        )
    refuse_what_is_not_plain(path)


def writable(path: Path | str) -> Path:
    """Return `path`; raise if no file can be written there. Call it before the work whose result goes there."""
    path = Path(path)
    if path.is_dir():
        raise WorldforkError(f"`{path}` is a folder: name a file in it.")
    if not path.parent.is_dir():
        raise WorldforkError(f"There is no folder `{path.parent}` to write `{path.name}` into: make it first.")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise WorldforkError(f"`{path.parent}` can not be written to: change its permissions.")
    return path


def _open_plain(path: Path, flags: int) -> int:
    """Open a plain file with one name to change it in place; never the target of a link."""
    with contextlib.suppress(FileNotFoundError):
        state = path.lstat()
        if not stat.S_ISREG(state.st_mode):
            kind = "a link" if stat.S_ISLNK(state.st_mode) else "not a plain file"
            raise WorldforkError(
                f"`{path}` is {kind}; worldfork changes plain files alone, since a study may come from a stranger. "
                "Put a copy of the file in its place, or remove it."
            )
        if state.st_nlink > 1:
            raise WorldforkError(
                f"`{path}` has another name somewhere (a hard link), and what is changed here would change there. "
                "Put a copy of the file in its place."
            )
    return os.open(path, flags | os.O_NOFOLLOW, 0o644)


def _lock(descriptor: int, *, wait: bool) -> bool:
    """Take the lock; return False if another process holds it."""
    import fcntl  # here, so that everything but writing works where there is none

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        if not os.environ.get(UNLOCKED):
            raise WorldforkError(
                f"The disk of this folder can not lock files ({error.strerror}), which keeps two runs from writing "
                "to one study at once. Choose a folder on another disk; or see to it yourself that one run at a "
                f"time writes there, set {UNLOCKED}=1 in the environment, and run the same command again."
            ) from error
    return True


def _still_names(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


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
    """Raise errors of the system as errors with advice."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            advice = (
                "the disk is full. Free some space and run the same command again: it resumes with what is missing"
            )
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            advice = "the folder can not be written to. Change its permissions or choose another with -o"
        else:
            advice = f"{error.strerror or error}"
        raise WorldforkError(f"Could not write `{path}`: {advice}. What was written before is kept.") from error
