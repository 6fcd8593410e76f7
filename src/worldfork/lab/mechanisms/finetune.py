"""The paper's mechanism, held fixed: N gradient steps on the last W transitions (paper, "Problem setting")."""

from typing import Annotated

import numpy as np
from jaxtyping import UInt32
from pydantic import Field

from worldfork.lab.agents.base import Agent, Arrays, Window
from worldfork.lab.mechanisms.base import Mechanism, Update, unchanged, updated

__all__ = ["FineTune", "last"]


class FineTune(Mechanism):
    """`steps` gradient steps on the last `window` transitions; `scope` says what is trained."""

    rate: Annotated[float, Field(gt=0)] = 1.0  # share of the agent's own learning rates

    def update(
        self,
        agent: Agent,
        parameters: Arrays,
        *,
        optimiser: Arrays,
        window: Window,
        batch_keys: UInt32[np.ndarray, "P 2"],
    ) -> Update:
        """Train. No steps is no update: the branches are then one computation."""
        seen = last(window, self.window)
        if self.steps == 0:
            return unchanged(agent, parameters, optimiser=optimiser, window=seen)
        fit = agent.fit(
            parameters,
            optimiser,
            seen,
            steps=self.steps,
            scope=self.scope,
            batch_keys=batch_keys,
            rate=self.rate,
        )
        return updated(parameters, fit, seen)


def last(window: Window, length: int) -> Window:
    """The last `length` transitions of each stream, padded to that length or the window's own."""
    padded = window.reward.shape[1]
    if length >= padded:
        return window
    size = np.minimum(window.size, length)
    rows = np.minimum((window.size - size)[:, None] + np.arange(length), padded - 1)
    real = np.arange(length) < size[:, None]
    stream = np.arange(len(size))[:, None]

    def cut(values: np.ndarray) -> np.ndarray:
        kept = values[stream, rows]
        return np.where(real.reshape(*real.shape, *[1] * (kept.ndim - 2)), kept, np.zeros((), kept.dtype))

    return Window(
        observation=cut(window.observation),
        action=cut(window.action),
        reward=cut(window.reward),
        next_observation=cut(window.next_observation),
        first=cut(window.first),
        size=size,
    )
