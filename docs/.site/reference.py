"""Write the pages of the reference that are made from the code: `make reference`.

docs/registration.md comes from the records that read a registration, docs/commands.md from the verbs' options.
"""

import inspect
import re
from pathlib import Path

import typer

from worldfork.cli.main import VERBS, app
from worldfork.registration import reference

DOCS = Path(__file__).parents[1]


def pages() -> dict[str, str]:
    """Return every generated page by its file name."""
    return {"registration.md": reference.markdown(), "commands.md": commands()}


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


if __name__ == "__main__":
    for file, text in pages().items():
        (DOCS / file).write_text(text, encoding="utf-8")
