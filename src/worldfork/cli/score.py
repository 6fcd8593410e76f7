"""`worldfork score`: what updating was worth, and which triggers knew."""

from pathlib import Path
from typing import Any

import typer

from worldfork.cli import options


def score(
    ledger: Path = typer.Argument(
        help="A study (a folder, or NAME.tar.xz), a recorded ledger, or a flat table: .csv, .parquet, .jsonl."
    ),
    arm: str | None = typer.Option(None, help="Score this arm alone."),
    triggers: options.TriggerNames = None,
    contrast: str | None = typer.Option(None, help="Compare FIRST,SECOND; else as registered (docs/report.md)."),
    replication: Path | None = typer.Option(None, help="A ledger of the same cells on other stream seeds."),
    seed: options.Seed = 0,
    permutations: options.Permutations = 20_000,
    rate: float | None = typer.Option(None, help="Of the running quantile; as registered, else 0.3."),
    divergence: float | None = typer.Option(
        None, help="A fork diverged below this share of its cell's mean r_hold; as registered, else 0.3."
    ),
    no_divergence: bool = typer.Option(False, "--no-divergence", help="Switch the divergence rule off."),
    lower_is_better: options.LowerIsBetter = False,
    failure_return: options.FailureReturn = None,
    update_cost: options.UpdateCost = None,
    columns: options.Columns = None,
    as_json: options.AsJson = False,
    as_latex: bool = typer.Option(False, "--latex", help="Tables for a paper."),
    as_markdown: bool = typer.Option(False, "--markdown", help="Tables for a page."),
    as_csv: bool = typer.Option(False, "--csv", help="Tables for a spreadsheet; name one with --tables."),
    paper: bool = typer.Option(
        False,
        "--paper",
        help="Markdown tables with the paper's figures beside those of the arm that is set as its own.",
    ),
    only: str | None = typer.Option(
        None, "--tables", help="These tables alone, with commas: effects,arms. Markdown, unless --latex or --csv."
    ),
    verbose: bool = typer.Option(
        False,
        "--verbose",
        "-v",
        help="Also both estimands, fits, power, and every undefined figure with its reason.",
    ),
    fail_on: str | None = typer.Option(
        None, "--fail-on", help="Exit with 1 where a task has this verdict: harmful, helpful or unresolved; commas."
    ),
    quiet: options.Quiet = False,
) -> None:
    """Is updating harmful, helpful or unresolved, and which triggers beat a random one that fires as often?

    Example: worldfork score forks.csv

    The table has one row per fork: checkpoint, k, r_update, r_hold; where there are several, also task, direction,
    stream_seed, arm; optionally level, and any number of signal_NAME columns, each of which is scored as a trigger.

    In a pipeline: worldfork score forks.csv --fail-on harmful
    """
    import dataclasses
    import json

    from rich.console import Console

    from worldfork.analysis.present import render, tables
    from worldfork.analysis.present.summary import summarise
    from worldfork.analysis.present.text.answers import read_as
    from worldfork.analysis.read.ledger import open_ledger
    from worldfork.analysis.score.scoring import only_arm, score_ledger
    from worldfork.errors import WorldforkError
    from worldfork.ledger.pretraining import read_seeds
    from worldfork.progress import bars

    if as_json + as_latex + as_markdown + as_csv > 1 or (as_json and (paper or only)):
        raise WorldforkError(
            "Choose one of --json, --latex, --markdown, --csv; --paper and --tables go with the last three."
        )
    if divergence is not None and no_divergence:
        raise WorldforkError("--divergence sets the rule's fraction, --no-divergence switches it off: choose one.")
    tables.choose([], only)  # an unknown name is refused before the ledger is read
    refused = _verdicts(fail_on)
    given = {"rate": rate, "divergence": divergence, "triggers": triggers or None, "update_cost": update_cost}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    changes |= {"divergence": None} if no_divergence else {}
    changes |= {"seed": seed, "permutations": permutations}
    reading: dict[str, Any] = {"higher_is_better": not lower_is_better, "failure_return": failure_return}
    reading["columns"] = options.columns_of(columns)
    opened = open_ledger(ledger, **reading)
    with bars(quiet=quiet or as_json, transient=True) as progress:
        scored = score_ledger(opened, arm=arm, contrast=contrast, progress=progress, **changes)
    notes = list(scored.warnings)
    notes += [opened.recorder.statement] if opened.recorder is not None else []
    seeds = read_seeds(opened.study) if opened.study else []
    if as_json:
        trained = [dataclasses.asdict(seed) for seed in seeds]
        text = json.dumps({**scored.to_json(), "seeds": trained}, allow_nan=False)
    elif as_latex or as_markdown or as_csv or paper or only:
        repeated = None
        if replication:
            repeated = only_arm(open_ledger(replication, **reading))
        chosen = tables.choose(tables.all_tables(scored, replication=repeated, seeds=seeds, paper=paper), only)
        if lower_is_better:
            notes.append(read_as(scored)[0])
        if paper and tables.papers_arm(scored.registration, scored.arms) is None:
            notes.append("no arm here is set as the paper's primary one: its figures of that arm are left out.")
        if not chosen:
            notes.append(f"nothing here is of the kind that {only} shows.")
        write = render.latex if as_latex else render.csv if as_csv else render.markdown
        text = "\n".join(write(table) for table in chosen)
    else:
        text = ""
    for note in notes:
        typer.secho(f"Note: {note}", err=True, fg="yellow")
    if text:
        print(text)
    else:
        render.show(summarise(scored, verbose, seeds=seeds).blocks, Console())
    failing = [
        f"{arm} · {task}" if arm else task
        for arm, tasks in scored.arms.items()
        for task, figures in tasks.tasks.items()
        if figures.verdict in refused
    ]
    if failing:
        typer.echo(f"--fail-on {fail_on}: {', '.join(failing)}.", err=True)
        raise typer.Exit(1)


def _verdicts(fail_on: str | None) -> tuple[str, ...]:
    """Return the verdicts that end with exit code 1."""
    from worldfork.errors import WorldforkError

    names = tuple(name.strip() for name in fail_on.split(",")) if fail_on else ()
    verdicts = ("harmful", "helpful", "unresolved")
    if unknown := [name for name in names if name not in verdicts]:
        raise WorldforkError(f"--fail-on takes {', '.join(verdicts)}; got {', '.join(unknown)}.")
    return names
