"""`worldfork template`: a flat table to fill in with forks from any other harness."""

from pathlib import Path

import typer

__all__ = ["template"]


def template(path: Path = typer.Argument(help="The table to write: .csv, .parquet or .jsonl.")) -> None:
    """Write a flat table with made-up rows, and say what its columns are. Put your forks in their place.

    Example: worldfork template my-forks.csv
    """
    from worldfork.analysis.read.table import COLUMNS, write_template

    write_template(path)
    width = max(map(len, COLUMNS))
    for name, meaning in COLUMNS.items():
        typer.echo(f"{name:<{width}}  {meaning}")
    typer.echo(f"{path} holds made-up rows. Replace them, then: worldfork score {path} and worldfork report {path}")
