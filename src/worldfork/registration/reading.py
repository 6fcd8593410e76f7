"""Registrations as TOML: reading, completing, checking and writing them. A file may come from a stranger."""

import dataclasses
import json
import re
import tomllib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from worldfork.errors import WorldforkError, obeyed
from worldfork.registration import schema
from worldfork.registration.library import find, is_file
from worldfork.registration.schema import Registration
from worldfork.validation import Record, explain

AT_MOST: Final = 2**20  # characters; the longest registration of ours has 5,000
PARTS: Final = 32  # of one key; ours have four
# Python's parser takes time quadratic in the parts of a key: 50,000 of them keep it busy for minutes.
PART: Final = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
# No part begins behind a backslash: so a search does not begin anew at every escaped quote of a long text.
LONG_KEY: Final = re.compile(rf"(?<![\w\\-]){PART}(?:[ \t]*+\.[ \t]*+{PART}){{{PARTS}}}")


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
    """Return the tables as text that `tomllib` reads back to the same values.

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


SHARED = ("stream", "evaluation", "mechanism")
# The key that names a plug-in, the key of its settings, and the name's default.
SETTINGS = (
    ("agent", "settings", None),
    ("environment", "environment_settings", None),
    ("name", "settings", "finetune"),
    ("schedule", "schedule_settings", "ramp"),
    ("trigger", "settings", None),
)


@dataclasses.dataclass(frozen=True)
class Authored:
    """A registration with its text: as written, or completed with the file that it extends."""

    registration: schema.Registration
    text: str


def read(path: Path | str) -> schema.Registration:
    """Return the registration at `path`, completed and checked."""
    return read_authored(path).registration


def read_authored(path: Path | str) -> Authored:
    """Return the registration at `path` with the text that a study keeps."""
    path = Path(path)
    text = _text(path)
    given = _tables(text, str(path))
    if "extends" not in given:
        return Authored(_validated(_complete(given, str(path)), str(path)), text)
    merged = _without_unused_tasks(_extended(given, path, seen=(path.resolve(),)))
    text = f"# {path.name}, with what it extends filled in.\n{dumps(merged)}"
    return Authored(parse(text, name=str(path)), text)


def open_authored(registration: schema.Registration | Path | str) -> tuple[Authored, Path]:
    """Return a registration with its text, and the folder that its relative paths start from.

    `registration` is a record, a file, or the name of one that comes with worldfork.
    """
    if isinstance(registration, schema.Registration):
        return authored(registration), Path.cwd()
    path = find(registration)
    return read_authored(path), path.parent


def authored(registration: schema.Registration) -> Authored:
    """Return a registration that was made in Python, with a text that reads back to it."""
    tables = registration.model_dump(mode="json", by_alias=True, exclude_none=True)
    if registration.scoring.divergence_fraction is None:
        tables["scoring"]["divergence_fraction"] = "off"
    text = dumps(tables)
    assert parse(text) == registration
    return Authored(registration, text)


def parse(text: str, *, name: str = "registration") -> schema.Registration:
    """Return the registration of a text that extends no other."""
    given = _tables(text, name)
    if "extends" in given:
        raise WorldforkError(f"{name} extends another file: read it from where it lies.")
    return _validated(_complete(given, name), name)


def restore(canonical: str, *, name: str = "registration.json") -> schema.Registration:
    """Return the registration of a canonical JSON text; fields that it lacks are at their defaults."""
    return _validated(json.loads(canonical), name)


def difference(before: Any, after: Any, where: str = "") -> list[str]:
    """Return one readable line per leaf at which two JSON values differ.

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


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WorldforkError(f"A registration is a TOML file; `{path}` could not be read ({error}).") from error


def _tables(text: str, name: str) -> dict[str, Any]:
    given = loads(text, name=name, kind="a registration")
    if str(given.get("schema", "")).startswith("worldfork.pretraining/"):
        raise WorldforkError(f"{name} is a recipe for pretraining, not a registration: worldfork pretrain {name}")
    return given


def _extended(given: dict[str, Any], path: Path, *, seen: tuple[Path, ...]) -> dict[str, Any]:
    """Return the tables merged over those of the file that they extend."""
    named = given.pop("extends", None)
    if named is None:
        return given
    if not isinstance(named, str):
        raise WorldforkError(f"{path}: `extends` is the path or the name of a registration; got {named!r}.")
    beside = path.parent / named
    base = beside if is_file(beside) else find(named)
    if base.resolve() in seen:
        raise WorldforkError(f"{path} extends {base}, which extends it in turn.")
    below = _extended(_tables(_text(base), str(base)), base, seen=(*seen, base.resolve()))
    return _merged(below, given)


def _without_unused_tasks(tables: dict[str, Any]) -> dict[str, Any]:
    """Return the tables without those of tasks that no arm runs."""
    try:
        run = {task for table in (tables["grid"], *tables.get("arms", ())) for task in table.get("tasks", ())}
        kept = {**tables, "tasks": {name: table for name, table in tables["tasks"].items() if name in run}}
        scoring = dict(tables.get("scoring", {}))
        if edges := scoring.pop("contraction_edges", {}):
            scoring["contraction_edges"] = {name: values for name, values in edges.items() if name in run}
        return {**kept, "scoring": scoring} if scoring else kept
    except (AttributeError, KeyError, TypeError):
        return tables  # not the shape of a registration, which validation will explain


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    merged = _without_settings_of_another(below, above)
    for key, value in above.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if both else value
    return merged


