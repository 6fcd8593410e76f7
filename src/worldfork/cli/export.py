"""`worldfork export`: a study as one flat table, its figures for a tracker, or a copy small enough to pass on."""

from pathlib import Path

import typer

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
    quiet: bool = typer.Option(False, "--quiet", "-q", help="No progress bars."),
) -> None:
    """Write a study as a flat table, one row per fork, for any other tool; `worldfork score` reads it back.

    Example: worldfork export runs/lq -o forks.csv

    A .csv holds the means and the signals; .parquet and .jsonl hold the return of every episode too.
    """
    from worldfork.ledger.store import Study

    if publish + values + deployments > 1:
        raise typer.BadParameter("--publish, --values and --deployments write different things: choose one.")
    if without_streams and not publish:
        raise typer.BadParameter("--without-streams says what a published copy leaves out: add --publish.")
    if publish:
        _publish(study, output, streams=not without_streams)
        return
    from worldfork.ledger.files import writable

    writable(output)  # before the work, not after it
    if values:
        _values(study, output, quiet=quiet)
        return
    from worldfork.analysis.read import deployment_frame, recorded_frame, study_frame, write_frame
    from worldfork.ledger.recorded import RecordedLedger, is_recorded

    if is_recorded(study) and not deployments:
        frame = recorded_frame(RecordedLedger(study))
    else:
        frame = deployment_frame(Study(study)) if deployments else study_frame(Study(study))
    write_frame(frame, output)
    typer.echo(f"{len(frame)} {'episodes' if deployments else 'forks'} in {output}.")


def _values(ledger: Path, path: Path, *, quiet: bool) -> None:
    from worldfork.analysis.read import write_frame
    from worldfork.analysis.score import score_ledger
    from worldfork.analysis.score.frames import values
    from worldfork.progress import bars

    with bars(quiet=quiet, transient=True) as progress:
        frame = values(score_ledger(ledger, progress=progress))
    write_frame(frame, path)
    typer.echo(f"{plural(len(frame), 'figure')} in {path}.")


def _publish(study: Path, target: Path, *, streams: bool) -> None:
    """Copy what is whole; damage is not passed on."""
    from worldfork.errors import WorldforkError
    from worldfork.ledger.publish import publish
    from worldfork.ledger.store import Study
    from worldfork.ledger.verify import verify

    if problems := verify(study).problems:
        raise WorldforkError(f"`{study}` is not what was written: {problems[0]} Run `worldfork verify {study}`.")
    opened, answers = Study(study), None
    without = "models and windows"
    if not streams:
        from worldfork.analysis.read.stream_answers import stream_answers

        answers, without = stream_answers(opened), "models, windows and streams"
    written = publish(opened, target, streams=streams, answers=answers)
    typer.echo(f"{target} ({written / 1e6:.1f} MB, without {without}). `worldfork verify {target}` takes it.")
