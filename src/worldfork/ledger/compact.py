"""Rows without the digests that follow from them, for a copy in one file.

A digest does not compress, and every row of a chain has two: `prev`, which the row before has too, and `digest`,
which the row itself gives. A copy keeps the last digest of a chain alone. The others are computed when rows are
read, and whoever changed one bit of any row would end at another digest than the one that was kept.
"""

import hashlib
import re
import zlib
from pathlib import Path
from typing import Final

from worldfork.errors import WorldforkError

DIGEST: Final = re.compile(rb'"digest":"[0-9a-f]{64}",')
PREVIOUS: Final = re.compile(rb'"prev":"[0-9a-f]{64}"')
NO_DIGEST: Final = b'"digest":"",'
NO_PREVIOUS: Final = b'"prev":""'


def without_digests(lines: bytes, *, genesis: str) -> bytes:
    """The same rows with all digests blank but the last; as they are where `restored` would not give them back."""
    *before, last = lines.splitlines(keepends=True) or [b""]
    blank = [PREVIOUS.sub(NO_PREVIOUS, DIGEST.sub(NO_DIGEST, line, count=1), count=1) for line in before]
    short = b"".join([*blank, PREVIOUS.sub(NO_PREVIOUS, last, count=1)])
    try:
        return short if restored(short, genesis=genesis, where="") == lines else lines
    except WorldforkError:  # a chain that is broken already: whoever reads the copy is to see where
        return lines


def restored(lines: bytes, *, genesis: str, where: str) -> bytes:
    """Whole rows again; `genesis` is what the first is chained to. Rows that have digests stay as they are."""
    if NO_PREVIOUS not in lines and NO_DIGEST not in lines:
        return lines
    whole: list[bytes] = []
    previous = genesis.encode()
    rows = lines.splitlines(keepends=True)
    for number, row in enumerate(rows, start=1):
        chained = row.replace(NO_PREVIOUS, b'"prev":"%b"' % previous, 1)
        if NO_DIGEST in chained:
            if number == len(rows):
                raise WorldforkError(f"{where}, line {number}: the last row has no digest for the rows to end at.")
            payload = chained.replace(NO_DIGEST, b"", 1).rstrip(b"\n")
            previous = hashlib.sha256(payload).hexdigest().encode()
            chained = chained.replace(NO_DIGEST, b'"digest":"%b",' % previous, 1)
        elif stated := DIGEST.search(chained):
            previous = stated[0][10:-2]
            computed = hashlib.sha256(DIGEST.sub(b"", chained, count=1).rstrip(b"\n")).hexdigest().encode()
            if number == len(rows) and computed != previous:
                raise WorldforkError(
                    f"{where}: a row is not what was written. Which of the {number} can not be said: a copy in one "
                    "file keeps one digest for all of them."
                )
        whole.append(chained)
    return b"".join(whole)


SUFFIX: Final = ".gz"
# No name, no date, the strongest compression, an unknown system: what would differ between machines is left out.
HEADER: Final = bytes((0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 2, 255))
# Rows pack into a quarter to a tenth. A few bytes that stand for gigabytes are made to fill memory.
AT_LEAST: Final = 64 * 1024
TIMES: Final = 32


def beside(path: Path) -> Path:
    """Where the rows of `path` are when they are compressed: forks.jsonl.gz."""
    return path.with_name(f"{path.name}{SUFFIX}")


def pack(lines: bytes) -> bytes | None:
    """The file that holds these lines; None where they pack so well that `read` would refuse them."""
    compressor = zlib.compressobj(level=9, wbits=-zlib.MAX_WBITS)
    body = compressor.compress(lines) + compressor.flush()
    end = zlib.crc32(lines).to_bytes(4, "little") + (len(lines) % 2**32).to_bytes(4, "little")
    content = HEADER + body + end
    return content if len(lines) <= _bound(content) else None


def read_lines(path: Path) -> bytes:
    """The lines in a file of rows, compressed or plain."""
    return read(path) if path.suffix == SUFFIX else path.read_bytes()


def read(path: Path) -> bytes:
    """The lines in a file of `pack`. Never more is unpacked than 32 times what is stored, or 64 KiB."""
    content = path.read_bytes()
    if not content.startswith(HEADER):
        raise WorldforkError(f"`{path}` is damaged: it does not begin as worldfork's compressed rows do.")
    unpacking = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        lines = unpacking.decompress(content, _bound(content) + 1)
    except zlib.error as error:
        raise WorldforkError(f"`{path}` is damaged ({error}).") from error
    if len(lines) > _bound(content):
        raise WorldforkError(
            f"`{path}` would unpack to more than {TIMES} times its size, which rows do not: it is not unpacked."
        )
    if not unpacking.eof or unpacking.unused_data:
        raise WorldforkError(f"`{path}` is damaged: it was cut off, or something was added to it.")
    return lines


def _bound(content: bytes) -> int:
    return max(AT_LEAST, TIMES * len(content))
