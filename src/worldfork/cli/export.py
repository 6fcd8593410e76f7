"""`worldfork export`: a study as one flat table, its figures for a tracker, or a copy small enough to pass on."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from worldfork.cli import options
from worldfork.counting import plural

if TYPE_CHECKING:
    import polars as pl

    from worldfork.analysis.score import Rules


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

    A .csv holds the means and the signals; .parquet and .jsonl hold the return of every episode too. Recorded costs
    are written as returns, with their sign turned; a note names the options with which `score` answers as before.
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
        rows, note = _write_table(study, output, kind, quiet=quiet or as_json)
        if note:
            typer.secho(f"Note: {note}", err=True, fg="yellow")
        record, text = {"kind": f"{kind}s", "rows": rows}, f"{plural(rows, kind)} in {output}."
    if as_json:
        options.print_json({"schema": "worldfork.export/1", "path": output, **record})
    else:
        typer.echo(text)


def _write_table(ledger: Path, path: Path, kind: str, *, quiet: bool) -> tuple[int, str]:
    """Write rows of one kind; return how many, and what a table of forks does not say of them."""
    from worldfork.analysis.read.files import write_frame
    from worldfork.analysis.read.frames import deployment_frame, flat_frame, recorded_frame
    from worldfork.analysis.read.study import failure_returns, read_rows
    from worldfork.analysis.score import Rules, score_ledger
    from worldfork.analysis.score.frames import values
    from worldfork.ledger.files import make_folders, writable
    from worldfork.ledger.recorded import RecordedLedger, is_recorded
    from worldfork.ledger.store import Study
    from worldfork.progress import bars

    if path.parent.exists():
        writable(path)  # before the work, not after it
    note = ""
    if kind == "figure":
        with bars(quiet=quiet, transient=True) as progress:
            frame = values(score_ledger(ledger, progress=progress))
    elif kind == "episode":
        frame = deployment_frame(Study(ledger))
    elif is_recorded(ledger):
        recorded = RecordedLedger(ledger)
        settings, frame = recorded.settings, recorded_frame(recorded)
        more, failure = settings.higher_is_better, settings.failure_return
        failures = {} if failure is None else {settings.task: failure if more else 0.0 - failure}
        turned = "" if more else "Costs were recorded: in the table they are returns, with their sign turned. "
        needed = _options(Rules(update_cost=settings.update_cost), frame, failures)
        note = f"{turned}{_left_out(path, needed)}".strip()
    else:
        study = Study(ledger)
        rows, rules = read_rows(study), Rules.registered(study.registration)
        frame = flat_frame(rows)
        note = _left_out(path, _options(rules, frame, failure_returns(study.registration, rows)))
    make_folders(path.parent)
    write_frame(frame, path)
    return len(frame), note


def _left_out(table: Path, options: list[str]) -> str:
    """Return a line on the rules that a table does not hold; empty where they are what `score` takes anyway."""
    command = " ".join(["worldfork score", str(table), *options])
    return f"A table does not hold how it is scored: `{command}` answers as the ledger does." if options else ""


def _options(rules: "Rules", frame: "pl.DataFrame", failures: Mapping[str, float]) -> list[str]:
    """Return the options of `score` that read the table as its ledger is read; `failures` are returns by task."""
    from worldfork.analysis.score import Rules

    usual, needed = Rules(), []
    if rules.update_cost:
        needed.append(f"--update-cost {rules.update_cost!r}")
    if rules.divergence != usual.divergence:
        needed.append("--no-divergence" if rules.divergence is None else f"--divergence {rules.divergence!r}")
    if rules.rate != usual.rate:
        needed.append(f"--rate {rules.rate!r}")
    failed = frame.filter(frame["r_hold"].is_null() | frame["r_update"].is_null())["task"].unique()
    counted = {task: value for task, value in failures.items() if task in failed}
    alike = len(set(counted.values())) == 1  # else no one option says it
    counts = [f"--failure-return {value!r}{'' if alike else f' in {task}'}" for task, value in counted.items()]
    return [*needed, *dict.fromkeys(counts)]


def _publish(study: Path, target: Path, *, streams: bool) -> int:
    """Copy what is whole, and return how many bytes that is; damage is not passed on."""
    from worldfork.errors import WorldforkError
    from worldfork.ledger.publish import publish
    from worldfork.ledger.store import Study
    from worldfork.ledger.verify import verify
    from worldfork.progress import silent

    if problems := verify(study, progress=silent).problems:
        raise WorldforkError(f"`{study}` is not what was written: {problems[0]} Run `worldfork verify {study}`.")
    opened, answers = Study(study), None
    if not streams:
        from worldfork.analysis.read.stream_answers import stream_answers

        answers = stream_answers(opened)
    return publish(opened, target, streams=streams, answers=answers)
