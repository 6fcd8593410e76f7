"""Checkpoints put to work outside a study: agent, world and parameters, as their manifests describe them."""

import dataclasses
from pathlib import Path
from typing import Any

from worldfork.errors import WorldforkError
from worldfork.lab.agents import arrays
from worldfork.lab.agents.rssm_cem import checkpoints
from worldfork.lab.agents.rssm_cem.agent import RSSMCEM, precisions
from worldfork.lab.agents.rssm_cem.model.rssm import RSSM
from worldfork.lab.environments import Environment, load
from worldfork.lab.planner.cem import CEM

__all__ = ["Deployed", "deploy", "planner_settings"]


@dataclasses.dataclass(frozen=True)
class Deployed:
    """Ready to be rolled out; `names` are the seeds, which keep two checkpoints' episodes apart."""

    agent: RSSMCEM
    environment: Environment
    parameters: dict[str, Any]
    names: list[str]
    digests: list[str]


def deploy(
    paths: list[Path], *, precision: str, scale: float = 1.0, threads: int | None = None, **planner: Any
) -> Deployed:
    """Load checkpoints of one task and one model; `planner` changes settings of the search they were gated with."""
    manifests = [checkpoints.read_manifest(path) for path in paths]
    if len(tasks := {manifest["task"] for manifest in manifests}) != 1:
        raise WorldforkError(f"Checkpoints of one task are needed; these are of {', '.join(sorted(tasks))}.")
    environment = load(manifests[0]["task"], scale=scale, threads=threads)
    learning, planning = precisions(precision)
    model = RSSM(**manifests[0]["model"], precision=learning)
    search = {**manifests[0]["planner"], **planner}
    search["elites"] = min(search["elites"], search["candidates"])
    agent = RSSMCEM(model, CEM(**search), planning=planning)
    loaded = [checkpoints.load(agent, environment, path) for path in paths]
    return Deployed(
        agent,
        environment,
        arrays.concatenate([one.parameters for one in loaded]),
        [str(manifest["seed"]) for manifest in manifests],
        [one.digest for one in loaded],
    )


def planner_settings(said: list[str]) -> dict[str, Any]:
    """Settings of the search as a user writes them: `name=value`."""
    kinds: dict[str, type] = {name: type(value) for name, value in dataclasses.asdict(CEM()).items()}
    settings = {}
    for text in said:
        name, _, value = text.partition("=")
        if name not in kinds:
            raise WorldforkError(f"The planner has no setting {name!r}; it has {', '.join(kinds)}.")
        try:
            settings[name] = kinds[name](value)
        except ValueError:
            raise WorldforkError(f"`{text}`: {value!r} is no {kinds[name].__name__}.") from None
    return settings
