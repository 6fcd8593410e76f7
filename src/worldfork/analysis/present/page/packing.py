"""Arrays as text that a page can hold: the bytes of typed arrays, every digit of them.

`pack` makes a column {"kind": "f64", "data": base64}. Before a value with such columns goes into a page, `bundle`
takes all of them out into one block of bytes that a browser inflates (zlib), in base64, at a third more than its
size; where a column stood there is then {"kind", "at", "count"}. Inside the block the first bytes of all numbers of
a column come first, then the second bytes, and so on: numbers of one column have like exponents, which compress.
Numbers that are only drawn take four bytes or fewer. A missing number is NaN; a missing index is the largest value
of its kind.
"""

import base64
import zlib
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

KINDS: Final = {"f64": "<f8", "f32": "<f4", "u32": "<u4", "u16": "<u2", "u8": "u1"}
MISSING: Final = 0xFFFF  # of a u16: no such index


def pack(values: np.ndarray | Sequence[float | int | None], kind: str) -> dict[str, str]:
    """Return values as bytes of that kind, in base64.

    >>> pack([1.0, None], "f32")
    {'kind': 'f32', 'data': 'AACAPwAAwH8='}
    """
    array = np.asarray(values, dtype=np.float64 if kind.startswith("f") else None)
    return {"kind": kind, "data": base64.b64encode(array.astype(KINDS[kind]).tobytes()).decode()}


def unpack(packed: Mapping[str, str]) -> np.ndarray:
    """Return what `pack` was given, in its kind's precision."""
    return np.frombuffer(base64.b64decode(packed["data"]), dtype=KINDS[packed["kind"]])


def bundle(value: object) -> tuple[object, str]:
    """Return the value with a place instead of every packed column, and the block of bytes that holds them."""
    block = bytearray()

    def placed(inner: object) -> object:
        if isinstance(inner, Mapping):
            if inner.keys() == {"kind", "data"} and inner["kind"] in KINDS:
                column = unpack(inner)
                at = len(block)
                block.extend(column.view("u1").reshape(len(column), column.itemsize).T.tobytes())
                return {"kind": inner["kind"], "at": at, "count": len(column)}
            return {key: placed(part) for key, part in inner.items()}
        return [placed(part) for part in inner] if isinstance(inner, list | tuple) else inner

    rest = placed(value)
    return rest, base64.b64encode(zlib.compress(bytes(block), 9)).decode()


def unbundle(value: object, block: str) -> object:
    """Return every place as the array that stood there: the script's way back, for tests."""
    inflated = zlib.decompress(base64.b64decode(block))

    def restored(inner: object) -> object:
        if isinstance(inner, Mapping):
            if inner.keys() == {"kind", "at", "count"}:
                kind = np.dtype(KINDS[inner["kind"]])
                taken = np.frombuffer(inflated, "u1", inner["count"] * kind.itemsize, inner["at"])
                return taken.reshape(kind.itemsize, inner["count"]).T.copy().view(kind).ravel()
            return {key: restored(part) for key, part in inner.items()}
        return [restored(part) for part in inner] if isinstance(inner, list) else inner

    return restored(value)
