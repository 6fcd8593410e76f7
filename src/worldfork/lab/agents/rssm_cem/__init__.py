"""The paper's agent: an RSSM that filters, CEM that plans through it, and how its checkpoints are trained."""

from pathlib import Path
from typing import Any

from pydantic import ConfigDict

from worldfork.lab.agents.base import Agent, AgentPlugin, Checkpoint
from worldfork.lab.environments.base import Environment

__all__ = ["RSSMCEMPlugin"]


class RSSMCEMPlugin(AgentPlugin):
    """The agent by name; settings are `size` and any field of the model, the planner, or the agent itself."""

    model_config = ConfigDict(extra="allow")
    packages = ("jax", "jaxlib", "optax")

    def build(self, environment: Environment, *, precision: str) -> Agent:
        from worldfork.lab.agents.rssm_cem.agent import build

        return build(environment, self.model_dump(), precision)

    def load(self, agent: Any, environment: Any, path: Path) -> Checkpoint:
        from worldfork.lab.agents.rssm_cem.checkpoints import load

        return load(agent, environment, path)
