"""`worldfork run`: a registration in, a ledger out."""

from pathlib import Path

import typer

from worldfork.counting import plural

__all__ = ["run"]


def run(
    registration: str = typer.Argument(help="A registration's file, or the name of one that comes with worldfork."),
    output: Path = typer.Option(..., "-o", "--output", help="The study folder: new, or one to carry on with."),
    amend: str | None = typer.Option(None, help="Why the registration changed after rows existed; it is reported."),
    executor: str = typer.Option("local", help="Where tasks are computed: a name, or module:attribute."),
    workers: int | None = typer.Option(
        None,
        min=1,
        help="Processes that compute, a setting of the executor; this one writes. Default: this alone.",
    ),
    no_probe: bool = typer.Option(
        False, "--no-probe", help="Skip the trial of agents, worlds and mechanisms that do not come with worldfork."
    ),
    quiet: bool = typer.Option(False, "--quiet", "-q", help="No progress bars."),
) -> None:
    """Run a registration into a study folder, or carry on where an earlier run stopped.

    Example: worldfork run linear-quadratic -o runs/lq

    Every fork is one row, written whole or not at all. Interrupt it whenever you like: the same command resumes.
    """
    import worldfork as wf
    from worldfork.cli.interrupts import interruptible
    from worldfork.cli.progress import bars

    again = f"worldfork run {registration} -o {output}" + (f" --workers {workers}" if workers else "")
    with (
        interruptible(f"interrupted; every finished row is kept. To carry on: {again}") as check,
        bars(quiet=quiet) as draw,
    ):

        def progress(what: str, done: int, total: int) -> None:
            check()
            draw(what, done, total)

        wf.run(
            registration,
            output,
            executor=executor,
            workers=workers,
            amend=amend,
            probe=not no_probe,
            progress=progress,
            notify=lambda line: typer.echo(line, err=True),
        )
    verdict = wf.verify(output)
    followed = f" and {plural(verdict.episodes, 'episode')} of deployments" if verdict.expected_episodes else ""
    forks = f"{plural(verdict.rows, 'fork')} in {plural(verdict.cells, 'cell')}"
    typer.echo(f"{forks}{followed}. Next: worldfork score {output}")
