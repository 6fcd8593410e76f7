"""`worldfork dataset`: studies as Parquet tables that anything reads, with a data card."""

from pathlib import Path

import typer

from worldfork.cli import options


def dataset(
    studies: list[Path] = typer.Argument(help="Studies: folders, or NAME.tar.xz."),
    output: Path = typer.Option(..., "-o", "--output", help="The new folder."),
    streams: list[Path] | None = typer.Option(
        None, help="Folder with streams that copies leave out; those that the rows have the digest of are taken."
    ),
    as_json: options.AsJson = False,
) -> None:
    """Write forks, cells, folds and streams of studies as Parquet, for datasets, polars or pandas.

    Example: worldfork dataset results/power-cartpole results/judge-cartpole -o forks
    """
    from worldfork.benchmark import write
    from worldfork.errors import WorldforkError
    from worldfork.ledger.store import Study

    if output.exists() and any(output.iterdir()):
        raise WorldforkError(f"`{output}` is not empty: a data set has a folder of its own.")
    data = write([Study(path) for path in studies], output, streams=streams or ())
    size = sum(path.stat().st_size for path in output.iterdir())
    counts = {"forks": data.forks.height, "streams": data.streams["stream"].n_unique(), "bytes": size}
    if as_json:
        options.print_json({"schema": "worldfork.dataset/1", "folder": output, **counts})
        return
    typer.echo(
        f"{output}: {counts['forks']:,} forks, {counts['streams']:,} streams, {size / 1e6:.1f} MB. README.md says "
        "what each column is."
    )
