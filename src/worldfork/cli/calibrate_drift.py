"""`worldfork calibrate-drift`: how far a task drifts, chosen by a rule that looks at the frozen agent alone."""

from pathlib import Path
from typing import Any

import typer

from worldfork.cli import options


def calibrate_drift(
    checkpoints: options.Checkpoints,
    episodes: int = typer.Option(20, min=1, help="Episodes per checkpoint and scale."),
    output: Path | None = typer.Option(None, "-o", "--output", help="Folder for drift-scale-<task>.json and .png."),
    precision: options.Precision = "tf32",
    threads: options.Threads = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Frozen return against drift scale, and the scale that the registered rule chooses.

    Example: worldfork calibrate-drift checkpoints/locomotion/walker-walk-*.safetensors -o results/drift

    The rule: the first scale of the task's grid at which the checkpoints' mean return falls to half of its clean
    value; where none does, the end of the grid. It never looks at what an update would do.
    """
    from worldfork.lab.tools import drift_scale
    from worldfork.progress import bars

    with bars(quiet=quiet or as_json) as progress:
        record = drift_scale.measure(
            checkpoints, episodes=episodes, precision=precision, threads=threads, progress=progress
        )
    if output is not None:
        drift_scale.write(record, output)
    if as_json:
        options.print_json(record)
    else:
        _show(record)


def _show(record: dict[str, Any]) -> None:
    columns = ("scale", "mean", "of clean", *(f"checkpoint {n}" for n in range(len(record["returns"][0]))))
    rows = []
    for scale, mean, each in zip(record["grid"], record["mean"], record["returns"], strict=True):
        share = f"{mean / record['mean'][0]:.2f}" + ("  <-" if scale == record["scale"] else "")
        rows.append((f"{scale:g}", f"{mean:.1f}", share, *(f"{value:.0f}" for value in each)))
    options.print_table(f"{record['task']}: frozen return against {record['parameter']} (x nominal)", columns, rows)
    typer.echo(f"Registered scale for {record['task']}: drift_scale = {record['scale']:g}")
