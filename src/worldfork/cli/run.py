"""`worldfork run`: a registration in, a ledger out."""

from pathlib import Path

import typer

from worldfork.cli.executors import as_typed, log_to_stderr, settings_of
from worldfork.counting import plural


def run(
    registration: str = typer.Argument(help="A registration's file, or the name of one that comes with worldfork."),
    output: Path = typer.Option(..., "-o", "--output", help="The study folder: new, or one to carry on with."),
    amend: str | None = typer.Option(None, help="Why the registration changed after rows existed; it is reported."),
    task: list[str] = typer.Option(
        [], help="Run this task only, and leave the others to a later run. May be repeated. Default: all."
    ),
    executor: str = typer.Option(
        "local", help="Where tasks are computed: local, ray, slurm, or module:attribute of your own."
    ),
    workers: int | None = typer.Option(
        None,
        min=1,
        help="Processes that compute; this one writes. Default: one for each of several GPUs, else this alone; "
        "on Ray as many as there is room for.",
    ),
    address: str | None = typer.Option(None, help="The Ray cluster. Default: RAY_ADDRESS, or one for this run."),
    setting: list[str] = typer.Option(
        [], "--set", help="Another setting of the executor, such as deadline=600 or twice=20. May be repeated."
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
    from worldfork.cli.interruptible import interruptible
    from worldfork.progress import bars

    options = as_typed(executor, workers, address, setting)
    again = f"worldfork run {registration} -o {output}" + "".join(f" --task {name}" for name in task) + options
    settings = settings_of(setting) | ({} if address is None else {"address": address})
    with (
        interruptible(f"every finished row is kept. To carry on: {again}") as check,
        bars(quiet=quiet) as draw,
        log_to_stderr(),
    ):

        def progress(what: str, done: int, total: int) -> None:
            check()
            draw(what, done, total)

        wf.run(
            registration,
            output,
            executor=executor,
            workers=workers,
            settings=settings,
            amend=amend,
            tasks=task or None,
            probe=not no_probe,
            progress=progress,
            notify=lambda line: typer.echo(line, err=True),
        )
    verdict = wf.verify(output)
    followed = f" and {plural(verdict.episodes, 'episode')} of deployments" if verdict.expected_episodes else ""
    forks = f"{plural(verdict.rows, 'fork')} in {plural(verdict.cells, 'cell')}"
    if verdict.rows < verdict.expected:
        typer.echo(f"{forks} of {verdict.expected:,} forks: the other tasks are still to be run into {output}.")
        return
    stopped = f", {verdict.stopping}" if verdict.stopping else ""
    typer.echo(f"{forks}{followed}{stopped}. Next: worldfork score {output}")
