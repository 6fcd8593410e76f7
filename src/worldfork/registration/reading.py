"""From a TOML file that a person wrote to a `Registration`, or to an error that says what to change.

[stream], [evaluation] and [mechanism] are shared by all arms; each [[arms]] entry states only what it varies. A
file without [[arms]] has one arm, named after the registration.
"""

import json
import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from worldfork.errors import WorldforkError
from worldfork.registration import records

__all__ = ["difference", "parse", "read", "restore"]

SHARED = ("stream", "evaluation", "mechanism")


def read(path: Path) -> records.Registration:
    """Load, complete and check the registration at `path`."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WorldforkError(f"A registration is a TOML file; `{path}` could not be read ({error}).") from error
    return parse(text, name=str(path))


def parse(text: str, *, name: str = "registration") -> records.Registration:
    """As `read`, from the text itself."""
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise WorldforkError(f"{name} is not valid TOML: {error}.") from error
    return _validated(_complete(given, name), name)


def restore(canonical: str, *, name: str = "registration.json") -> records.Registration:
    """The registration back from its canonical JSON."""
    return _validated(json.loads(canonical), name)


def difference(before: Any, after: Any, where: str = "") -> list[str]:
    """The leaves at which two JSON values differ, one readable line each.

    >>> difference({"a": 1, "b": {"c": 2}}, {"a": 1, "b": {"c": 3}})
    ['b.c: 2 -> 3']
    """
    if isinstance(before, dict) and isinstance(after, dict):
        keys = sorted(set(before) | set(after))
        inner = [(f"{where}.{key}" if where else str(key), before.get(key), after.get(key)) for key in keys]
        return [line for place, old, new in inner for line in difference(old, new, place)]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return [line for index, (old, new) in pairs for line in difference(old, new, f"{where}[{index}]")]
    return [] if before == after else [f"{where}: {json.dumps(before)} -> {json.dumps(after)}"]


def _complete(given: dict[str, Any], name: str) -> dict[str, Any]:
    """Write every arm out in full."""
    shared = {key: given.pop(key, {}) for key in SHARED}
    grid = given.get("grid", {})
    arms = given.get("arms", [{"name": given.get("name", "")}])
    tables_as_expected = (
        isinstance(grid, dict)
        and isinstance(arms, list)
        and all(isinstance(arm, dict) for arm in arms)
        and all(isinstance(table, dict) for table in shared.values())
    )
    if not tables_as_expected:
        raise WorldforkError(
            f"{name}: [grid], [stream], [evaluation], [mechanism] are tables and [[arms]] a list of them."
        )
    for arm in arms:
        for key in SHARED:
            if isinstance(arm.get(key, {}), dict):
                arm[key] = {**shared[key], **arm.get(key, {})}
        for key in ("tasks", "stream_seeds"):
            arm.setdefault(key, grid.get(key, [0] if key == "stream_seeds" else []))
    scoring = given.get("scoring", {})
    if isinstance(scoring, dict) and scoring.get("divergence_fraction") == "off":
        scoring["divergence_fraction"] = None  # TOML has no null
    return {**given, "arms": arms}


def _validated(complete: dict[str, Any], name: str) -> records.Registration:
    try:
        # By way of JSON, where strict means strict and arrays may still become tuples.
        return records.Registration.model_validate_json(json.dumps(complete, default=str))
    except ValidationError as error:
        lines = [_explain(detail) for detail in error.errors()]
        raise WorldforkError(f"{name} can not be registered:\n  " + "\n  ".join(lines)) from error


def _explain(detail: ErrorDetails) -> str:
    place = ".".join(str(part) for part in detail["loc"]) or "the file"
    if detail["type"] != "extra_forbidden":
        return f"{place}: {detail['msg']} (got {detail.get('input')!r:.80})"
    model: Any = records.Registration
    for part in detail["loc"][:-1]:
        model = model.model_fields[part].annotation if part in getattr(model, "model_fields", {}) else model
        inside = [argument for argument in getattr(model, "__args__", ()) if hasattr(argument, "model_fields")]
        model = inside[0] if inside else model
    known = ", ".join(sorted(field.alias or key for key, field in getattr(model, "model_fields", {}).items()))
    return f"{place}: not a known setting; known here: {known}"
