"""Arrays as text that a page can hold: the bytes of a typed array in base64, at a third more than their size.

The script reads {"kind": "f64", "data": "..."} back as a Float64Array, so that every digit arrives. Numbers that
are only drawn take four bytes or fewer. A missing number is NaN; a missing index is the largest value of its kind.
"""

import base64
from collections.abc import Sequence
from typing import Final

import numpy as np

__all__ = ["MISSING", "pack", "unpack"]

KINDS: Final = {"f64": "<f8", "f32": "<f4", "u32": "<u4", "u16": "<u2", "u8": "u1"}
MISSING: Final = 0xFFFF  # of a u16: no such index


def pack(values: np.ndarray | Sequence[float | int | None], kind: str) -> dict[str, str]:
    """Values as bytes of that kind, in base64.

    >>> pack([1.0, None], "f32")
    {'kind': 'f32', 'data': 'AACAPwAAwH8='}
    """
    array = np.asarray(values, dtype=np.float64 if kind.startswith("f") else None)
    return {"kind": kind, "data": base64.b64encode(array.astype(KINDS[kind]).tobytes()).decode()}


def unpack(packed: dict[str, str]) -> np.ndarray:
    """What `pack` was given, in its kind's precision: the script's way back, for tests."""
    return np.frombuffer(base64.b64decode(packed["data"]), dtype=KINDS[packed["kind"]])
