"""Pretraining of one group of seeds, on whichever machine this is.

    prove that physics is clean -> train all members in one program -> gate, evaluate, write what passes

An interrupted group is carried on by the same call where its training state was saved. The gate and the reported
return use different episodes. Which of the seeds that pass become the checkpoints of a recipe is for
`worldfork.lab.tools.pretraining` to say, which sees all groups.
"""

import dataclasses
import os
import platform
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import jax
import numpy as np

from worldfork.lab.agents import checkpoints
from worldfork.lab.agents.pretraining import replay as replays
from worldfork.lab.agents.pretraining.loop import Trained, Trainee, train
from worldfork.lab.agents.pretraining.outcomes import Curve, TrainedSeed, seed_stem
from worldfork.lab.agents.pretraining.recipe import PretrainingRecipe
from worldfork.lab.agents.pretraining.worlds import Worlds
from worldfork.lab.determinism import flags, processor
from worldfork.lab.environments.base import Environment
from worldfork.lab.episodes import fixed_level_returns
from worldfork.ledger.provenance import sources, versions
from worldfork.progress import Notify, Progress, ignore, silent
from worldfork.randomness import Purpose, generator
from worldfork.registration import digest
from worldfork.version import __version__

SOURCE: Final = "pretraining: sequences drawn uniformly from all that was collected"


