"""`worldfork export`: a study as one flat table, its figures for a tracker, or a copy small enough to pass on."""

from pathlib import Path
from typing import Any

import typer

from worldfork.cli import options
from worldfork.counting import plural


def export(
    study: Path = typer.Argument(help="A study; with --values also a flat table."),
    output: Path = typer.Option(
        ...,
        "-o",
        "--output",
        help="A .csv, .parquet or .jsonl file; with --publish a file NAME.tar.xz.",
    ),
    publish: bool = typer.Option(
        False, "--publish", help="Copy the study without models and windows: what `verify` and `score` need."
    ),
    without_streams: bool = typer.Option(
        False,
        "--without-streams",
        help="With --publish: leave out the log of every step, too, and keep what detectors answered on it.",
    ),
    deployments: bool = typer.Option(
        False, "--deployments", help="One row per policy, cell and episode of closed-loop deployments."
    ),
    values: bool = typer.Option(
        False, "--values", help="Write every figure of the score instead, as names and numbers, for a tracker."
    ),
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a study as a flat table, one row per fork, for any other tool; `worldfork score` reads it back.

    Example: worldfork export runs/lq -o forks.csv

    A .csv holds the means and the signals; .parquet and .jsonl hold the return of every episode too.
    """
    if publish + values + deployments > 1:
        raise typer.BadParameter("--publish, --values and --deployments write different things: choose one.")
    if without_streams and not publish:
        raise typer.BadParameter("--without-streams says what a published copy leaves out: add --publish.")
    if publish:
        size = _publish(study, output, streams=not without_streams)
        without = "models, windows and streams" if without_streams else "models and windows"
        record: dict[str, Any] = {"kind": "copy", "bytes": size}
        text = f"{output} ({size / 1e6:.1f} MB, without {without}). `worldfork verify {output}` takes it."
    else:
        kind = "figure" if values else "episode" if deployments else "fork"
        rows = _write_table(study, output, kind, quiet=quiet or as_json)
        record, text = {"kind": f"{kind}s", "rows": rows}, f"{plural(rows, kind)} in {output}."
    if as_json:
        options.print_json({"schema": "worldfork.export/1", "path": output, **record})
    else:
        typer.echo(text)


def _write_table(ledger: Path, path: Path, kind: str, *, quiet: bool) -> int:
    """Write rows of one kind, and return how many."""
    from worldfork.analysis.read import deployment_frame, recorded_frame, study_frame, write_frame
    from worldfork.analysis.score import score_ledger
    from worldfork.analysis.score.frames import values
    from worldfork.ledger.files import writable
    from worldfork.ledger.recorded import RecordedLedger, is_recorded
    from worldfork.ledger.store import Study
    from worldfork.progress import bars

    writable(path)  # before the work, not after it
    if kind == "figure":
        with bars(quiet=quiet, transient=True) as progress:
            frame = values(score_ledger(ledger, progress=progress))
    elif kind == "episode":
        frame = deployment_frame(Study(ledger))
    else:
        frame = recorded_frame(RecordedLedger(ledger)) if is_recorded(ledger) else study_frame(Study(ledger))
    write_frame(frame, path)
    return len(frame)


def _publish(study: Path, target: Path, *, streams: bool) -> int:
    """Copy what is whole, and return how many bytes that is; damage is not passed on."""
    from worldfork.errors import WorldforkError
    from worldfork.ledger.publish import publish
    from worldfork.ledger.store import Study
    from worldfork.ledger.verify import verify

    if problems := verify(study).problems:
        raise WorldforkError(f"`{study}` is not what was written: {problems[0]} Run `worldfork verify {study}`.")
    opened, answers = Study(study), None
    if not streams:
        from worldfork.analysis.read.stream_answers import stream_answers

        answers = stream_answers(opened)
    return publish(opened, target, streams=streams, answers=answers)
