"""The paper's agent: an RSSM that filters, CEM that plans through it, and how its checkpoints are trained."""

from worldfork.lab.agents.rssm_cem.plugin import RSSMCEMPlugin

__all__ = ["RSSMCEMPlugin"]
