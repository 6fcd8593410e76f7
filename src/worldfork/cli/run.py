"""`worldfork run`: a registration in, a ledger out."""

import shlex
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

    again = f"worldfork run {registration} -o {output}" + "".join(f" --task {name}" for name in task)
    again += options.executor_as_typed(executor, workers, address, setting)
    again += "" if amend is None else f" --amend {shlex.quote(amend)}"
    flags = {"--no-probe": no_probe, "--json": as_json, "--quiet": quiet}
    again += "".join(f" {name}" for name, given in flags.items() if given)
    counted: dict[str, tuple[int, int]] = {}

    def interrupted() -> str:
        if counted and not task:  # rows of other tasks may be there
            # A signal may come between a row and its count.
            rows = sum(path.read_bytes().count(b"\n") for path in output.glob("cells/*/forks.jsonl"))
            counts = counted | ({"forks": (rows, counted["forks"][1])} if "forks" in counted else {})
            kept = " and ".join(f"{done:,} of {total:,} {what}" for what, (done, total) in counts.items()) + " are"
        else:
            kept = "every finished row is"
        return f"{kept} kept. To carry on: {again}"

    with interruptible_bars(interrupted, quiet=quiet or as_json) as draw:

        def progress(what: str, done: int, total: int) -> None:
            counted[what] = done, total
            draw(what, done, total)

        wf.run(
            registration,
            output,
            executor=executor,
            workers=workers,
            settings=options.settings_of(setting) | ({} if address is None else {"address": address}),
            amend=amend,
            tasks=task or None,
            probe=not no_probe,
            progress=progress,
            notify=lambda line: typer.echo(line, err=True),
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
