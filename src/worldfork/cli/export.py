"""`worldfork export`: a study as one flat table."""

from pathlib import Path

import typer

__all__ = ["export"]


def export(
    study: Path = typer.Argument(help="A study folder."),
    output: Path = typer.Option(..., "-o", "--output", help="A .csv, .parquet or .jsonl file."),
) -> None:
    """Write a study as a flat table, one row per fork, for any other tool; `worldfork score` reads it back.

    Example: worldfork export runs/lq -o forks.csv

    A .csv holds the means and the signals; .parquet and .jsonl hold the return of every episode too.
    """
    from worldfork.ledger import table
    from worldfork.ledger.store import Study

    frame = table.study_frame(Study(study))
    table.write(frame, output)
    typer.echo(f"{len(frame)} forks in {output}.")
