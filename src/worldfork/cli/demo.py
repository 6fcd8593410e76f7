"""`worldfork demo`: the whole instrument at a size a laptop can take."""

from pathlib import Path

import typer

__all__ = ["demo"]


def demo(
    output: Path | None = typer.Option(
        None, "-o", "--output", help="The study folder; else runs/demo, or runs/deployment-demo."
    ),
    deployment: bool = typer.Option(
        False, "--deployment", help="Follow four policies all the way instead: what they fire persists."
    ),
    quiet: bool = typer.Option(False, "--quiet", "-q", help="No progress bars."),
) -> None:
    """Fork a drifting cartpole at 36 decision points, score the updates, and write the page.

    Example: worldfork demo

    Three small pretrained world models are deployed while gravity drifts. At each decision point the deployment is
    forked into UPDATE and HOLD on the same episodes. The folder is a study like any other: `worldfork verify`,
    `score`, `report` and `export` take it.
    """
    import os

    from worldfork.cli.main import app

    command = typer.main.get_command(app)
    workers = str(min(2, os.cpu_count() or 1))  # blocks side by side: the same digits, sooner
    name = "deployment-demo" if deployment else "demo"
    folder = str(output or Path("runs") / name)
    run = ["run", name, "-o", folder, "--workers", workers, *(["--quiet"] if quiet else [])]
    for arguments in (run, ["verify", folder], ["score", folder], ["report", folder]):
        typer.secho(f"\n$ worldfork {' '.join(arguments)}", bold=True)
        if code := command.main(arguments, standalone_mode=False):
            raise typer.Exit(code)
