"""`worldfork new`: a file to begin with, for a study or for a table of one's own."""

from pathlib import Path

import typer


def new(
    path: Path = typer.Argument(
        help="The file to write: .toml for a registration, .csv, .parquet or .jsonl for a table of forks, .json "
        "for the JSON schema of registrations, which editors use."
    ),
) -> None:
    """Write a registration to edit, with every setting explained, or a table to fill in with forks of your own.

    Example: worldfork new my-study.toml

    A registration is what `worldfork check` and `worldfork run` take; a table is what `worldfork score` takes.
    """
    from worldfork.errors import WorldforkError
    from worldfork.ledger import files

    if path.suffix in (".csv", ".parquet", ".jsonl"):
        _table(path)
        return
    if path.suffix not in (".toml", ".json"):
        raise WorldforkError(
            f"Its ending says what to write: .toml, .csv, .parquet, .jsonl or .json; got `{path}`."
        )
    if path.exists():
        raise WorldforkError(f"`{path}` is there already. Choose another name: nothing is overwritten.")
    files.writable(path)
    if path.suffix == ".json":
        from worldfork.registration.reference import json_schema

        files.replace(path, json_schema().encode())
        typer.echo(f'{path}: name it in the first line of a registration, as in "#:schema {path.name}".')
        return
    from worldfork.registration.reference import annotated_example

    files.replace(path, annotated_example(path.stem).encode())
    typer.echo(
        f"{path} runs as it is. Edit it, then: worldfork check {path} and worldfork run {path} -o runs/{path.stem}"
    )


def _table(path: Path) -> None:
    from worldfork.analysis.read.table import COLUMNS, write_template

    write_template(path)
    width = max(map(len, COLUMNS))
    for name, meaning in COLUMNS.items():
        typer.echo(f"{name:<{width}}  {meaning}")
    typer.echo(f"{path} holds made-up rows. Replace them, then: worldfork score {path} and worldfork report {path}")
