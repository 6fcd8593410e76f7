"""Training curves: as data, and as a figure."""

import json
from pathlib import Path
from typing import Any

__all__ = ["Curve", "draw_curves", "write_curves"]

Curve = dict[str, Any]  # one episode of one member, as data

PANELS = {
    "planned_return": "return, planner with exploration noise",
    "actor_return": "return, imagination actor",
    "model_loss": "world-model loss",
    "value_loss": "value loss",
    "policy_loss": "policy loss",
}


def write_curves(curves: list[Curve], path: Path) -> None:
    """One JSON line per member and episode."""
    path.write_text("".join(json.dumps(row) + "\n" for row in curves), encoding="utf-8")


def draw_curves(curves: list[Curve], path: Path) -> None:
    """One row of panels per task, one line per seed."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    tasks = list(dict.fromkeys(row["task"] for row in curves))
    panels = {name: label for name, label in PANELS.items() if any(name in row for row in curves)}
    figure = Figure(figsize=(4.2 * len(panels), 2.8 * len(tasks)), layout="constrained")
    axes = figure.subplots(len(tasks), len(panels), squeeze=False)
    for place, task in enumerate(tasks):
        rows = [row for row in curves if row["task"] == task]
        for column, (name, label) in enumerate(panels.items()):
            axis = axes[place][column]
            for seed in dict.fromkeys(row["seed"] for row in rows):
                line = [row for row in rows if row["seed"] == seed and name in row]
                axis.plot(
                    [row["env_steps"] / 1000 for row in line], [row[name] for row in line], label=f"seed {seed}"
                )
            axis.set_title(f"{task}: {label}", fontsize=9)
            axis.set_xlabel("environment steps per seed (thousands)", fontsize=8)
            axis.grid(alpha=0.3)
        axes[place][0].legend(fontsize=7)
    FigureCanvasAgg(figure)
    figure.savefig(path)
