"""Pretraining as one job: a recipe in, a folder of checkpoints with manifests out.

    read the recipe -> prove that physics is clean -> train all members -> curves -> gate, evaluate, save

An interrupted job is carried on by the same call; a finished one is read back.
"""

import dataclasses
import time
from pathlib import Path

from worldfork.errors import WorldforkError
from worldfork.lab.agents.rssm_cem.pretraining import saving
from worldfork.lab.agents.rssm_cem.pretraining.curves import draw_curves, write_curves
from worldfork.lab.agents.rssm_cem.pretraining.harvest import Harvested, gate_rehearsals, harvest
from worldfork.lab.agents.rssm_cem.pretraining.loop import Curve, train
from worldfork.lab.agents.rssm_cem.pretraining.recipe import Recipe, read_recipe
from worldfork.lab.agents.rssm_cem.pretraining.worlds import Worlds
from worldfork.lab.ahead import Ahead
from worldfork.progress import Notify, Progress, ignore, silent

__all__ = ["Pretraining", "pretrain"]


@dataclasses.dataclass(frozen=True)
class Pretraining:
    """A finished job: what became of every seed of the recipe, and how long it took."""

    folder: Path
    recipe: str  # its digest
    training_seconds: float
    evaluation_seconds: float
    seeds: tuple[Harvested, ...]

    @property
    def checkpoints(self) -> list[Path]:
        """The files of the seeds that passed the gate and were wanted; a manifest lies beside each."""
        kept = (seed for seed in self.seeds if seed.index is not None)
        return [self.folder / f"{seed.task}-{seed.index}.safetensors" for seed in kept]


def pretrain(
    recipe: Recipe | str | Path,
    folder: str | Path,
    *,
    minutes: float | None = None,
    save_every: int = 10,
    threads: int | None = None,
    progress: Progress = silent,
    notify: Notify = ignore,
) -> Pretraining | None:
    """Train the checkpoints of a recipe into `folder`: all seeds of all tasks in one program.

    `recipe` is a file, the name of one that comes with worldfork, or a record. The training state is saved every
    `save_every` episodes. After `minutes` the job saves and returns None: the same call goes on. `threads` step the
    physics, by default as many as there are CPUs; no digit depends on it.
    """
    plan = recipe if isinstance(recipe, Recipe) else read_recipe(recipe)
    folder = Path(folder)
    if (finished := _read(folder)) is not None:
        if finished.recipe != plan.digest:
            raise WorldforkError(
                f"{folder} holds the checkpoints of another recipe ({finished.recipe[:12]}, not "
                f"{plan.digest[:12]}). Choose another output folder."
            )
        notify(f"{folder} already holds the checkpoints of this recipe ({finished.recipe[:12]}); nothing to do.")
        return finished
    worlds = Worlds(plan, threads=threads)
    worlds.proofs()  # refuses here, before an hour is spent, if any physics is not clean

    ahead = Ahead()
    gates = gate_rehearsals(plan, worlds)

    def watch(episode: int, curves: list[Curve]) -> None:
        while gates:  # by now what learns is compiled, and the gates' programs are needed at the end
            ahead.add("gates", gates.pop(0))
        notify(f"episode {episode + 1} of {plan.episodes}: {_summary(curves)}")
        progress("episodes", episode + 1, plan.episodes)

    progress("episodes", 0, plan.episodes)
    stop_after = None if minutes is None else 60.0 * minutes
    trained = train(
        plan, worlds, folder=folder, watch=watch, save_every=save_every, stop_after=stop_after, ahead=ahead
    )
    if trained is None:
        notify(f"Saved in {folder} after {minutes:g} minutes; do the same again to go on.")
        return None
    folder.mkdir(parents=True, exist_ok=True)
    write_curves(trained.curves, folder / "curves.jsonl")
    draw_curves(trained.curves, folder / "curves.png")
    began = time.monotonic()
    ahead.ready("gates")
    seeds = tuple(harvest(plan, worlds, trained, folder, progress=progress))
    done = Pretraining(folder, plan.digest, trained.seconds, time.monotonic() - began, seeds)
    saving.finish(folder, {name: value for name, value in dataclasses.asdict(done).items() if name != "folder"})
    return done


def _read(folder: Path) -> Pretraining | None:
    """The job that was finished in `folder`, if any."""
    record = saving.read_finished(folder)
    if record is None:
        return None
    try:
        return Pretraining(
            folder,
            str(record["recipe"]),
            float(record.get("training_seconds", 0.0)),
            float(record.get("evaluation_seconds", 0.0)),
            tuple(Harvested(**seed) for seed in record["seeds"]),
        )
    except (KeyError, TypeError, ValueError):
        raise WorldforkError(
            f"{folder / saving.FINISHED} is not the record of a finished pretraining: choose another output folder."
        ) from None


def _summary(curves: list[Curve]) -> str:
    """Every task's returns, seed by seed, and its mean model loss."""
    parts = []
    for task in dict.fromkeys(row["task"] for row in curves):
        rows = [row for row in curves if row["task"] == task]
        planned, by_actor = (
            " ".join(f"{row[name]:.0f}" for row in rows) for name in ("planned_return", "actor_return")
        )
        losses = [row["model_loss"] for row in rows if "model_loss" in row]
        loss = f", loss {sum(losses) / len(losses):.2f}" if losses else ""
        parts.append(f"{task} returns {planned} planned, {by_actor} by the actor{loss}")
    return "; ".join(parts)
