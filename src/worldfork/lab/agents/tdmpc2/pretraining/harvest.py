"""From trained members to checkpoints: put through the competence gate, evaluated, written.

The gate and the reported return use different episodes. Which of the seeds that pass become the checkpoints of a
recipe is for `worldfork.lab.tools.pretraining` to say, which sees all groups.
"""

import dataclasses
import platform
from pathlib import Path
from typing import Any, Final

import jax

from worldfork.lab.agents.rssm_cem.checkpoints import keep
from worldfork.lab.agents.rssm_cem.pretraining import replay as replays
from worldfork.lab.agents.rssm_cem.pretraining.harvest import save
from worldfork.lab.agents.rssm_cem.pretraining.outcomes import Evaluated, seed_stem
from worldfork.lab.agents.rssm_cem.pretraining.worlds import Member, Worlds
from worldfork.lab.agents.tdmpc2.checkpoints import describe
from worldfork.lab.agents.tdmpc2.pretraining.loop import Trained
from worldfork.lab.agents.tdmpc2.pretraining.recipe import Recipe
from worldfork.lab.episodes import standing_returns
from worldfork.progress import Progress, silent
from worldfork.randomness import Purpose, generator
from worldfork.version import __version__

__all__ = ["harvest"]

SOURCE: Final = "pretraining: sequences drawn uniformly from all that was collected"
PIECE: Final = 25  # transitions of a sequence that is kept: ten of them are an episode


def harvest(
    recipe: Recipe, worlds: Worlds, trained: Trained, folder: Path, *, group: Recipe, progress: Progress = silent
) -> list[Evaluated]:
    """Gate and evaluate every seed of the group, and save those that pass, as many as are wanted, as
    `<folder>/<task>-seed<seed>.safetensors`."""
    [(task, entry)] = group.tasks.items()
    environment = worlds.environments[task]
    agent = recipe.plugin(entry.planner).build(environment, precision=recipe.precision)
    parameters, moments = trained.learners
    names = [str(seed) for seed in entry.seeds]
    progress("tasks", 0, 1)
    gate, returns = (
        standing_returns(agent, environment, parameters, checkpoints=names, episodes=count, occasion=occasion)
        for occasion, count in (("gate", recipe.gate_episodes), ("report", recipe.report_episodes))
    )
    learned, optimiser = jax.device_get((parameters, moments))
    proof = worlds.proofs()[task]
    evaluated: list[Evaluated] = []
    for row, member in enumerate(worlds.members):
        mean = float(gate[row].mean())
        digest = None
        if mean >= entry.floor and sum(one.digest is not None for one in evaluated) < entry.wanted:
            path = folder / f"{seed_stem(task, member.seed)}.safetensors"
            manifest = {
                "task": task,
                "seed": member.seed,
                "size": recipe.size,
                "model": describe(agent.networks),
                "planner": dataclasses.asdict(agent.planner),
                "recipe": recipe.model_dump(mode="json", by_alias=True),
                "recipe_digest": recipe.digest,
                "training": _training(recipe, worlds),
                "returns": {
                    "mean": float(returns[row].mean()),
                    "episodes": returns[row].tolist(),
                    "gate": gate[row].tolist(),
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
            manifest |= _replay(recipe, trained, member, row=row, path=path)
            own, moved = ({name: x[row] for name, x in arrays.items()} for arrays in (learned, optimiser))
            digest = save(path, own, moved, manifest)
        evaluated.append(Evaluated(task, member.seed, mean, returns[row].tolist(), digest))
    progress("tasks", 1, 1)
    return evaluated


def _training(recipe: Recipe, worlds: Worlds) -> dict[str, Any]:
    """How much it was trained; beside it the seeds of one program, on whose number digits depend."""
    [environment] = worlds.environments.values()
    steps = recipe.episodes * worlds.episode_steps * recipe.environments
    return {
        "control_steps": steps,
        "env_steps": steps * environment.action_repeat,
        "gradient_steps": steps * recipe.updates,
        "together": [member.name for member in worlds.members],
    }


def _replay(recipe: Recipe, trained: Trained, member: Member, *, row: int, path: Path) -> dict[str, Any]:
    """Keep some of what a member was trained on beside its checkpoint; what the manifest says of it."""
    if recipe.replay == 0:
        return {}
    random = generator(dataclasses.replace(member.event(Purpose.PRETRAINING), direction="replay"))
    kept = replays.keep_some(trained.replay, row, transitions=recipe.replay, length=PIECE, random=random)
    return {"replay": keep(path, kept, source=SOURCE)}
