"""`worldfork pretrain`: a recipe in, checkpoints with manifests out."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from worldfork.cli.executors import as_typed, log_to_stderr, settings_of

if TYPE_CHECKING:
    from worldfork.lab.agents.pretraining.outcomes import Pretraining


def pretrain(
    recipe: str = typer.Argument(help="A pretraining recipe's file, or the name of one that comes with worldfork."),
    output: Path = typer.Option(
        ..., "-o", "--output", help="Folder for checkpoints, curves and the training state."
    ),
    executor: str = typer.Option(
        "local", help="Where groups are trained: local, ray, slurm, or module:attribute of your own."
    ),
    workers: int | None = typer.Option(
        None, min=1, help="Processes that train a group each; a recipe's `seeds_per_group` makes groups."
    ),
    address: str | None = typer.Option(None, help="The Ray cluster. Default: RAY_ADDRESS, or one for this run."),
    setting: list[str] = typer.Option(
        [], "--set", help="Another setting of the executor, such as gpus=1 or twice=2. May be repeated."
    ),
    save_every: int = typer.Option(10, min=1, help="Episodes between saves of the training state."),
    threads: int | None = typer.Option(None, min=1, help="CPU threads for physics; all of them by default."),
    quiet: bool = typer.Option(False, "--quiet", "-q", help="No progress bars, and nothing about episodes."),
) -> None:
    """Train checkpoints on clean physics: all seeds in one program, or group by group on many machines.

    Example: worldfork pretrain pretrain-demo -o runs/demo-checkpoints

    Interrupt it whenever you like: the same command resumes. Digits depend on how many seeds a program trains,
    which the recipe says (`seeds_per_group`), and not on executors and workers.
    """
    from worldfork.cli.interruptible import interruptible
    from worldfork.lab.tools import pretraining
    from worldfork.progress import bars

    again = f"worldfork pretrain {recipe} -o {output}" + as_typed(executor, workers, address, setting)
    settings = settings_of(setting) | ({} if address is None else {"address": address})
    with (
        interruptible(f"what was saved is kept. To carry on: {again}") as check,
        bars(quiet=quiet) as draw,
        log_to_stderr(),
    ):

        def progress(what: str, done: int, total: int) -> None:
            check()
            draw(what, done, total)

        done = pretraining.pretrain(
            recipe,
            output,
            executor=executor,
            workers=workers,
            settings=settings,
            save_every=save_every,
            threads=threads,
            progress=progress,
            notify=(lambda sentence: None) if quiet else (lambda sentence: typer.echo(sentence, err=True)),
        )
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
