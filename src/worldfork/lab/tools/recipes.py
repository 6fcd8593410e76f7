"""Recipes for pretraining by the agent that they train: `agent` in the file, and the paper's without it."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from worldfork.errors import WorldforkError
from worldfork.lab.agents.rssm_cem.pretraining import recipe as rssm_cem
from worldfork.lab.agents.tdmpc2.pretraining import recipe as tdmpc2

__all__ = ["Recipe", "job_of", "read_recipe", "restore_recipe"]

Recipe = rssm_cem.Recipe | tdmpc2.Recipe
PAPER: Final = "rssm_cem"
# The module that trains a group of an agent's recipe; it needs libraries that a driver may lack.
JOBS: Final = {
    PAPER: "worldfork.lab.agents.rssm_cem.pretraining.job",
    "tdmpc2": "worldfork.lab.agents.tdmpc2.pretraining.job",
}
RESTORE: Final[dict[str, Callable[..., Recipe]]] = {
    PAPER: rssm_cem.restore_recipe,
    "tdmpc2": tdmpc2.restore_recipe,
}


def read_recipe(recipe: str | Path) -> Recipe:
    """The recipe in a TOML file, or the one of that name that comes with worldfork; or one clear error."""
    tables, path = rssm_cem.read_tables(recipe)
    return restore_recipe(tables, name=str(path))


def restore_recipe(tables: dict[str, object], *, name: str) -> Recipe:
    """A recipe from tables that were read, from a TOML file or a checkpoint's manifest."""
    return RESTORE[_agent(tables, name)](tables, name=name)


def job_of(recipe: Recipe) -> str:
    """The module that trains the groups of a recipe."""
    return JOBS["tdmpc2" if isinstance(recipe, tdmpc2.Recipe) else PAPER]


def _agent(tables: dict[str, object], name: str) -> str:
    agent = str(tables.get("agent", PAPER))
    if agent not in RESTORE:
        raise WorldforkError(
            f"{name} trains the agent {agent!r}, and recipes are for {', '.join(RESTORE)}: an agent of your own "
            "brings its checkpoints along."
        )
    return agent
