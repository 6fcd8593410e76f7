"""A study in one file, `NAME.tar.xz`, of which `tar -xf` makes the folder `NAME`.

The file is read by unpacking it into a temporary folder, which is removed when the process ends; errors name the
file all the same (`errors.call`).

An archive may come from a stranger. Nothing is written before all of it has been checked: plain files and folders
under one folder, each name once, within the bounds below. Its tar headers are read one by one (POSIX.1-1988,
`ustar`), without the extensions in which one header changes the meaning of the next.
"""

import atexit
import hashlib
import io
import lzma
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from worldfork.errors import WorldforkError, call, closest
from worldfork.ledger.documents import inside

SUFFIX: Final = ".tar.xz"
TABLES: Final = (".csv", ".parquet", ".jsonl")
PRESET: Final = 6 | lzma.PRESET_EXTREME
# Studies pack into a half to a tenth. A few bytes that stand for gigabytes are made to fill a disk.
AT_LEAST: Final = 8 * 2**20
TIMES: Final = 64
MEMBERS: Final = 50_000  # files and folders; the largest published study has 500
MEMORY: Final = 128 * 2**20  # what xz may ask for; its strongest setting needs 65 MiB
BLOCK: Final = tarfile.BLOCKSIZE
FILE_TYPES: Final = (tarfile.REGTYPE, tarfile.AREGTYPE)

_unpacked: dict[tuple[Path, str], Path] = {}  # file and its SHA-256 -> where it was unpacked


def is_archive(path: Path) -> bool:
    """Return whether `path` is, or would be, a study in one file."""
    return path.name.endswith(SUFFIX) and not path.is_dir()


def locate(path: Path) -> Path:
    """Return the file `path`.tar.xz if it exists and `path` does not; else `path`."""
    beside = path.parent / f"{path.name}{SUFFIX}"
    try:
        return beside if not path.exists() and beside.is_file() else path
    except OSError as error:  # a name longer than a file's may be, a folder that may not be entered
        raise WorldforkError(f"`{path}` can not be looked for ({error.strerror}).") from error


def nearest_study(path: Path, *, endings: tuple[str, ...] = (SUFFIX,)) -> str:
    """Return " Did you mean X?" for what is closest by name beside `path`, a folder or a file with one of these
    endings; else "".
    """
    readable = [other for other in path.parent.glob("*") if other.is_dir() or other.name.endswith(endings)]
    near = closest(path.name, {name_of(other) for other in readable})
    return f" Did you mean {path.parent / near}?" if near else ""


def no_study(path: Path) -> str:
    """Return the error message for a path that is no study, with what in it could be read instead."""
    if not path.exists():
        return f"There is no study `{path}`.{nearest_study(path)}"
    if path.is_file():
        return f"`{path}` is not a study: that is a folder, or a file NAME.tar.xz."
    try:
        names = sorted(item.name for item in path.iterdir())
    except OSError as error:
        return f"`{path}` can not be read ({error.strerror})."
    there = ", ".join(f"`{name}`" for name in names[:3]) + (f" and {len(names) - 3:,} more" if names[3:] else "")
    message = f"`{path}` is not a study: that is a folder with a registration.json, as `worldfork run` writes it; "
    message += f"this one holds {there or 'nothing'}."
    within = [name for name in names if os.path.lexists(path / name / "registration.json")]
    within += [name for name in names if name.endswith((SUFFIX, *TABLES))]
    return f"{message} Name what is in it: {path / within[0]}" if within else message


def name_of(path: Path) -> str:
    """Return the name of the study at `path`, folder or file."""
    return path.name.removesuffix(SUFFIX)


def pack(contents: Mapping[str, bytes], *, name: str) -> bytes:
    """Return the archive of these files, by path within the study's folder `name`.

    Equal files under an equal name give equal bytes wherever one version of xz compresses them.
    """
    stored = io.BytesIO()
    with tarfile.open(fileobj=stored, mode="w", format=tarfile.USTAR_FORMAT, encoding="utf-8") as tar:
        for place in sorted(contents):
            member = tarfile.TarInfo(f"{name}/{place}")  # no date, no owner, and the mode that `tar` gives files
            member.size = len(contents[place])
            try:
                tar.addfile(member, io.BytesIO(contents[place]))
            except ValueError as error:
                raise WorldforkError(f"`{place}` can not be packed ({error}). Give it a shorter name.") from error
    unpacked = stored.getvalue()
    content = lzma.compress(unpacked, preset=PRESET)
    if len(unpacked) > _bound(content) or len(contents) > MEMBERS:
        raise WorldforkError(
            f"{len(contents):,} files of {len(unpacked) / 1e6:.1f} MB that pack into {len(content) / 1e6:.1f} MB "
            "are beyond what a reader accepts. Pass the study's folder on as it is."
        )
    return content


