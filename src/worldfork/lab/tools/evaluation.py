"""Checkpoints put to work outside a study: agent, world and parameters, as their manifests describe them."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from worldfork import registry
from worldfork.errors import WorldforkError
from worldfork.lab.agents import arrays, checkpoints
from worldfork.lab.agents.checkpoints import read_manifest
from worldfork.lab.agents.pretraining.recipe import restore
from worldfork.lab.agents.rssm_cem.agent import RSSMCEM
from worldfork.lab.agents.rssm_cem.plugin import RSSMCEMPlugin, Search
from worldfork.lab.agents.rssm_cem.recipe import Recipe
from worldfork.lab.environments import Environment, load
from worldfork.lab.environments.drift import Schedule
from worldfork.lab.episodes import Record, fixed_level_returns
from worldfork.lab.stream import deploy, window
from worldfork.randomness import Event, Purpose
from worldfork.registration.library import BUNDLED


@dataclasses.dataclass(frozen=True)
class LoadedAgent:
    """Ready to be rolled out; `names` are the seeds, which keep two checkpoints' episodes apart."""

    agent: RSSMCEM
    environment: Environment
    parameters: dict[str, Any]
    names: list[str]
    digests: list[str]
    paths: list[Path]

    def returns(
        self, occasion: str, *, episodes: int, level: float = 0.0, record: Record | None = None
    ) -> Float64[np.ndarray, "P E"]:
        """Return what the checkpoints earn in whole episodes at a fixed drift level."""
        return fixed_level_returns(
            self.agent,
            self.environment,
            self.parameters,
            checkpoints=self.names,
            episodes=episodes,
            occasion=occasion,
            level=level,
            record=record,
        )


def load_agent(
    checkpoints: Sequence[str | Path],
    *,
    precision: str,
    scale: float = 1.0,
    threads: int | None = None,
    planner: Mapping[str, Any] | None = None,
) -> LoadedAgent:
    """Load checkpoints of one task and one model; `planner` changes settings of the search they were gated with.

    A checkpoint is a .safetensors file, or `bundled:<name>` for one that comes with worldfork.
    """
    paths = [find_checkpoint(checkpoint) for checkpoint in checkpoints]
    manifests = [read_manifest(path) for path in paths]
    if len(tasks := {manifest["task"] for manifest in manifests}) != 1:
        raise WorldforkError(f"Checkpoints of one task are needed; these are of {', '.join(sorted(tasks))}.")
    if other := [str(manifest["model"]["agent"]) for manifest in manifests if "agent" in manifest["model"]]:
        raise WorldforkError(
            f"These are checkpoints of the agent `{other[0]}`, and this is for those of `rssm_cem`: their clean "
            "returns are in their manifests, and a study deploys them."
        )
    environment = load(manifests[0]["task"], scale=scale, threads=threads)
    changed = dict(planner or {})
    search = {**Search().model_dump(), **manifests[0].get("planner", {}), **changed}
    if isinstance(few := changed.get("candidates"), int) and "elites" not in changed:
        search["elites"] = min(search["elites"], few)
    sizes = ("observation_size", "action_size")  # the task's, which `load` compares with the manifest's
    shape = {name: value for name, value in manifests[0]["model"].items() if name not in sizes}
    plugin = registry.build("agents", "rssm_cem", RSSMCEMPlugin, settings={**shape, **search}, where=str(paths[0]))
    agent = plugin.build(environment, precision=precision)
    loaded = [plugin.load(agent, environment, path) for path in paths]
    return LoadedAgent(
        agent,
        environment,
        arrays.concatenate([checkpoint.parameters for checkpoint in loaded]),
        [str(manifest["seed"]) for manifest in manifests],
        [checkpoint.digest for checkpoint in loaded],
        paths,
    )


def find_checkpoint(checkpoint: str | Path) -> Path:
    """Return the file of a checkpoint; `bundled:<name>` is one of those that come with worldfork."""
    kind, colon, name = str(checkpoint).partition(":")
    if kind != "bundled" or not colon:
        return Path(checkpoint)
    bundled = sorted(path.stem for path in BUNDLED.glob("*.safetensors"))
    if name not in bundled:
        raise WorldforkError(f"No checkpoint {name!r} comes with worldfork; there are {', '.join(bundled)}.")
    return BUNDLED / f"{name}.safetensors"