def _without_settings_of_another(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Return `below` without the settings of plug-ins that `above` replaces by others."""
    another = {
        settings for key, settings, unsaid in SETTINGS if key in above and above[key] != below.get(key, unsaid)
    }
    return {key: value for key, value in below.items() if key not in another}


def _complete(given: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the tables with every arm in full."""
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
    _check_shared(shared, name)
    for arm in arms:
        for key in SHARED:
            if isinstance(arm.get(key, {}), dict):
                varied = arm.get(key, {})
                arm[key] = {**_without_settings_of_another(shared[key], varied), **varied}
        for key, default in (("tasks", []), ("stream_seeds", [0]), ("update_seeds", [0])):
            arm.setdefault(key, grid.get(key, default))
    scoring = given.get("scoring", {})
    if isinstance(scoring, dict) and scoring.get("divergence_fraction") == "off":
        scoring["divergence_fraction"] = None  # TOML has no null
    return {**given, "arms": arms}


def _check_shared(shared: dict[str, Any], name: str) -> None:
    """Raise for mistakes in shared tables once, under the table's name, and not once for every arm."""
    kinds: dict[str, type[Record]] = {
        "stream": schema.Stream,
        "evaluation": schema.Evaluation,
        "mechanism": schema.Mechanism,
    }
    lines = []
    for key, kind in kinds.items():
        try:
            kind.model_validate_json(json.dumps(shared[key], default=str))
        except ValidationError as error:
            lines += explain(error, kind, place=key)
    if lines:
        raise WorldforkError(f"{name} can not be registered:\n  " + "\n  ".join(lines))


def _texts(tables: dict[str, Any]) -> Iterator[str]:
    """Yield every key and every text, however deep."""
    waiting: list[Any] = [tables]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            waiting += [*value, *value.values()]
        elif isinstance(value, list):
            waiting += value


def _validated(complete: dict[str, Any], name: str) -> schema.Registration:
    for text in _texts(complete):
        if found := obeyed(text):
            raise WorldforkError(
                f"{name} can not be registered: {text!r:.80} has {found[0]!a}, which a terminal would obey. "
                "Remove it."
            )
    try:
        # By way of JSON, where strict means strict and arrays may still become tuples.
        return schema.Registration.model_validate_json(json.dumps(complete, default=str))
    except ValidationError as error:
        lines = explain(error, schema.Registration, also=SHARED)
        raise WorldforkError(f"{name} can not be registered:\n  " + "\n  ".join(lines)) from error


def only_tasks(registration: Registration, tasks: Collection[str]) -> Registration:
    """Return the registration restricted to `tasks`.

    Draws and block shapes are those of the whole study, and so are the rows; the registration's digest is another.
    """
    require_tasks(registration, tasks)
    if set(tasks) >= set(registration.tasks):
        return registration
    tables: dict[str, Any] = registration.model_dump(mode="json", by_alias=True)
    arms = [{**arm, "tasks": _kept(arm["tasks"], tasks)} for arm in tables["arms"]]
    tables["arms"] = [arm for arm in arms if arm["tasks"]]
    tables["grid"]["tasks"] = _kept(tables["grid"]["tasks"], tasks)
    tables["tasks"] = {name: table for name, table in tables["tasks"].items() if name in tasks}
    tables["guess"] = {name: table for name, table in tables["guess"].items() if name in tasks}
    scoring = tables["scoring"]
    scoring["contraction_edges"] = {n: edges for n, edges in scoring["contraction_edges"].items() if n in tasks}
    arm_names = {None, *(arm["name"] for arm in tables["arms"])}
    tables["predictions"] = [
        prediction
        for prediction in tables["predictions"]
        if {prediction["task"], (prediction["premise"] or {}).get("task") or prediction["task"]} <= set(tasks)
        and {prediction["arm"], prediction["against"]} <= arm_names
    ]
    if registration.stopping is not None:  # a question keeps its share of the error rate
        asked = tables["stopping"]["questions"]
        kept = [question for question in asked if question["task"] in tasks]
        tables["stopping"] |= {
            "questions": kept,
            "error_rate": registration.stopping.error_rate * len(kept) / len(asked),
        }
    return restore(json.dumps(tables), name=f"{registration.name}, restricted to {', '.join(tasks)}")


def require_tasks(registration: Registration, tasks: Collection[str]) -> None:
    """Raise unless the registration has all of these tasks."""
    if unknown := sorted(set(tasks) - set(registration.tasks)):
        raise WorldforkError(
            f"`{registration.name}` has no task {', '.join(map(repr, unknown))}; its tasks are "
            f"{', '.join(registration.tasks)}."
        )


def _kept(names: list[str], tasks: Collection[str]) -> list[str]:
    return [name for name in names if name in tasks]
