"""TOML in and out: what a stranger may hand us to read, and the few kinds of value that a registration holds."""

import json
import re
import tomllib
from typing import Any, Final

from worldfork.errors import WorldforkError

__all__ = ["dumps", "loads"]

AT_MOST: Final = 2**20  # characters; the longest registration of ours has 5,000
PARTS: Final = 32  # of one key; ours have four
# Python's parser takes time quadratic in the parts of a key: 50,000 of them keep it busy for minutes.
PART: Final = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
LONG_KEY: Final = re.compile(rf"(?<![\w-]){PART}(?:[ \t]*+\.[ \t]*+{PART}){{{PARTS}}}")


def loads(text: str, *, name: str, kind: str) -> dict[str, Any]:
    """Return the tables of a TOML text, or raise one clear error; `kind` is what `name` should be."""
    if len(text) > AT_MOST:
        raise WorldforkError(
            f"{name} is not {kind}: it has {len(text):,} characters, at most {AT_MOST:,} are read."
        )
    if LONG_KEY.search(text):
        raise WorldforkError(
            f"{name} is not {kind}: its tables are nested too deeply, by a key of more than {PARTS} parts."
        )
    try:
        tables = tomllib.loads(text)
        json.dumps(tables, default=str)  # what is nested deeper than this can be written is nothing of ours either
    except tomllib.TOMLDecodeError as error:
        raise WorldforkError(f"{name} is not valid TOML: {error}.") from error
    except RecursionError as error:
        raise WorldforkError(f"{name} is not {kind}: its tables are nested too deeply.") from error
    except ValueError as error:  # Python converts no more than 4,300 digits, between texts and whole numbers
        raise WorldforkError(f"{name} is not {kind}: it has a whole number of thousands of digits.") from error
    return tables


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
