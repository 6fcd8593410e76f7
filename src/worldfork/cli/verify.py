"""`worldfork verify`: is a study what was written?"""

from pathlib import Path

import typer

from worldfork.cli import options
from worldfork.counting import plural

NO_NUMBER = {"expected": None, "complete": None}  # of a recorded ledger, which registers none


def verify(
    study: Path = typer.Argument(help="A study (its folder, or its file NAME.tar.xz), or a recorded ledger."),
    show_root: bool = typer.Option(False, "--root", help="Print one line that stands for the whole ledger."),
    expected: str | None = typer.Option(
        None, "--expect", help="The root that the ledger should have, else exit with 1."
    ),
    partial: bool = typer.Option(False, "--partial", help="A study that is not finished yet also passes."),
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Check every chain, every digest and every pair, and name the first row of each cell that does not hold.

    Example: worldfork verify runs/lq

    With --root a study that passes is answered with its name, its registration and its root: publish that line, and
    `worldfork verify STUDY --expect ROOT` tells anyone whether a ledger is the one it was published for.

    A recorded ledger registers no number of forks: it passes as far as it goes, and its root is printed.

    Exit code 0: whole and complete. 1: damaged, not complete (unless --partial), of another root. 2: not a study.
    """
    import dataclasses

    from worldfork.ledger import verify as ledger
    from worldfork.progress import bars

    with bars(quiet=quiet or as_json) as progress:
        verdict = ledger.verify(study, progress=progress)
    passes = not verdict.problems and (verdict.complete or verdict.recorded or partial)
    asked = show_root or expected is not None
    identity = ledger.identity(study) if (asked or verdict.recorded) and passes else None
    root = identity[2] if identity is not None else None
    same = expected is None or root == expected
    if as_json:
        numbers = NO_NUMBER if verdict.recorded else {"complete": verdict.complete}
        options.print_json({**dataclasses.asdict(verdict), **numbers, "root": root, "passes": passes and same})
    elif identity is not None and asked:
        typer.echo("{}  registration {}  root {}".format(*identity))
        if not same:
            typer.echo(f"NOT THE SAME  expected the root {expected}")
    else:
        _show(verdict.problems, verdict.notes)
        count = len(verdict.problems)
        state = "complete" if verdict.complete else f"not complete: {verdict.expected} are registered"
        if verdict.stopping:
            state = f"{'complete' if verdict.complete else 'not complete'}: {verdict.stopping}"
        followed = ""
        if verdict.expected_episodes:
            followed = f"{verdict.episodes:,} of {plural(verdict.expected_episodes, 'episode')} of deployments, "
        forks = f"{plural(verdict.rows, 'fork')} in {plural(verdict.cells, 'cell')}"
        if verdict.recorded:
            ended = f"; root {root}" if root else ""
            typer.echo(f"As far as it goes: {forks}{ended}; {plural(count, 'problem')}.")
        else:
            typer.echo(f"{forks}, {followed}{state}; {plural(count, 'problem')}.")
        if count:
            typer.echo("Forks after a damaged one are not counted. Put the files that are named back from a copy.")
        elif verdict.recorded:
            typer.echo(f"A root that you kept tells if the last forks are there: verify {study} --expect ROOT")
        elif not verdict.complete:
            typer.echo("The same `worldfork run` carries on. --partial passes a study that is not finished yet.")
    if not passes or not same:
        raise typer.Exit(1)


def _show(problems: tuple[str, ...], notes: tuple[str, ...]) -> None:
    from worldfork.errors import printable

    for problem in problems:
        typer.echo(f"NOT AS WRITTEN  {printable(problem)}")
    for note in notes:
        typer.echo(printable(note))
