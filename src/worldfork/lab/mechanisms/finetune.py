"""The paper's mechanism, held fixed: N gradient steps on the last W transitions (paper, "Problem setting")."""

import dataclasses

import numpy as np
from jaxtyping import UInt32

from worldfork.errors import WorldforkError
from worldfork.lab.agents import arrays
from worldfork.lab.agents.base import Agent, Arrays, Window
from worldfork.lab.mechanisms.base import Update

__all__ = ["FineTune", "last"]


@dataclasses.dataclass(frozen=True)
class FineTune:
    """`steps` gradient steps on the last `window` transitions; `scope` says what is trained, `rate` is the share of
    the agent's own learning rates."""

    steps: int
    window: int
    scope: str = "model"
    rate: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.rate < float("inf"):
            raise WorldforkError(
                f"`rate` is a share of the agent's own learning rates, such as 0.1; got {self.rate}."
            )

    def update(
        self,
        agent: Agent,
        parameters: Arrays,
        optimiser: Arrays,
        window: Window,
        batch_keys: UInt32[np.ndarray, "P 2"],
    ) -> Update:
        """Train; an update that diverges is returned as it is, with its non-finite parameters counted."""
        seen = last(window, self.window)
        fit = agent.fit(
            parameters,
            optimiser,
            seen,
            steps=self.steps,
            scope=self.scope,
            batch_keys=batch_keys,
            rate=self.rate,
        )
        return Update(
            parameters=fit.parameters,
            optimiser=fit.optimiser,
            loss_before=fit.loss_before,
            loss_after=fit.loss_after,
            grad_norm=fit.grad_norm,
            param_shift=arrays.shift(parameters, fit.parameters),
            window=seen.size,
            non_finite=arrays.count_non_finite(fit.parameters),
        )


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
