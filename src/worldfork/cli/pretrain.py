"""`worldfork pretrain`: a recipe in, checkpoints with manifests out."""

from pathlib import Path
from typing import Any

import typer

__all__ = ["pretrain"]


def pretrain(
    recipe: Path = typer.Argument(help="A pretraining recipe, such as registrations/pretrain-cartpole.toml."),
    output: Path = typer.Option(
        ..., "-o", "--output", help="Folder for checkpoints, curves and the training state."
    ),
    minutes: float | None = typer.Option(None, min=0.1, help="Save and stop after so long; run again to go on."),
    save_every: int = typer.Option(10, min=1, help="Episodes between saves of the training state."),
    threads: int | None = typer.Option(None, min=1, help="CPU threads for physics; all of them by default."),
    quiet: bool = typer.Option(False, "--quiet", "-q", help="No progress bars."),
) -> None:
    """Train checkpoints on clean physics: all seeds of all tasks of a recipe in one program.

    Example: worldfork pretrain registrations/pretrain-demo.toml -o runs/demo-checkpoints

    Interrupt it whenever you like: the same command resumes from the last save.
    """
    from worldfork.lab.determinism import pin_compiler

    pin_compiler()
    import dataclasses
    import time

    from worldfork.cli.training import training_bar
    from worldfork.errors import WorldforkError
    from worldfork.lab.agents.rssm_cem.pretraining import curves, harvest, loop, saving
    from worldfork.lab.agents.rssm_cem.pretraining.recipe import read_recipe
    from worldfork.lab.agents.rssm_cem.pretraining.worlds import Worlds

    plan = read_recipe(recipe)
    if (finished := saving.finished_recipe(output)) is not None:
        if finished != plan.digest:
            raise WorldforkError(
                f"{output} holds the checkpoints of another recipe ({finished[:12]}, not {plan.digest[:12]}). "
                "Choose another output folder."
            )
        typer.echo(f"{output} already holds the checkpoints of this recipe ({finished[:12]}); nothing to do.")
        return
    worlds = Worlds(plan, threads=threads)
    worlds.proofs()  # refuses here, before an hour is spent, if any physics is not clean
    with training_bar(plan.episodes, quiet=quiet) as report:
        trained = loop.pretrain(
            plan,
            worlds,
            folder=output,
            report=report,
            save_every=save_every,
            stop_after=None if minutes is None else 60.0 * minutes,
        )
    if trained is None:
        typer.echo(f"Saved after {minutes} minutes; run the same command to go on.")
        return
    output.mkdir(parents=True, exist_ok=True)
    curves.write_curves(trained.curves, output / "curves.jsonl")
    curves.draw_curves(trained.curves, output / "curves.png")
    began = time.monotonic()
    kept = harvest.harvest(plan, worlds, trained, output, report=lambda line: typer.echo(line, err=True))
    record: dict[str, Any] = {
        "recipe": plan.digest,
        "training_seconds": trained.seconds,
        "evaluation_seconds": time.monotonic() - began,
        "seeds": [dataclasses.asdict(one) for one in kept],
    }
    saving.finish(output, record)
    _table(kept, training=trained.seconds, evaluation=record["evaluation_seconds"])


def _table(kept: list[Any], *, training: float, evaluation: float) -> None:
    """Every seed's fate."""
    from rich.console import Console
    from rich.table import Table

    spent = f"{training:.0f} s of training, {evaluation:.0f} s of gate and report"
    table = Table(title="Clean returns, planner only", caption=spent)
    for column in ("task", "seed", "gate", "reported", "checkpoint"):
        table.add_column(column, justify="left" if column == "task" else "right")
    for one in kept:
        fate = "rejected or spare" if one.index is None else f"{one.task}-{one.index}"
        mean = sum(one.returns) / len(one.returns)
        table.add_row(one.task, str(one.seed), f"{one.gate:.1f}", f"{mean:.1f}", fate)
    Console().print(table)