def planner_settings(given: list[str]) -> dict[str, Any]:
    """Settings of the search as a user writes them: `name=value`."""
    kinds: dict[str, type] = {name: type(field.default) for name, field in Search.model_fields.items()}
    settings = {}
    for text in given:
        name, _, value = text.partition("=")
        if name not in kinds:
            raise WorldforkError(f"The planner has no setting {name!r}; it has {', '.join(kinds)}.")
        try:
            settings[name] = kinds[name](value)
        except ValueError:
            raise WorldforkError(f"`{text}`: {value!r} is no {kinds[name].__name__}.") from None
    return settings


def adopt(loaded: LoadedAgent) -> Float64[np.ndarray, "P E"]:
    """Put the loaded planner and its clean returns into the manifests; refuses all if one falls at the gate."""
    paths = loaded.paths
    if any(path.parent == BUNDLED for path in paths):
        raise WorldforkError("Checkpoints that come with worldfork stay as they are: copy them first.")
    manifests = [checkpoints.read_manifest(path) for path in paths]
    recipes = [
        restore(Recipe, manifest["recipe"], name=f"The recipe of {path}")
        for path, manifest in zip(paths, manifests, strict=True)
    ]
    gate = loaded.returns("gate", episodes=max(recipe.gate_episodes for recipe in recipes))
    returns = loaded.returns("report", episodes=max(recipe.report_episodes for recipe in recipes))
    for path, recipe, gated in zip(paths, recipes, gate, strict=True):
        if gated.mean() < (floor := recipe.tasks[loaded.environment.name].floor):
            raise WorldforkError(
                f"With this planner {path.name} returns {gated.mean():.1f} at the gate, below its floor of "
                f"{floor}: no manifest was changed."
            )
    for path, manifest, gated, reported in zip(paths, manifests, gate, returns, strict=True):
        earlier = {"planner": manifest["planner"], "returns": manifest["returns"]}
        checkpoints.rewrite(
            path,
            {
                **manifest,
                "planner": dataclasses.asdict(loaded.agent.planner),
                "returns": {
                    "mean": float(reported.mean()),
                    "episodes": reported.tolist(),
                    "gate": gated.tolist(),
                    "precision": loaded.agent.imagined.precision,
                },
                "earlier_planners": [*manifest.get("earlier_planners", []), earlier],
            },
        )
    return returns


SOURCE = "collected in the clean world by the finished checkpoint, planned without noise"


def collect_replay(loaded: LoadedAgent, transitions: int) -> None:
    """Roll the checkpoints out in the clean world, and keep so many transitions beside each."""
    if any(path.parent == BUNDLED for path in loaded.paths):
        raise WorldforkError("Checkpoints that come with worldfork stay as they are: copy them first.")
    environment = loaded.environment
    if transitions < environment.episode_steps:
        raise WorldforkError(f"An episode is {environment.episode_steps} transitions: collect at least that many.")
    episodes = math.ceil(transitions / environment.episode_steps)
    events = [
        Event(purpose=Purpose.INITIAL_STATE, task=environment.name, checkpoint=name, direction="replay")
        for name in loaded.names
    ]
    streams = deploy(
        loaded.agent,
        environment,
        loaded.parameters,
        events=events,
        # The world is built without drift, so that the level means nothing.
        schedules=[Schedule("away", 1)] * len(events),
        decision_points=episodes,
        action_noise=0.0,
    )
    for path, stream in zip(loaded.paths, streams, strict=True):
        seen = window([stream.recording], [episodes])
        columns = {name: getattr(seen, name)[0, :transitions] for name in checkpoints.COLUMNS}
        entry = checkpoints.keep_replay(path, columns, source=SOURCE)
        checkpoints.rewrite(path, {**read_manifest(path), "replay": entry})
