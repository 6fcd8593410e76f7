"""Figures that do not exist stay undefined, with the reason, and never become zero.

A scoring function returns a number or an `Undefined`. `settle` turns a tree of both into plain JSON values, null
where undefined, and the list of what is undefined and why.
"""

import dataclasses
import math
from typing import Any

import numpy as np

__all__ = ["Figure", "Interval", "Undefined", "settle"]


@dataclasses.dataclass(frozen=True)
class Undefined:
    """A figure that does not exist, and why."""

    why: str


Figure = float | Undefined
Interval = list[float] | Undefined


def settle(tree: Any, where: str = "") -> tuple[Any, list[dict[str, str]]]:
    """Plain values and the reasons for the nulls among them.

    >>> settle({"a": 1.0, "b": {"c": Undefined("one class only")}})
    ({'a': 1.0, 'b': {'c': None}}, [{'figure': 'b.c', 'why': 'one class only'}])
    """
    if isinstance(tree, Undefined):
        return None, [{"figure": where, "why": tree.why}]
    if isinstance(tree, dict):
        pairs = {key: settle(value, f"{where}.{key}" if where else str(key)) for key, value in tree.items()}
        return {key: plain for key, (plain, _) in pairs.items()}, [
            why for _, found in pairs.values() for why in found
        ]
    if isinstance(tree, list | tuple):
        items = [settle(value, f"{where}[{index}]") for index, value in enumerate(tree)]
        return [plain for plain, _ in items], [why for _, found in items for why in found]
    if isinstance(tree, np.generic):
        tree = tree.item()
    if isinstance(tree, float) and not math.isfinite(tree):
        return None, [{"figure": where, "why": "the arithmetic overflowed: the returns are too large to square"}]
    return tree, []
