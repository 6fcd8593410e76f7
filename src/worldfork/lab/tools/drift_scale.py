"""The drift scale of a task's physics: a rule that looks at HOLD alone, never at dR (docs/protocol.md).

On the grid that comes with the task's environment, the scale is the first at which the mean frozen return of the
checkpoints falls to half of its clean value; where none does, the end of the grid.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from worldfork import registry
from worldfork.errors import WorldforkError
from worldfork.lab.agents.checkpoints import read_manifest
from worldfork.lab.environments import EnvironmentPlugin
from worldfork.lab.tools.evaluation import find_checkpoint, load_agent
from worldfork.ledger import files
from worldfork.progress import Progress, silent


def measure(
    checkpoints: Sequence[str | Path],
    *,
    episodes: int = 20,
    precision: str = "tf32",
    threads: int | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Frozen return against drift scale, and the scale that the rule chooses: a record, ready for JSON."""
    task = read_manifest(find_checkpoint(checkpoints[0]))["task"]
    grid = drift_grid(task)
    loaded = load_agent(checkpoints, precision=precision, scale=grid[-1], threads=threads)
    rows = []
    for done, scale in enumerate(grid, start=1):
        level = min(1.0, (scale - 1.0) / (grid[-1] - 1.0))
        rows.append(loaded.returns("calibrate-drift", episodes=episodes, level=level))  # the same throughout
        progress("scales", done, len(grid))
    returns = np.stack(rows)
    means = returns.mean(axis=2)
    return {
        "schema": "worldfork.drift-scale/1",
        "task": task,
        "parameter": loaded.environment.parameter,
        "grid": list(grid),
        "returns": means.tolist(),
        "mean": means.mean(axis=1).tolist(),
        "scale": registered_scale(grid, means.mean(axis=1)),
        "episodes": episodes,
        "checkpoints": loaded.digests,
        "precision": precision,
        "device": loaded.agent.device,
    }


def drift_grid(task: str) -> tuple[float, ...]:
    """Return the scales that are tried for a task, from no drift on."""
    grid = registry.load("environments", task, EnvironmentPlugin).drift_grid
    if not grid:
        raise WorldforkError(
            f"The environment `{task}` has no grid of drift scales: give its class a `drift_grid`."
        )
    return grid


def registered_scale(grid: tuple[float, ...], means: Float64[np.ndarray, " G"]) -> float:
    """Return the rule. `means[0]` is the clean return.

    >>> registered_scale((1.0, 1.5, 2.0), np.array([800.0, 500.0, 390.0]))
    2.0
    >>> registered_scale((1.0, 1.5, 2.0), np.array([800.0, 500.0, 410.0]))  # none falls to half: the end
    2.0
    """
    fallen = [scale for scale, mean in zip(grid, means, strict=True) if mean <= means[0] / 2]
    return fallen[0] if fallen else grid[-1]


def write(record: dict[str, Any], folder: str | Path) -> None:
    """The record and its figure, as `drift-scale-<task>.json` and `.png`."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    name = f"drift-scale-{record['task']}"
    files.replace(folder / f"{name}.json", (json.dumps(record, indent=1) + "\n").encode())
    _draw(record, folder / f"{name}.png")


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
