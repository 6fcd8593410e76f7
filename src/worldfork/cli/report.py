"""`worldfork report`: a study as one page that opens from disk, as figures for a paper, or live while it runs."""

from pathlib import Path
from typing import Any

import typer

__all__ = ["report"]


def report(
    ledger: Path = typer.Argument(help="A study folder, or a flat table: .csv, .parquet, .jsonl."),
    output: Path | None = typer.Option(
        None, "-o", "--output", help="Where the page goes; STUDY/report/index.html, or TABLE.html beside a table."
    ),
    figures: Path | None = typer.Option(
        None, help="Write the paper's Figures 1 to 3 into this folder instead, as PDF and PNG."
    ),
    live: bool = typer.Option(
        False, "--live", help="Serve the page on this machine and refresh it as rows arrive."
    ),
    port: int = typer.Option(8765, min=0, max=65535, help="Of --live; 0 takes any free one."),
    seed: int = typer.Option(0, min=0, help="Of every resampling."),
    permutations: int = typer.Option(20_000, min=1, help="Draws of each random control."),
) -> None:
    """One self-contained page: verdicts, streams, forks, thresholds to drag, and the record of how it was made.

    Example: worldfork report runs/lq

    The page asks the network for nothing and can be sent to anyone.
    """
    import functools

    from worldfork.desk.page import page

    gather = functools.partial(_gather, seed=seed, permutations=permutations)
    if live:
        _serve(ledger, gather, port)
        return
    material = gather(ledger)
    if figures is not None:
        from worldfork.desk.figures import write_figures

        for path in write_figures(material.score, figures):
            typer.echo(str(path))
        return
    target = output or (ledger / "report" / "index.html" if ledger.is_dir() else ledger.with_suffix(".html"))
    page.write(material, target)
    typer.echo(f"{target} ({target.stat().st_size / 1e6:.1f} MB). Open it in a browser.")


def _gather(ledger: Path, *, seed: int, permutations: int) -> Any:
    """Read and score, with a progress bar where someone is watching."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from worldfork.desk.page.material import gather

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("reading", total=None)
        return gather(
            ledger,
            seed=seed,
            permutations=permutations,
            begin=lambda forks: progress.update(bar, description="scoring", total=forks),
            watch=lambda what: progress.update(bar, description=what),
            advance=lambda forks: progress.advance(bar, forks),
        )


def _serve(ledger: Path, gather: Any, port: int) -> None:
    from worldfork.desk.page.live import Watched, server
    from worldfork.errors import WorldforkError

    if not ledger.exists():
        raise WorldforkError(f"There is no `{ledger}`. Start the study first, or name a flat table.")
    with server(Watched(ledger, gather), port=port) as serving:
        typer.echo(f"http://127.0.0.1:{serving.server_port}/ shows {ledger} as it grows. Ctrl-C ends it.")
        try:
            serving.serve_forever()
        except KeyboardInterrupt:
            typer.echo("Closed.")
