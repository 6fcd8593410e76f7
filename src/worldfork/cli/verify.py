"""`worldfork verify`: is a study what was written?"""

from pathlib import Path

import typer

__all__ = ["verify"]


def verify(
    study: Path = typer.Argument(help="A study folder."),
    partial: bool = typer.Option(False, "--partial", help="A study that is not finished yet also passes."),
    as_json: bool = typer.Option(False, "--json", help="The findings, for a program."),
) -> None:
    """Check every chain, every digest and every pair, and name the first row of each cell that does not hold.

    Example: worldfork verify runs/lq

    Exit code 0: whole and complete. 1: damaged, or not complete (unless --partial). 2: not a study.
    """
    import dataclasses
    import json

    from worldfork.cli.progress import bars
    from worldfork.ledger.verify import verify as check

    with bars(quiet=as_json) as report:
        verdict = check(study, progress=lambda done, total: report("cells", done, total))
    passes = not verdict.problems and (verdict.complete or partial)
    if as_json:
        print(json.dumps({**dataclasses.asdict(verdict), "complete": verdict.complete, "passes": passes}))
    else:
        for problem in verdict.problems:
            typer.echo(f"NOT AS WRITTEN  {problem}")
        for note in verdict.notes:
            typer.echo(note)
        state = "complete" if verdict.complete else f"not complete: {verdict.expected} are registered"
        typer.echo(f"{verdict.rows} forks in {verdict.cells} cells, {state}; {len(verdict.problems)} problems.")
    if not passes:
        raise typer.Exit(1)
