"""The fate of every seed of a recipe, as data: of one group, and of the whole in pretraining.json."""

import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from worldfork.errors import WorldforkError
from worldfork.lab.agents.pretraining.recipe import PretrainingRecipe
from worldfork.ledger import files

FINISHED: Final = "pretraining.json"


@dataclasses.dataclass(frozen=True)
class TrainedSeed:
    """A trained seed, its returns at the gate and in the report, and the number of its checkpoint."""

    task: str
    seed: int
    gate: float
    returns: list[float]
    digest: str | None  # of its checkpoint's file, None where there was no use for one
    index: int | None = None  # of its checkpoint; None before that is known, and if it was rejected or not needed


@dataclasses.dataclass(frozen=True)
class Pretraining:
    """A finished pretraining: what became of every seed of the recipe, and how long its groups took together."""

    folder: Path
    recipe: str  # its digest
    training_seconds: float
    evaluation_seconds: float
    seeds: tuple[TrainedSeed, ...]

    @property
    def checkpoints(self) -> list[Path]:
        """The files of the seeds that passed the gate and were wanted; a manifest lies beside each."""
        kept = (seed for seed in self.seeds if seed.index is not None)
        return [self.folder / f"{seed.task}-{seed.index}.safetensors" for seed in kept]


def seed_stem(task: str, seed: int) -> str:
    """Return the name of a seed's files before it is known which checkpoint it becomes, if any."""
    return f"{task}-seed{seed}"


def choose(recipe: PretrainingRecipe, evaluated: Iterable[TrainedSeed]) -> tuple[TrainedSeed, ...]:
    """Number the first seeds of each task that pass the gate, as many as are wanted.

    A seed below the floor is replaced by the next one and listed with its return, because the gate selects on what
    dR is correlated with (docs/protocol.md).
    """
    by_seed = {(seed.task, seed.seed): seed for seed in evaluated}
    fates = []
    for task, entry in recipe.tasks.items():
        index = 0
        for number in entry.seeds:
            seed = by_seed[task, number]
            kept = seed.gate >= entry.floor and index < entry.wanted
            chosen = {"index": index, "digest": seed.digest} if kept else {"index": None, "digest": None}
            fates.append(dataclasses.replace(seed, **chosen))
            index += kept
    return tuple(fates)


def write_finished(done: Pretraining) -> None:
    """Leave the record beside the checkpoints: with it the pretraining is finished."""
    record = {name: value for name, value in dataclasses.asdict(done).items() if name != "folder"}
    files.replace(done.folder / FINISHED, (json.dumps(record, indent=1) + "\n").encode())


def read_finished(folder: Path) -> Pretraining | None:
    """Return the pretraining that was finished in `folder`, if any."""
    path = folder / FINISHED
    if not path.exists():
        return None
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return Pretraining(
            folder,
            str(record["recipe"]),
            float(record.get("training_seconds", 0.0)),
            float(record.get("evaluation_seconds", 0.0)),
            tuple(TrainedSeed(**seed) for seed in record["seeds"]),
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        raise WorldforkError(
            f"{path} is not the record of a finished pretraining: choose another output folder."
        ) from None


Curve = dict[str, Any]  # one episode of one member, as data

PANELS = {
    "planned_return": "return, planner with exploration noise",
    "actor_return": "return, imagination actor",
    "model_loss": "world-model loss",
    "value_loss": "value loss",
    "policy_loss": "policy loss",
}


def write_curves(curves: list[Curve], path: Path) -> None:
    """Write a JSON line per member and episode."""
    path.write_text("".join(json.dumps(row) + "\n" for row in curves), encoding="utf-8")


def draw_curves(curves: list[Curve], path: Path) -> None:
    """Draw a row of panels per task, a line per seed."""
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
