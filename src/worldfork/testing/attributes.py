"""Numbers, arrays and generators inside an object, by the names of its attributes: what changed is told by name."""

import hashlib
import random
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

DEPTH: Final = 5  # attributes of attributes, and so on
NAMED: Final = 4  # at most, in one message
GENERATOR: Final = "generator "  # how the text of one begins


def contents(thing: Any) -> dict[str, str]:
    """Return every number, array, tensor and generator inside an object as a text, by its dotted name.

    >>> class Planner:
    ...     def __init__(self):
    ...         self.mean, self.steps = np.zeros(2), 3
    >>> sorted(contents(Planner()))
    ['mean', 'steps']
    """
    found: dict[str, str] = {}
    _collect(thing, "", found, set(), DEPTH)
    return found


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return the names of what is not the same."""
    names = [name for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name)]
    # What is named by an attribute says more than what is named by a number inside it.
    return list(dict.fromkeys(name.split("[")[0] for name in names))


def generators(contents: Mapping[str, str]) -> set[str]:
    """Return the names of the generators among what an object contains.

    >>> generators({"rng": GENERATOR + "PCG64", "mean": "0.0"})
    {'rng'}
    """
    return {name.split("[")[0] for name, text in contents.items() if text.startswith(GENERATOR)}


def listed(names: Iterable[str]) -> str:
    """Return the first few names for a message, sorted; empty where there are none."""
    every = sorted(names)
    text = ", ".join(f"`{name}`" for name in every[:NAMED])
    return text + (f" and {len(every) - NAMED} more" if len(every) > NAMED else "")


def _collect(thing: Any, name: str, found: dict[str, str], seen: set[int], depth: int) -> None:
    if id(thing) in seen or depth < 0:
        return
    text = _leaf(thing)
    if text is not None:
        found[name] = text
        return
    seen.add(id(thing))
    for part, value in _parts(thing):
        _collect(
            value,
            part if not name else f"{name}{part}" if part[0] == "[" else f"{name}.{part}",
            found,
            seen,
            depth - 1,
        )


def _leaf(thing: Any) -> str | None:
    """Return a value as a text that changes when it does; None for what has parts."""
    if thing is None or isinstance(thing, bool | int | float | complex | str | bytes | np.generic):
        return repr(thing)
    if isinstance(thing, Mapping | list | tuple | set | frozenset | deque):
        return None
    if isinstance(thing, np.ndarray):
        return _digest(thing)
    if isinstance(thing, np.random.Generator):
        return f"{GENERATOR}{thing.bit_generator.state!r}"
    if isinstance(thing, np.random.RandomState | random.Random):
        state = thing.get_state() if isinstance(thing, np.random.RandomState) else thing.getstate()
        return GENERATOR + _digest(np.frombuffer(repr(state).encode(), np.uint8))
    if hasattr(thing, "detach") and hasattr(thing, "cpu"):  # a tensor
        return _digest(np.asarray(thing.detach().cpu()))
    if type(thing).__name__ == "Generator" and hasattr(thing, "get_state"):  # PyTorch's
        return GENERATOR + _digest(np.asarray(thing.get_state()))
    if hasattr(thing, "__array__"):
        return _digest(np.asarray(thing))
    return None


def _parts(thing: Any) -> list[tuple[str, Any]]:
    if isinstance(thing, Mapping):
        return [(f"[{key!r}]", value) for key, value in thing.items()]
    if isinstance(thing, list | tuple | set | frozenset | deque):
        return [(f"[{place}]", value) for place, value in enumerate(thing)]
    if isinstance(thing, type) or callable(getattr(thing, "__func__", None)):
        return []
    parts: list[tuple[str, Any]] = []
    if callable(getattr(thing, "state_dict", None)):  # a module or an optimiser of PyTorch's
        parts = [(str(key), value) for key, value in dict(thing.state_dict()).items()]
    attributes = vars(thing) if hasattr(thing, "__dict__") else {}
    torchs = (
        {"_parameters", "_buffers", "_modules", "training", "param_groups", "state", "defaults"} if parts else ()
    )
    return parts + [(key, value) for key, value in attributes.items() if key not in torchs and not callable(value)]


def _digest(array: np.ndarray) -> str:
    content = np.ascontiguousarray(array)
    return f"{content.dtype}{content.shape}{hashlib.sha256(content.tobytes()).hexdigest()}"
