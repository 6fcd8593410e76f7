"""Checkpoints put to work outside a study: agent, world and parameters, as their manifests describe them."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from worldfork import registry
from worldfork.errors import WorldforkError
from worldfork.lab.agents import arrays
from worldfork.lab.agents.checkpoints import read_manifest
from worldfork.lab.agents.rssm_cem.agent import RSSMCEM
from worldfork.lab.agents.rssm_cem.plugin import RSSMCEMPlugin, Search
from worldfork.lab.environments import Environment, load
from worldfork.lab.episodes import Record, fixed_level_returns
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