def train_group(
    recipe: PretrainingRecipe,
    number: int,
    *,
    trainee: type[Trainee],
    state: Path | None = None,
    save_every: int = 10,
    threads: int | None = None,
    progress: Progress = silent,
    notify: Notify = ignore,
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Train group `number` of the recipe; return its record, and the files of the seeds that passed the gate by
    their names. The training state is saved in the folder `state` every `save_every` episodes."""
    group = recipe.groups()[number]
    worlds = Worlds(group, threads=threads or int(os.environ.get("WORLDFORK_THREADS", 0)) or None)
    worlds.proofs()  # refuses here, before an hour is spent, if any physics is not clean
    training = trainee(group, worlds)

    def watch(episode: int, curves: list[Curve]) -> None:
        notify(f"episode {episode + 1} of {group.episodes}: {_summary(curves)}")
        progress("episodes", episode + 1, group.episodes)

    progress("episodes", 0, group.episodes)
    with tempfile.TemporaryDirectory(prefix="worldfork-") as scratch:
        trained = train(
            training,
            folder=state or Path(scratch, "state"),
            watch=watch,
            save_every=save_every if state else group.episodes,
        )
        began = time.monotonic()
        written = Path(scratch, "checkpoints")
        written.mkdir()
        seeds = harvest(recipe, training, trained, written, progress=progress)
        files = {path.name: path.read_bytes() for path in sorted(written.iterdir())}
    record = {
        "seeds": [dataclasses.asdict(seed) for seed in seeds],
        "curves": trained.curves,
        "training_seconds": trained.seconds,
        "evaluation_seconds": time.monotonic() - began,
    }
    return record, files


def trainer(recipe: PretrainingRecipe, *, module: str) -> dict[str, object]:
    """Describe what this machine would train the recipe with: all that decides digits and is not in the recipe."""
    simulators: dict[str, object] = {}
    for group in {tuple(group.tasks): group for group in recipe.groups()}.values():
        worlds = Worlds(group, threads=1)
        worlds.proofs()
        simulators |= {task: environment.simulator for task, environment in worlds.environments.items()}
    plugin = recipe.plugin(recipe.collection)
    device = plugin.build(next(iter(worlds.environments.values())), precision=recipe.precision).device
    return {
        "device": device,
        "processor": processor()[0] if device == "cpu" else None,
        "compiler_flags": flags(),
        "simulator": simulators,
        "packages": versions(("numpy", *plugin.packages)),
        "source": digest(sources((__name__, module))),
    }


def _summary(curves: list[Curve]) -> str:
    """Return every task's returns, seed by seed, and its mean model loss."""
    parts = []
    for task in dict.fromkeys(row["task"] for row in curves):
        rows = [row for row in curves if row["task"] == task]
        words = " ".join(f"{row['planned_return']:.0f}" for row in rows)
        if actor := " ".join(f"{row['actor_return']:.0f}" for row in rows if "actor_return" in row):
            words += f" planned, {actor} by the actor"
        losses = [row["model_loss"] for row in rows if "model_loss" in row]
        loss = f", loss {sum(losses) / len(losses):.3f}" if losses else ""
        parts.append(f"{task} returns {words}{loss}")
    return "; ".join(parts)


def harvest(
    recipe: PretrainingRecipe, trainee: Trainee, trained: Trained, folder: Path, *, progress: Progress = silent
) -> list[TrainedSeed]:
    """Gate and evaluate every seed of the trainee's group, and save those that pass, as many of each task as are
    wanted, as `<folder>/<task>-seed<seed>.safetensors`."""
    worlds, tasks = trainee.worlds, trainee.recipe.tasks
    evaluated: list[TrainedSeed] = []
    # Cut on the host: on the device every slice of every shape would be a program to compile.
    learned, moments = trainee.arrays(trained.learners)
    for done, (task, entry) in enumerate(tasks.items()):
        environment = worlds.environments[task]
        progress("tasks", done, len(tasks))
        agent = recipe.plugin(entry.planner).build(environment, precision=recipe.precision)
        rows = [row for row, member in enumerate(worlds.members) if member.task == task]
        parameters, optimiser = (
            trainee.cut({name: x[rows] for name, x in group.items()}, agent) for group in (learned, moments)
        )
        on_device, names = jax.device_put(parameters), [str(seed) for seed in entry.seeds]
        gate, returns = (
            fixed_level_returns(agent, environment, on_device, checkpoints=names, episodes=count, occasion=occasion)
            for occasion, count in (("gate", recipe.gate_episodes), ("report", recipe.report_episodes))
        )
        proof = worlds.proofs()[task]
        passed = 0
        for position, seed in enumerate(entry.seeds):
            mean, digest = float(gate[position].mean()), None
            if mean >= entry.floor and passed < entry.wanted:
                passed += 1
                path = folder / f"{seed_stem(task, seed)}.safetensors"
                manifest = _manifest(
                    recipe,
                    agent,
                    environment=environment,
                    seed=seed,
                    group=[member.name for member in worlds.members],
                    gate=gate[position],
                    returns=returns[position],
                    proof=proof,
                )
                manifest |= _keep_replay(recipe, worlds, trained, rows[position], path=path)
                own_set, moments_of_it = (
                    {name: x[position] for name, x in group.items()} for group in (parameters, optimiser)
                )
                digest = checkpoints.save(path, own_set, moments_of_it, manifest)
            evaluated.append(TrainedSeed(task, seed, mean, returns[position].tolist(), digest))
    progress("tasks", len(tasks), len(tasks))
    return evaluated


def _keep_replay(
    recipe: PretrainingRecipe, worlds: Worlds, trained: Trained, row: int, *, path: Path
) -> dict[str, Any]:
    """Keep some of what a member was trained on beside its checkpoint; return its entry in the manifest."""
    if recipe.replay == 0:
        return {}
    member = worlds.members[row]
    environment = worlds.environments[member.task]
    random = generator(dataclasses.replace(member.event(Purpose.PRETRAINING), direction="replay"))
    amount = {"transitions": recipe.replay, "length": recipe.kept_length}
    columns = replays.keep_some(trained.replay, row, **amount, random=random)
    sizes = {
        "observation": environment.observation_size,
        "next_observation": environment.observation_size,
        "action": environment.action_size,
    }
    columns |= {name: columns[name][:, :size] for name, size in sizes.items()}  # less the padding
    return {"replay": checkpoints.keep_replay(path, columns, source=SOURCE)}


def _manifest(
    recipe: PretrainingRecipe,
    agent: Any,
    *,
    environment: Environment,
    seed: int,
    group: list[str],
    gate: np.ndarray,
    returns: np.ndarray,
    proof: dict[str, Any],
) -> dict[str, Any]:
    steps = recipe.episodes * environment.episode_steps * recipe.environments
    stored = recipe.model_dump(mode="json", by_alias=True)
    return {
        "task": environment.name,
        "seed": seed,
        "size": stored["size"],
        "model": agent.described,
        "planner": dataclasses.asdict(agent.planner),
        "recipe": stored,
        "recipe_digest": recipe.digest,
        "training": {
            "control_steps": steps,
            "env_steps": steps * environment.action_repeat,
            "gradient_steps": recipe.gradient_steps_in(environment.episode_steps),
            "together": group,  # the seeds of one program, on whose number digits depend
        },
        "returns": {
            "mean": float(returns.mean()),
            "episodes": returns.tolist(),
            "gate": gate.tolist(),
            "precision": recipe.precision,
        },
        "clean_physics": proof,
        "versions": {
            "worldfork": __version__,
            "jax": jax.__version__,
            "python": platform.python_version(),
        },
        "hardware": agent.device,
    }
