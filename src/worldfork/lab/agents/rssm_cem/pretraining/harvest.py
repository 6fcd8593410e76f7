"""Checkpoints to disk. Apart from reading them, since what writes a checkpoint computes no row of a ledger."""

import dataclasses
import hashlib
import json
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors.numpy import save as spell

from worldfork.lab.agents.base import Arrays
from worldfork.lab.agents.rssm_cem import checkpoints
from worldfork.lab.agents.rssm_cem.agent import RSSMCEM
from worldfork.lab.agents.rssm_cem.checkpoints import SCHEMA, keep
from worldfork.lab.agents.rssm_cem.model.optimiser import flatten
from worldfork.lab.agents.rssm_cem.model.rssm import RSSM
from worldfork.lab.agents.rssm_cem.pretraining import replay as replays
from worldfork.lab.agents.rssm_cem.pretraining.loop import Trained
from worldfork.lab.agents.rssm_cem.pretraining.outcomes import Evaluated, seed_stem
from worldfork.lab.agents.rssm_cem.pretraining.recipe import Recipe
from worldfork.lab.agents.rssm_cem.pretraining.worlds import Worlds
from worldfork.lab.environments.base import Environment
from worldfork.lab.episodes import standing_returns
from worldfork.ledger import files
from worldfork.progress import Progress, silent
from worldfork.randomness import Purpose, generator
from worldfork.version import __version__


def save(path: Path, parameters: Arrays, optimiser: Arrays, manifest: Mapping[str, Any]) -> str:
    """Write one parameter set (no leading axis) and its manifest; returns the digest of the arrays' file."""
    arrays = {
        f"{kind}/{name}": np.ascontiguousarray(array, np.float32)
        for kind, group in (("parameters", parameters), ("optimiser", optimiser))
        for name, array in group.items()
    }
    content = spell(arrays)
    digest = hashlib.sha256(content).hexdigest()
    shapes = {name: list(array.shape) for name, array in arrays.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    full = {"schema": SCHEMA, **manifest, "shapes": shapes, "digest": digest}
    files.replace(path, content)
    rewrite(path, full)
    return digest


def rewrite(path: Path, manifest: Mapping[str, Any]) -> None:
    """Another manifest for the checkpoint at `path`."""
    files.replace(path.with_suffix(".json"), (json.dumps(manifest, indent=1, sort_keys=True) + "\n").encode())


SOURCE = "pretraining: sequences drawn uniformly from all that was collected"


def harvest(
    recipe: Recipe,
    worlds: Worlds,
    trained: Trained,
    folder: Path,
    *,
    group: Recipe | None = None,
    progress: Progress = silent,
) -> list[Evaluated]:
    """Gate and evaluate every seed of the group, by default all of the recipe's, and save those that pass, as many
    of each task as are wanted, as `<folder>/<task>-seed<seed>.safetensors`."""
    group = group or recipe
    evaluated: list[Evaluated] = []
    # Cut on the host: on the device every slice of every shape would be a program to compile.
    learned = jax.device_get(trained.learners.params)
    moments = jax.device_get(flatten(trained.learners.optimiser))
    for done, (task, entry) in enumerate(group.tasks.items()):
        environment = worlds.environments[task]
        progress("tasks", done, len(group.tasks))
        agent = recipe.agent(entry.planner).build(environment, precision=recipe.precision)
        model = agent.model
        rows = [row for row, member in enumerate(worlds.members) if member.task == task]
        parameters = jax.device_put(cut({name: x[rows] for name, x in learned.items()}, model))
        optimiser = cut({name: x[rows] for name, x in moments.items()}, model)
        names = [str(seed) for seed in entry.seeds]
        gate, returns = (
            standing_returns(agent, environment, parameters, checkpoints=names, episodes=count, occasion=occasion)
            for occasion, count in (("gate", recipe.gate_episodes), ("report", recipe.report_episodes))
        )
        proof = worlds.proofs()[task]
        passed = 0
        for position, seed in enumerate(entry.seeds):
            mean = float(gate[position].mean())
            digest = None
            if mean >= entry.floor and passed < entry.wanted:
                passed += 1
                path = folder / f"{seed_stem(task, seed)}.safetensors"
                kept_replay = _replay(recipe, worlds, trained, rows[position], path=path)
                digest = save(
                    path,
                    {name: np.asarray(x)[position] for name, x in parameters.items()},
                    {name: np.asarray(x)[position] for name, x in optimiser.items()},
                    {
                        **_manifest(
                            recipe,
                            agent,
                            environment=environment,
                            seed=seed,
                            group=[member.name for member in worlds.members],
                            gate=gate[position],
                            returns=returns[position],
                            proof=proof,
                        ),
                        **kept_replay,
                    },
                )
            evaluated.append(Evaluated(task, seed, mean, returns[position].tolist(), digest))
    progress("tasks", len(group.tasks), len(group.tasks))
    return evaluated


def _replay(recipe: Recipe, worlds: Worlds, trained: Trained, row: int, *, path: Path) -> dict[str, Any]:
    """Keep some of what a member was trained on beside its checkpoint; what the manifest says of it."""
    if recipe.replay == 0:
        return {}
    member = worlds.members[row]
    environment = worlds.environments[member.task]
    random = generator(dataclasses.replace(member.event(Purpose.PRETRAINING), direction="replay"))
    columns = replays.keep_some(trained.replay, row, transitions=recipe.replay, length=recipe.length, random=random)
    sizes = {
        "observation": environment.observation_size,
        "next_observation": environment.observation_size,
        "action": environment.action_size,
    }
    columns |= {name: columns[name][:, :size] for name, size in sizes.items()}  # less the padding
    return {"replay": keep(path, columns, source=SOURCE)}


def cut(arrays: Arrays, model: RSSM) -> dict[str, Any]:
    """Drop what belongs to padded observations and actions; their inputs were always zero, so nothing changes."""
    observations, inputs = model.observation_size, model.stoch + model.action_size
    ends: dict[str, tuple[slice, ...]] = {
        "model/encoder/0/weight": (slice(None), slice(observations)),
        "model/input/weight": (slice(None), slice(inputs)),
        "model/decoder/2/weight": (slice(None), slice(None), slice(observations)),
        "model/decoder/2/bias": (slice(None), slice(observations)),
    }
    return {name: x[ends[_bare(name)]] if _bare(name) in ends else x for name, x in arrays.items()}


def _bare(name: str) -> str:
    """A parameter's name, of which an optimiser's moments carry a prefix."""
    return name.removeprefix("mean/").removeprefix("square/")


def _manifest(
    recipe: Recipe,
    agent: RSSMCEM,
    *,
    environment: Environment,
    seed: int,
    group: list[str],
    gate: np.ndarray,
    returns: np.ndarray,
    proof: dict[str, Any],
) -> dict[str, Any]:
    steps = recipe.episodes * environment.episode_steps
    return {
        "task": environment.name,
        "seed": seed,
        "size": recipe.size,
        "model": checkpoints.describe(agent.model),
        "planner": dataclasses.asdict(agent.planner),
        "recipe": recipe.model_dump(mode="json", by_alias=True),
        "recipe_digest": recipe.digest,
        "training": {
            "control_steps": steps * recipe.environments,
            "env_steps": steps * recipe.environments * environment.action_repeat,
            "gradient_steps": (recipe.episodes - recipe.random_episodes)
            * environment.episode_steps
            * recipe.gradient_steps,
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
