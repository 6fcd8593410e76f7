"""The rows of a published copy: the same lines, compressed (gzip, RFC 1952), about a quarter of the bytes.

The same lines give the same file, on any day, wherever one zlib compresses them. A file is read only if it is one
that `pack` could have written, so that its header and its end say nothing that goes unchecked.
"""

import zlib
from pathlib import Path
from typing import Final

from worldfork.errors import WorldforkError

__all__ = ["SUFFIX", "beside", "pack", "read", "read_lines"]

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
