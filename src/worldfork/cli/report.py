"""`worldfork report`: a study as one page that opens from disk, as figures for a paper, or live while it runs."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from worldfork.cli import options

if TYPE_CHECKING:
    from collections.abc import Callable

    from worldfork.analysis.present.page import Material


def report(
    ledgers: list[Path] = typer.Argument(
        help="Studies: folders or NAME.tar.xz; or flat tables: .csv, .parquet, .jsonl."
    ),
    output: Path | None = typer.Option(
        None,
        "-o",
        "--output",
        help="A file or a folder; else STUDY/report/index.html, or NAME.html beside a file. Of several, the "
        "index of them.",
    ),
    figures: Path | None = typer.Option(
        None, help="Write the paper's Figures 1 to 3 into this folder instead, as PDF and PNG."
    ),
    live: bool = typer.Option(
        False, "--live", help="Serve the page on this machine and refresh it as rows arrive."
    ),
    port: int = typer.Option(8765, min=0, max=65535, help="Of --live; 0 takes any free one."),
    triggers: options.TriggerNames = None,
    lower_is_better: options.LowerIsBetter = False,
    failure_return: options.FailureReturn = None,
    update_cost: options.UpdateCost = None,
    columns: options.Columns = None,
    seed: options.Seed = 0,
    permutations: options.Permutations = 20_000,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Write the page: verdicts, streams, forks, thresholds to drag, and the record of how the ledger was made.

    Example: worldfork report runs/lq

    The page asks the network for nothing and can be sent to anyone. Of several ledgers an index is written, one
    line per study, and a page each beside it: worldfork report results/demo results/corrected -o pages/index.html
    One that can not be read is named at the end, when the others are written, with exit code 2.
    """
    from worldfork.analysis.present.page import Material, default_place, gather, page_name, render, write_index
    from worldfork.errors import WorldforkError
    from worldfork.ledger.archive import locate
    from worldfork.progress import bars, ignore

    ledgers = [locate(ledger) for ledger in ledgers]
    priced = {} if update_cost is None else {"update_cost": update_cost}

    def scored(ledger: Path) -> Material:
        with bars(quiet=quiet or as_json, transient=True) as progress:
            return gather(
                ledger,
                seed=seed,
                permutations=permutations,
                triggers=triggers,
                higher_is_better=not lower_is_better,
                failure_return=failure_return,
                columns=options.columns_of(columns),
                progress=progress,
                **priced,
            )

    if live and as_json:
        raise WorldforkError("--live serves until it is ended and --json prints when all is done: choose one.")
    if len(ledgers) > 1 and (live or figures is not None):
        raise WorldforkError("--live and --figures show one ledger; several go into an index: -o pages/index.html")
    if len(ledgers) > 1 and output is None:
        raise WorldforkError("Where do the index and the pages go? Name the index: -o pages/index.html")
    ledger = ledgers[0]
    if live:
        _serve(ledger, scored, port)
        return
    if figures is not None:
        from worldfork.analysis.present.figures import write_figures

        paths = list(write_figures(scored(ledger).score, figures))
        text = "\n".join(map(str, paths))
    elif len(ledgers) > 1:
        assert output is not None
        target = output / "index.html" if _is_folder(output) else output
        # A terminal has bars; a file or a pipe gets a line for each page.
        lines = not (quiet or as_json or sys.stderr.isatty())
        write_index(ledgers, target, scored, notify=options.print_note if lines else ignore)
        paths = [target, *(target.with_name(f"{page_name(each)}.html") for each in ledgers)]
        text = f"{target}: {len(ledgers)} ledgers, and a page each. Open it in a browser."
    else:
        place = output or default_place(ledger)
        assert place is not None  # only a data frame has none
        if _is_folder(place):
            place /= "index.html" if ledger.is_dir() else f"{page_name(ledger)}.html"
        page = render(scored(ledger)).save(place)
        paths = [place]
        text = f"{place} ({len(page.html.encode()) / 1e6:.1f} MB). Open it in a browser."
    if as_json:
        written = [{"path": str(path), "bytes": path.stat().st_size} for path in paths]
        options.print_json({"schema": "worldfork.report/1", "ledgers": [*map(str, ledgers)], "written": written})
    else:
        typer.echo(text)


def _is_folder(path: Path) -> bool:
    """Return True also of a folder that is not there yet: a page that a browser opens has an ending."""
    return path.is_dir() or not path.suffix


def _serve(ledger: Path, scored: "Callable[[Path], Material]", port: int) -> None:
    from worldfork.analysis.present.page import Watched, server
    from worldfork.errors import WorldforkError

    if not ledger.exists():
        raise WorldforkError(f"There is no `{ledger}`. Start the study first, or name a flat table.")
    with server(Watched(ledger, scored), port=port) as serving:
        typer.echo(f"http://127.0.0.1:{serving.server_port}/ shows {ledger} as it grows. Ctrl-C ends it.")
        try:
            serving.serve_forever()
        except KeyboardInterrupt:
            typer.echo("Closed.")
