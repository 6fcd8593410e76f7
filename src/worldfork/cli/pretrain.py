"""`worldfork pretrain`: a recipe in, checkpoints with manifests out."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from worldfork.lab.agents.rssm_cem.pretraining.job import Pretraining

__all__ = ["pretrain"]


def pretrain(
    recipe: str = typer.Argument(help="A pretraining recipe's file, or the name of one that comes with worldfork."),
    output: Path = typer.Option(
        ..., "-o", "--output", help="Folder for checkpoints, curves and the training state."
    ),
    minutes: float | None = typer.Option(None, min=0.1, help="Save and stop after so long; run again to go on."),
    save_every: int = typer.Option(10, min=1, help="Episodes between saves of the training state."),
    threads: int | None = typer.Option(None, min=1, help="CPU threads for physics; all of them by default."),
    quiet: bool = typer.Option(False, "--quiet", "-q", help="No progress bars, and nothing about episodes."),
) -> None:
    """Train checkpoints on clean physics: all seeds of all tasks of a recipe in one program.

    Example: worldfork pretrain pretrain-demo -o runs/demo-checkpoints

    Interrupt it whenever you like: the same command resumes from the last save.
    """
    from worldfork.cli.progress import bars
    from worldfork.lab.agents.rssm_cem.pretraining import job

    with bars(quiet=quiet) as progress:
        done = job.pretrain(
            recipe,
            output,
            minutes=minutes,
            save_every=save_every,
            threads=threads,
            progress=progress,
            notify=(lambda sentence: None) if quiet else (lambda sentence: typer.echo(sentence, err=True)),
        )
    if done is not None:
        _show(done)


def _show(done: "Pretraining") -> None:
    """Every seed's fate."""
    from rich.console import Console
    from rich.table import Table

    spent = f"{done.training_seconds:.0f} s of training, {done.evaluation_seconds:.0f} s of gate and report"
    table = Table(title="Clean returns, planner only", caption=spent)
    for column in ("task", "seed", "gate", "reported", "checkpoint"):
        table.add_column(column, justify="left" if column == "task" else "right")
    for seed in done.seeds:
        fate = "rejected or spare" if seed.index is None else f"{seed.task}-{seed.index}"
        mean = sum(seed.returns) / len(seed.returns)
        table.add_row(seed.task, str(seed.seed), f"{seed.gate:.1f}", f"{mean:.1f}", fate)
    Console().print(table)
