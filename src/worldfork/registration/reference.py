"""Keys of a registration, from its records: a JSON schema, and a file to begin with.

The explanation of a key is the comment beside its field, or above it: it is written once, where the field is.
"""

import dataclasses
import inspect
import json
import re
from collections.abc import Iterator
from typing import Any, Final

from worldfork.registration import policies, schema, stopping
from worldfork.validation import Record

# Table of a file -> the record that it is read into. Arms repeat [stream], [evaluation] and [mechanism].
TABLES: Final[dict[str, type[Record]]] = {
    "": schema.Registration,
    "grid": schema.Grid,
    "stream": schema.Stream,
    "evaluation": schema.Evaluation,
    "mechanism": schema.Mechanism,
    "[arms]": schema.Arm,
    "tasks.TASK": schema.Task,
    "execution": schema.Execution,
    "scoring": schema.Scoring,
    "[predictions]": schema.Prediction,
    "[predictions] premise": schema.Premise,
    "guess.TASK": schema.Guess,
    "deployment": policies.Deployment,
    "deployment.policies.POLICY": policies.RegisteredPolicy,
    "stopping": stopping.Stopping,
    "[stopping.questions]": stopping.Question,
}
POLICY: Final = "Policy"  # a registered policy, as an editor's schema calls it
FIELD: Final = re.compile(r"    (\w+): ")
MORE: Final = """
# What a study could detect (worldfork check): standard deviations of dR, guessed. Or --like LEDGER.
# [guess.linear_quadratic]
# checkpoint = 0.3
# fork = 0.5
# episode = 1.0

# Two arms share streams and episodes, so that they differ by what is set here and by nothing else:
# [[arms]]
# name = "full"
#
# [[arms]]
# name = "gentle"
# mechanism = { settings = { rate = 0.1 } }
"""


@dataclasses.dataclass(frozen=True)
class Key:
    """A key of a registration: its default and purpose."""

    name: str
    default: str  # as TOML spells it; "" where the key is needed or has none
    needed: bool
    about: str


def json_schema() -> str:
    """Return the JSON schema of a registration's file as people write it: `extends` may supply what is left out."""
    generated = json.dumps(schema.Registration.model_json_schema(by_alias=True))
    file = json.loads(generated.replace(policies.RegisteredPolicy.__name__, POLICY))
    definitions = file["$defs"] = dict(sorted(file["$defs"].items()))
    for entry in (file, *definitions.values()):
        entry.pop("required", None)
    for shared in ("Stream", "Evaluation", "Mechanism"):
        file["properties"][shared.lower()] = {"$ref": f"#/$defs/{shared}"}
    file["properties"]["extends"] = {"type": "string"}
    fraction = definitions["Scoring"]["properties"]["divergence_fraction"]
    fraction["anyOf"] = [*(kind for kind in fraction["anyOf"] if kind != {"type": "null"}), {"const": "off"}]
    named = {record.__name__: record for record in TABLES.values()} | {POLICY: policies.RegisteredPolicy}
    for name, entry in [("Registration", file), *definitions.items()]:
        for field, about in _comments(named[name]).items():
            alias = named[name].model_fields[field].alias or field
            entry["properties"][alias]["description"] = about
    return json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", **file}, indent=2) + "\n"


def annotated_example(name: str) -> str:
    """Return a registration that runs in seconds, without JAX; keys at their default are commented out."""
    stem = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "my-study"
    given = {
        "": {"schema": '"worldfork.registration/1"', "name": f'"{stem}"', "about": '"What does this study ask?"'},
        "grid": {
            "tasks": '["linear_quadratic"]  # worldfork list environments',
            "checkpoints": "[0, 1, 2, 3, 4, 5, 6, 7]  # fewer than 6 can not be resolved",
            "directions": '["toward", "away"]',
        },
        "stream": {"decision_points": "8", "drift_period": "400"},
        "evaluation": {"episodes": "10"},
        "mechanism": {"name": '"finetune"  # worldfork list mechanisms', "steps": "50", "window": "400"},
        "tasks.TASK": {
            "agent": '"linear_quadratic"  # worldfork list agents, or my_module:MyAgent',
            "checkpoints": '"generated"',
            "drift_scale": "4.0",
            "precision": '"float64"',
        },
    }
    lines = ["# Every key is explained at docs/registration.md; those that are commented out are at their default."]
    for table in ("", "grid", "stream", "evaluation", "mechanism", "tasks.TASK", "execution", "scoring"):
        if table:
            lines += ["", f"[{table.replace('TASK', 'linear_quadratic')}]"]
        for key in keys_of(TABLES[table]):
            if key.name in given.get(table, {}):
                lines.append(f"{key.name} = {given[table][key.name]}")
            elif table and key.default:
                lines.append(f"# {key.name} = {key.default}" + (f"  # {key.about}" if key.about else ""))
    return "\n".join([*lines, MORE])


def keys_of(record: type[Record]) -> Iterator[Key]:
    """Yield the keys of a record as a file spells them."""
    comments = _comments(record)
    for name, field in record.model_fields.items():
        yield Key(
            name=field.alias or name,
            default="" if field.is_required() or field.default is None else _toml(field.default),
            needed=field.is_required(),
            about=comments.get(name, ""),
        )


def _toml(value: Any) -> str:
    from worldfork.registration.reading import _value

    return "{}" if value == {} else _value(list(value) if isinstance(value, tuple) else value)


def _comments(record: type[Record]) -> dict[str, str]:
    """Return the comment of each field: the one on its line, or those on the lines above it."""
    comments: dict[str, str] = {}
    above: list[str] = []
    for line in inspect.getsource(record).splitlines():
        code, _, comment = line.partition("# ")
        if not code.strip():
            above += [comment] if comment else []
            continue
        about = " ".join([*above, comment]).strip()
        if about and (field := FIELD.match(code)) and field[1] in record.model_fields:
            comments[field[1]] = f"{about[0].upper()}{about[1:]}"
        above = []
    return comments
