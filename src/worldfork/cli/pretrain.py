"""`worldfork pretrain`: a recipe in, checkpoints with manifests out."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from worldfork.cli import options

if TYPE_CHECKING:
    from worldfork.lab.agents.pretraining.outcomes import Pretraining


def pretrain(
    recipe: str = typer.Argument(help="A pretraining recipe's file, or the name of one that comes with worldfork."),
    output: Path = typer.Option(
        ..., "-o", "--output", help="Folder for checkpoints, curves and the training state."
    ),
    executor: options.ExecutorName = "local",
    workers: options.Workers = None,
    address: options.Address = None,
    setting: options.ExecutorSettings = [],
    save_every: int = typer.Option(10, min=1, help="Episodes between saves of the training state."),
    threads: options.Threads = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Train checkpoints on clean physics: all seeds in one program, or group by group on many machines.

    Example: worldfork pretrain pretrain-demo -o runs/demo-checkpoints

    Workers train a group each, and a recipe's `seeds_per_group` makes groups. Interrupt it whenever you like: the
    same command resumes. Digits depend on how many seeds a program trains, which the recipe says, and not on
    executors and workers. With --quiet it says nothing about episodes either.
    """
    from worldfork.cli.interruptible import interruptible_bars
    from worldfork.lab.tools import pretraining
    from worldfork.progress import ignore

    quiet = quiet or as_json
    with interruptible_bars("what was saved", quiet=quiet) as progress:
        done = pretraining.pretrain(
            recipe,
            output,
            executor=executor,
            workers=workers,
            settings=options.executor_settings(setting, address),
            save_every=save_every,
            threads=threads,
            progress=progress,
            notify=ignore if quiet else options.print_note,
        )
    if as_json:
        seeds = [vars(seed) for seed in done.seeds]
        seconds = {"training_seconds": done.training_seconds, "evaluation_seconds": done.evaluation_seconds}
        kept = {"checkpoints": [str(path) for path in done.checkpoints], **seconds, "seeds": seeds}
        options.print_json({"schema": "worldfork.pretrain/1", "folder": output, **kept})
    else:
        _show(done)


def _show(done: "Pretraining") -> None:
    """Print a table with every seed, its returns and its checkpoint."""
    spent = f"{done.training_seconds:.0f} s of training, {done.evaluation_seconds:.0f} s of gate and report"
    rows = []
    for seed in done.seeds:
        fate = "rejected or spare" if seed.index is None else f"{seed.task}-{seed.index}"
        mean = sum(seed.returns) / len(seed.returns)
        rows.append((seed.task, str(seed.seed), f"{seed.gate:.1f}", f"{mean:.1f}", fate))
    columns = ("task", "seed", "gate", "reported", "checkpoint")
    options.print_table("Clean returns, planner only", columns, rows, caption=spent)
