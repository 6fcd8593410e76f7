"""One spelling per value: the canonical JSON that every digest is taken of."""

import hashlib
import json
from typing import Any

__all__ = ["canonical", "digest"]


def canonical(value: Any) -> str:
    """Sorted keys, no spaces, UTF-8, shortest float form; non-finite numbers are an error, not a word.

    >>> canonical({"b": 0.1, "a": [1, None]})
    '{"a":[1,null],"b":0.1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(value: Any) -> str:
    """SHA-256 of the canonical JSON, in hexadecimal."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()
