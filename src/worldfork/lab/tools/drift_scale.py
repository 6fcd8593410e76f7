"""How far a task's physics drifts: a rule that looks at HOLD alone, never at dR (docs/protocol.md).

On a registered grid, the scale is the first at which the mean frozen return of the checkpoints falls to half of its
clean value; where none does, the end of the grid.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
from jaxtyping import Float64

from worldfork.errors import WorldforkError
from worldfork.lab.agents.base import Agent, Arrays
from worldfork.lab.environments import load
from worldfork.lab.episodes.standing import standing_returns

__all__ = ["GRIDS", "frozen_returns", "registered_scale"]

UPWARDS: Final = (1.0, 1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 2.75, 3.0)
GRIDS: Final = {
    "cartpole-swingup": UPWARDS,  # gravity
    "walker-walk": (1.0, 0.75, 0.5, 0.25, 0.1, 0.05),  # friction
    "cheetah-run": UPWARDS,
    "hopper-hop": (1.0, 0.75, 0.5, 0.25, 0.1),
}


def frozen_returns(
    agent: Agent,
    task: str,
    parameters: Arrays,
    *,
    checkpoints: list[str],
    episodes: int,
    threads: int | None = None,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> Float64[np.ndarray, "G P E"]:
    """Returns of every checkpoint at every scale of the task's grid, on the same episodes throughout."""
    if task not in GRIDS:
        raise WorldforkError(
            f"There is no grid of drift scales for {task!r}; there are grids for {', '.join(GRIDS)}."
        )
    grid = GRIDS[task]
    environment = load(task, scale=grid[-1], threads=threads)
    rows = []
    for done, scale in enumerate(grid):
        level = (scale - 1.0) / (grid[-1] - 1.0)
        rows.append(
            standing_returns(
                agent,
                environment,
                parameters,
                checkpoints=checkpoints,
                episodes=episodes,
                occasion="calibrate-drift",
                level=min(1.0, level),
            )
        )
        report(done + 1, len(grid))
    return np.stack(rows)


def registered_scale(grid: tuple[float, ...], means: Float64[np.ndarray, " G"]) -> float:
    """The rule. `means[0]` is the clean return.

    >>> registered_scale((1.0, 1.5, 2.0), np.array([800.0, 500.0, 390.0]))
    2.0
    >>> registered_scale((1.0, 1.5, 2.0), np.array([800.0, 500.0, 410.0]))  # none falls to half: the end
    2.0
    """
    fallen = [scale for scale, mean in zip(grid, means, strict=True) if mean <= means[0] / 2]
    return fallen[0] if fallen else grid[-1]
