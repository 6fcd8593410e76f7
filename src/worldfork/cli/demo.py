"""`worldfork demo`: the whole instrument at a size a laptop can take."""

from pathlib import Path

import typer

__all__ = ["demo"]


def demo(
    output: Path = typer.Option(Path("runs/demo"), "-o", "--output", help="The study folder."),
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
    run = ["run", "demo", "-o", str(output), "--workers", workers, *(["--quiet"] if quiet else [])]
    for arguments in (run, ["verify", str(output)], ["score", str(output)], ["report", str(output)]):
        typer.secho(f"\n$ worldfork {' '.join(arguments)}", bold=True)
        if code := command.main(arguments, standalone_mode=False):
            raise typer.Exit(code)
