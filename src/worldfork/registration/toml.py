"""Writing TOML: the few kinds of value that a registration holds."""

import json
from typing import Any

__all__ = ["dumps"]


def dumps(tables: dict[str, Any]) -> str:
    """The tables as text that `tomllib` reads back to the same values.

    >>> arms = [{"name": "x", "stream": {"noise": 0.5}}]
    >>> print(dumps({"name": "a", "grid": {"seeds": [0, 1]}, "arms": arms}), end="")
    name = "a"
    <BLANKLINE>
    [grid]
    seeds = [0, 1]
    <BLANKLINE>
    [[arms]]
    name = "x"
    stream = { noise = 0.5 }
    """
    return "\n".join(_table(tables, ())).lstrip("\n") + "\n"


def _table(table: dict[str, Any], path: tuple[str, ...]) -> list[str]:
    plain = {
        key: value for key, value in table.items() if not (isinstance(value, dict) or _is_array_of_tables(value))
    }
    lines = [f"{_key(key)} = {_value(value)}" for key, value in plain.items()]
    for key, value in table.items():
        name = ".".join(map(_key, (*path, key)))
        if isinstance(value, dict):
            lines += ["", f"[{name}]", *_table(value, (*path, key))]
        elif _is_array_of_tables(value):
            for entry in value:
                lines += [
                    "",
                    f"[[{name}]]",
                    *(f"{_key(inner)} = {_value(given)}" for inner, given in entry.items()),
                ]
    return lines


def _is_array_of_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(entry, dict) for entry in value)


def _key(key: str) -> str:
    return key if key.replace("-", "").replace("_", "").isalnum() and key.isascii() else _value(key)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(key)} = {_value(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
