"""`worldfork run`: a registration in, a ledger out."""

from pathlib import Path

import typer

__all__ = ["run"]


def run(
    registration: str = typer.Argument(help="A registration's file, or the name of one that comes with worldfork."),
    output: Path = typer.Option(..., "-o", "--output", help="The study folder: new, or one to carry on with."),
    amend: str | None = typer.Option(None, help="Why the registration changed after rows existed; it is reported."),
    workers: int = typer.Option(1, min=1, help="Processes that compute; this one writes. No digit depends on it."),
    quiet: bool = typer.Option(False, "--quiet", "-q", help="No progress bars."),
) -> None:
    """Run a registration into a study folder, or carry on where an earlier run stopped.

    Example: worldfork run linear-quadratic -o runs/lq

    Every fork is one row, written whole or not at all. Interrupt it whenever you like: the same command resumes.
    """
    from worldfork.lab.determinism import pin_compiler

    pin_compiler()
    from worldfork.cli.interrupts import interruptible
    from worldfork.cli.progress import bars
    from worldfork.executors.local import local
    from worldfork.lab import run as study
    from worldfork.ledger.verify import verify
    from worldfork.registration.library import find

    path = find(registration)
    again = f"worldfork run {registration} -o {output}"
    with (
        interruptible(f"interrupted; every finished row is kept. To carry on: {again}") as check,
        bars(quiet=quiet) as draw,
    ):

        def report(what: str, done: int, total: int) -> None:
            check()
            draw(what, done, total)

        study.run(
            path,
            output,
            amend=amend,
            execute=local(workers),
            report=report,
            say=lambda line: typer.echo(line, err=True),
        )
    verdict = verify(output)
    typer.echo(f"{verdict.rows} forks in {verdict.cells} cells. Next: worldfork score {output}")
