"""Write the pages of the reference that are made from the code: `make reference`.

docs/registration.md comes from the records that read a registration, docs/commands.md from the verbs' options.
"""

import inspect
import re
from pathlib import Path
from typing import Any

import typer

from worldfork.cli.main import VERBS, app
from worldfork.registration import reference

DOCS = Path(__file__).parents[1]


def pages() -> dict[str, str]:
    """Return every generated page by its file name."""
    return {"registration.md": keys(), "commands.md": commands()}


def keys() -> str:
    """Return the page with every key: a table for each table of the file."""
    lines = [
        "# Every key of a registration",
        "",
        "This page is made from the records that read a registration (`worldfork.registration.schema`).",
        "`worldfork new my-study.toml` writes a file that runs, with these keys in it. `worldfork new schema.json`",
        "writes a JSON schema: an editor that knows TOML completes and checks a file that begins with the line",
        "`#:schema schema.json`. A file may begin with `extends`, the path or the name of a registration: it",
        "keeps the keys of that where it names none.",
        "",
    ]
    for table, record in reference.TABLES.items():
        lines += [f"## {_heading(table)}", "", f"{inspect.getdoc(record)}", ""]
        lines += ["| key | holds | default | what it is for |", "|---|---|---|---|"]
        schema = record.model_json_schema(by_alias=True)
        for key in reference.keys_of(record):
            holds = _holds(schema["properties"].get(key.name, {}), schema)
            if table == "" and holds.startswith(("table", "list of tables")):
                continue  # a table of its own below
            default = "needed" if key.needed else f"`{key.default}`" if key.default else ""
            lines.append(f"| `{key.name}` | {holds} | {default} | {key.about.replace('|', ' or ')} |")
        lines.append("")
    return "\n".join(lines)


def commands() -> str:
    """Return a section for each verb: what it does, an example, its arguments and options."""
    lines = [
        "# Every command",
        "",
        "The option `--help` of each prints the same. `worldfork --install-completion` completes verbs and options",
        "in a shell. Exit codes: 0 done, 1 a check did not pass, 2 wrong use or bad input, 130 interrupted, 143",
        "ended by SIGTERM.",
        "",
        "With `--json` a verb prints one JSON object on standard output and nothing else. Notes stay on standard",
        "error. A long command draws progress bars, or writes a line a minute where standard error is no terminal;",
        "`--quiet` leaves both out.",
        "",
    ]
    group = typer.main.get_command(app)
    for name, verb in VERBS.items():
        said = inspect.getdoc(verb) or ""
        example = re.search(r"Example: (.+)", said)
        prose = re.sub(r"\n*Example: .+\n?", "\n", said).strip()
        lines += [f"## worldfork {name}", "", *prose.splitlines(), ""]
        if example:
            lines += ["```bash", example[1], "```", ""]
        rows = [row for parameter in group.commands[name].params if (row := _row(parameter))]
        lines += ["| argument or option | default | meaning |", "|---|---|---|", *rows, ""]
    return "\n".join(lines)


def _row(parameter: object) -> str:
    names = ", ".join((*parameter.opts, *parameter.secondary_opts))
    if "--help" in names:
        return ""
    argument = parameter.param_type_name == "argument"
    shown = str(parameter.name).upper() if argument else names
    default = parameter.default
    unsaid = default is None or isinstance(default, bool) or default == () or callable(default)
    needed = "needed" if parameter.required else "" if unsaid else f"`{default}`"
    meaning = " ".join((parameter.help or "").split()).replace("|", "or")
    return f"| `{shown}` | {needed} | {meaning} |"


def _heading(table: str) -> str:
    if not table:
        return "At the top"
    return f"[{table}]" if not table.startswith("[") else f"[[{table[1:].replace(']', ']]', 1)}"


def _holds(entry: dict[str, Any], schema: dict[str, Any]) -> str:
    """Return what a key holds, with its bounds, in words."""
    if "$ref" in entry:
        return _holds(schema["$defs"][entry["$ref"].rpartition("/")[2]], schema)
    if "anyOf" in entry:
        return " or ".join(_holds(kind, schema) for kind in entry["anyOf"] if kind != {"type": "null"})
    if "enum" in entry or "const" in entry:
        return " or ".join(f"`{value}`" for value in entry.get("enum", [entry.get("const")]))
    kind = entry.get("type")
    if kind == "array":
        inner = _holds(entry.get("items", {}), schema)
        many = "list of tables" if inner.startswith("table") else f"list: {inner}"
        return f"{many}, at least {entry['minItems']}" if entry.get("minItems") else many
    if kind in ("integer", "number"):
        bounds = [
            f"{word} {entry[name]:,}"
            for name, word in (
                ("minimum", "from"),
                ("exclusiveMinimum", "above"),
                ("maximum", "to"),
                ("exclusiveMaximum", "below"),
            )
            if name in entry
        ]
        return " ".join([{"integer": "whole number", "number": "number"}[kind], *bounds])
    if kind == "string":
        return "name" if "pattern" in entry else "text"
    return {"boolean": "true or false", "object": "table"}.get(str(kind), "value")


if __name__ == "__main__":
    for file, text in pages().items():
        (DOCS / file).write_text(text, encoding="utf-8")
