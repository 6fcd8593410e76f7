"""`worldfork run`: a registration in, a ledger out."""

from pathlib import Path

import typer

from worldfork.cli import options
from worldfork.counting import plural


def run(
    registration: options.Registration,
    output: Path = typer.Option(..., "-o", "--output", help="The study folder: new, or one to carry on with."),
    amend: str | None = typer.Option(None, help="Why the registration changed after rows existed; it is reported."),
    task: list[str] = typer.Option(
        [], help="Run this task only, and leave the others to a later run. May be repeated. Default: all."
    ),
    executor: options.ExecutorName = "local",
    workers: options.Workers = None,
    address: options.Address = None,
    setting: options.ExecutorSettings = [],
    no_probe: bool = typer.Option(
        False, "--no-probe", help="Skip the trial of agents, worlds and mechanisms that do not come with worldfork."
    ),
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Run a registration into a study folder, or carry on where an earlier run stopped.

    Example: worldfork run linear-quadratic -o runs/lq

    Every fork is one row, written whole or not at all. Interrupt it whenever you like: the same command resumes.
    """
    import worldfork as wf
    from worldfork.cli.interruptible import interruptible_bars

    with interruptible_bars("every finished row", quiet=quiet or as_json) as progress:
        wf.run(
            registration,
            output,
            executor=executor,
            workers=workers,
            settings=options.executor_settings(setting, address),
            amend=amend,
            tasks=task or None,
            probe=not no_probe,
            progress=progress,
            notify=options.print_note,
        )
    verdict = wf.verify(output)
    if as_json:
        counts = {"forks": verdict.rows, "registered": verdict.expected, "cells": verdict.cells}
        counts |= {"episodes_of_deployments": verdict.episodes, "complete": verdict.complete}
        options.print_json({"schema": "worldfork.run/1", "study": output, **counts})
        return
    followed = f" and {plural(verdict.episodes, 'episode')} of deployments" if verdict.expected_episodes else ""
    forks = f"{plural(verdict.rows, 'fork')} in {plural(verdict.cells, 'cell')}"
    if verdict.rows < verdict.expected:
        typer.echo(f"{forks} of {verdict.expected:,} forks: the other tasks are still to be run into {output}.")
    else:
        stopped = f", {verdict.stopping}" if verdict.stopping else ""
        typer.echo(f"{forks}{followed}{stopped}. Next: worldfork score {output}")
