"""The agents there are. An agent is a module and one line here (docs/extending.md)."""

import dataclasses
import importlib
from collections.abc import Callable
from typing import Any, Final

from worldfork.errors import WorldforkError

__all__ = ["CATALOGUE", "Entry", "entry"]


@dataclasses.dataclass(frozen=True)
class Entry:
    """Where an agent's functions are, as "module:function" so that nothing is imported before it is needed."""

    build: str  # (environment, settings, precision) -> Agent
    generate: str | None = None  # (agent, environment, event) -> Checkpoint, from a seed
    load: str | None = None  # (agent, environment, path) -> Checkpoint, from a file
    packages: tuple[str, ...] = ()  # whose versions are part of a ledger's identity, besides NumPy

    def function(self, name: str) -> Callable[..., Any] | None:
        """The function behind `build`, `generate` or `load`."""
        spelled = getattr(self, name)
        if spelled is None:
            return None
        module, _, attribute = spelled.partition(":")
        found: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
        return found


CATALOGUE: Final = {
    "linear_quadratic": Entry(
        build="worldfork.lab.agents.linear_quadratic:build",
        generate="worldfork.lab.agents.linear_quadratic:generate",
        packages=("scipy",),
    ),
    "rssm_cem": Entry(
        build="worldfork.lab.agents.rssm_cem.agent:build",
        load="worldfork.lab.agents.rssm_cem.checkpoints:load",
        packages=("jax", "jaxlib", "optax"),
    ),
}


def entry(name: str) -> Entry:
    """The agent called `name`."""
    if name not in CATALOGUE:
        raise WorldforkError(f"There is no agent {name!r}. Known agents: {', '.join(sorted(CATALOGUE))}.")
    return CATALOGUE[name]
