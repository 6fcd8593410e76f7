"""`worldfork calibrate-drift`: how far a task drifts, chosen by a rule that looks at the frozen agent alone."""

from pathlib import Path
from typing import Any

import typer

__all__ = ["calibrate_drift"]


def calibrate_drift(
    checkpoints: list[Path] = typer.Argument(help="Checkpoints (.safetensors) of one task."),
    episodes: int = typer.Option(20, min=1, help="Episodes per checkpoint and scale."),
    output: Path | None = typer.Option(None, "-o", "--output", help="Folder for drift-scale-<task>.json and .png."),
    precision: str = typer.Option("tf32", help="float32, tf32, fp16 or bf16."),
    threads: int | None = typer.Option(None, min=1, help="CPU threads for physics; all of them by default."),
    as_json: bool = typer.Option(False, "--json", help="Print the record instead of the table."),
    quiet: bool = typer.Option(False, "--quiet", "-q", help="No progress bars."),
) -> None:
    """Frozen return against drift scale, and the scale that the registered rule chooses.

    Example: worldfork calibrate-drift checkpoints/walker-walk-*.safetensors -o results/drift

    The rule: the first scale of the task's grid at which the checkpoints' mean return falls to half of its clean
    value; where none does, the end of the grid. It never looks at what an update would do.
    """
    from worldfork.lab.determinism import pin_compiler

    pin_compiler()
    import json

    from worldfork.cli.progress import bars
    from worldfork.lab.agents.rssm_cem.deployment import deploy
    from worldfork.lab.tools.drift_scale import GRIDS, frozen_returns, registered_scale

    deployed = deploy(checkpoints, precision=precision, threads=threads)
    task = deployed.environment.name
    with bars(quiet=quiet) as report:
        returns = frozen_returns(
            deployed.agent,
            task,
            deployed.parameters,
            checkpoints=deployed.names,
            episodes=episodes,
            threads=threads,
            report=lambda done, total: report("scales", done, total),
        )
    means = returns.mean(axis=2)
    record: dict[str, Any] = {
        "schema": "worldfork.drift-scale/1",
        "task": task,
        "parameter": deployed.environment.parameter,
        "grid": list(GRIDS[task]),
        "returns": means.tolist(),
        "mean": means.mean(axis=1).tolist(),
        "scale": registered_scale(GRIDS[task], means.mean(axis=1)),
        "episodes": episodes,
        "checkpoints": deployed.digests,
        "precision": precision,
        "device": deployed.agent.device,
    }
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        (output / f"drift-scale-{task}.json").write_text(json.dumps(record, indent=1) + "\n")
        _draw(record, output / f"drift-scale-{task}.png")
    if as_json:
        typer.echo(json.dumps(record))
    else:
        _table(record)


def _table(record: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{record['task']}: frozen return against {record['parameter']} (x nominal)")
    for column in ("scale", "mean", "of clean", *(f"checkpoint {n}" for n in range(len(record["returns"][0])))):
        table.add_column(column, justify="right")
    for scale, mean, each in zip(record["grid"], record["mean"], record["returns"], strict=True):
        mark = "  <-" if scale == record["scale"] else ""
        share = f"{mean / record['mean'][0]:.2f}"
        table.add_row(f"{scale:g}", f"{mean:.1f}", share + mark, *(f"{value:.0f}" for value in each))
    Console().print(table)
    typer.echo(f"Registered scale for {record['task']}: drift_scale = {record['scale']:g}")


def _draw(record: dict[str, Any], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.4, 3.4), layout="constrained")
    axis = figure.subplots()
    for each in zip(*record["returns"], strict=True):
        axis.plot(record["grid"], each, color="0.75", linewidth=1)
    axis.plot(record["grid"], record["mean"], color="#0072b2", marker="o", label="mean of checkpoints")
    axis.axhline(record["mean"][0] / 2, color="#d55e00", linestyle="--", label="half of the clean return")
    axis.axvline(record["scale"], color="0.3", linestyle=":", label=f"registered: {record['scale']:g}")
    axis.set_xlabel(f"{record['parameter']} (multiple of nominal)")
    axis.set_ylabel(f"return (mean of {record['episodes']} episodes)")
    axis.set_title(f"{record['task']}, frozen, n = {len(record['returns'][0])} checkpoints")
    axis.legend(fontsize=8)
    figure.savefig(path, dpi=150)
