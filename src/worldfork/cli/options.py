"""Options that several verbs have, so that they are spelled and mean the same everywhere."""

import functools
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from worldfork.errors import WorldforkError

AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object and nothing else, for a program; no progress bars.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bars or lines.")]

Registration = Annotated[
    str, typer.Argument(help="A registration's file, or the name of one that comes with worldfork.")
]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Processes that compute; this one writes. Default: one for each of several GPUs, else this alone; "
        "on Ray as many as there is room for.",
    ),
]
ExecutorName = Annotated[
    str, typer.Option(help="Where tasks are computed: local, ray, slurm, or module:attribute of your own.")
]
Address = Annotated[
    str | None, typer.Option(help="The Ray cluster. Default: RAY_ADDRESS, or one for this command.")
]
ExecutorSettings = Annotated[
    list[str],
    typer.Option(
        "--set", help="Another setting of the executor, such as deadline=600 or twice=20. May be repeated."
    ),
]
Threads = Annotated[int | None, typer.Option(min=1, help="CPU threads for physics; all of them by default.")]
Checkpoints = Annotated[
    list[str], typer.Argument(help="Checkpoints of one task: .safetensors files, or bundled:NAME.")
]
Precision = Annotated[str, typer.Option(help="float32, tf32, fp16 or bf16.")]

TriggerNames = Annotated[
    str | None, typer.Option("--triggers", help="Compare these triggers alone, separated by commas.")
]
LowerIsBetter = Annotated[
    bool,
    typer.Option("--lower-is-better", help="A flat table has costs, losses or latencies: signs are turned."),
]
FailureReturn = Annotated[
    float | None,
    typer.Option(
        help="What a missing or infinite return of a flat table counts as; without it such a row is refused."
    ),
]
UpdateCost = Annotated[
    float | None,
    typer.Option("--update-cost", min=0, help="Price of an update in return units; as registered, else 0."),
]
Columns = Annotated[
    str | None,
    typer.Option(help="Columns of a flat table under names of its own, with commas: seed=checkpoint,acc=r_hold."),
]
Seed = Annotated[int, typer.Option(min=0, help="Of every resampling.")]
Permutations = Annotated[int, typer.Option(min=1, help="Draws of each random control.")]


print_note = functools.partial(typer.echo, err=True)  # a sentence that is no part of the output


def print_json(record: dict[str, Any]) -> None:
    """Print a record as one line of JSON; a path as its text."""
    print(json.dumps(record, default=lambda value: str(value) if isinstance(value, Path) else value.item()))


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, caption: str = "") -> None:
    """Print a table whose first column names the rows."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, caption=caption)
    for column in columns:
        table.add_column(column, justify="left" if column == columns[0] else "right")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def columns_of(pairs: str | None) -> dict[str, str] | None:
    """Return {"seed": "checkpoint"} of "seed=checkpoint"."""
    if pairs is None:
        return None
    columns = dict(pair.strip().split("=", 1) for pair in pairs.split(",") if "=" in pair)
    if len(columns) != len(pairs.split(",")):
        raise WorldforkError(f"--columns takes THEIRS=OURS with commas, as in seed=checkpoint; got `{pairs}`.")
    return columns


def settings_of(given: Sequence[str]) -> dict[str, Any]:
    """Return settings from NAME=VALUE: a value is a number, true, false, null, or else a text."""
    settings: dict[str, Any] = {}
    for entry in given:
        name, equals, value = entry.partition("=")
        if not name or not equals:
            raise WorldforkError(f"--set takes NAME=VALUE, such as deadline=600; got `{entry}`.")
        try:
            settings[name] = json.loads(value)
        except ValueError:
            settings[name] = value
    return settings


def executor_settings(given: Sequence[str], address: str | None) -> dict[str, Any]:
    """Return the settings of an executor from --set and --address."""
    return settings_of(given) | ({} if address is None else {"address": address})