def unpack(archive: Path) -> Path:
    """Return a temporary folder with the files of the archive; it is removed when this process ends."""
    if not archive.is_file():
        raise WorldforkError(f"There is no file `{archive}`.")
    try:
        content = archive.read_bytes()
    except OSError as error:
        raise WorldforkError(f"`{archive}` can not be read ({error.strerror or error}).") from error
    key = archive.resolve(), hashlib.sha256(content).hexdigest()
    if key not in _unpacked:
        contents = _files(content, archive)
        home = Path(tempfile.mkdtemp(prefix="worldfork-")).resolve()
        atexit.register(shutil.rmtree, home, ignore_errors=True)
        folder = home / "study"
        try:
            _write(contents, folder)
        except OSError as error:
            shutil.rmtree(home, ignore_errors=True)
            raise WorldforkError(f"`{archive}` can not be unpacked to be read ({error.strerror}).") from error
        _unpacked[key] = folder
    call(_unpacked[key], archive)
    return _unpacked[key]


def _write(contents: Mapping[str, bytes], folder: Path) -> None:
    folder.mkdir()
    for place, content in contents.items():
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:  # never over another: a disk may take two names for one
            file.write(content)


def _files(content: bytes, archive: Path) -> dict[str, bytes]:
    """Return the files of the archive by path, after checking that all of them may be unpacked."""
    files: dict[str, bytes] = {}
    homes: set[str] = set()
    for count, (name, data) in enumerate(_members(_decompressed(content, archive), archive)):
        if count == MEMBERS:
            raise WorldforkError(f"`{archive}` is not unpacked: it holds more than {MEMBERS:,} files and folders.")
        try:
            home, *parts = PurePosixPath(inside(name)).parts
        except ValueError as error:
            raise WorldforkError(f"`{archive}` is not unpacked: {error}.") from error
        homes.add(home)
        if len(homes) > 1 or (data is not None and not parts):
            raise WorldforkError(f"`{archive}` is not unpacked: a study is one folder, and `{name}` is not in it.")
        if data is None:
            continue
        place = "/".join(parts)
        if place in files:
            raise WorldforkError(f"`{archive}` is not unpacked: it holds `{name}` twice.")
        files[place] = data
    return files


def _members(tar: bytes, archive: Path) -> Iterator[tuple[str, bytes | None]]:
    """Yield the name of every member and its content, None for a folder."""
    start = 0
    while any(header := tar[start : start + BLOCK]):
        try:
            member = tarfile.TarInfo.frombuf(header, "utf-8", "strict")
        except (tarfile.HeaderError, ValueError) as error:
            raise WorldforkError(
                f"`{archive}` is damaged: at byte {start:,} of its tar, {error}. Fetch it again."
            ) from error
        if member.type not in (*FILE_TYPES, tarfile.DIRTYPE):
            raise WorldforkError(
                f"`{archive}` is not unpacked: `{member.name}` is neither a plain file nor a folder (a link, a "
                "device, or an extension of tar). Pack it again with `worldfork export --publish`."
            )
        size = member.size if member.type in FILE_TYPES else 0
        begin = start + BLOCK
        start = begin + (size + BLOCK - 1) // BLOCK * BLOCK  # members begin at whole blocks
        if size < 0 or start > len(tar):
            raise WorldforkError(
                f"`{archive}` is damaged: `{member.name}` is longer than the archive. Fetch it again."
            )
        yield member.name, tar[begin : begin + size] if member.type in FILE_TYPES else None
    if len(tar) - start < BLOCK or any(tar[start:]):
        raise WorldforkError(
            f"`{archive}` is damaged: its tar was cut off, or something was added to it. Fetch it again."
        )


def _decompressed(content: bytes, archive: Path) -> bytes:
    """Return the uncompressed tar, of at most 64 times the stored bytes or 8 MiB."""
    unpacking = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=MEMORY)
    try:
        tar = unpacking.decompress(content, _bound(content) + 1)
    except lzma.LZMAError as error:
        raise WorldforkError(f"`{archive}` is damaged ({error}). Fetch it again.") from error
    if len(tar) > _bound(content):
        raise WorldforkError(
            f"`{archive}` would unpack to over {TIMES} times its size, which no study does: it is not unpacked."
        )
    if not unpacking.eof or unpacking.unused_data:
        raise WorldforkError(
            f"`{archive}` is damaged: it was cut off, or something was added to it. Fetch it again."
        )
    return tar


def _bound(content: bytes) -> int:
    return max(AT_LEAST, TIMES * len(content))
