"""The paper's mechanism, held fixed: N gradient steps on the last W transitions (paper, "Problem setting")."""

from typing import Annotated

import numpy as np
from jaxtyping import UInt32
from pydantic import Field

from worldfork.lab.agents.base import Agent, Arrays, Window
from worldfork.lab.mechanisms.base import Mechanism, Origin, Update, last, unchanged, updated

__all__ = ["FineTune"]


class FineTune(Mechanism):
    """`steps` gradient steps on the last `window` transitions; `scope` says what is trained."""

    rate: Annotated[float, Field(gt=0)] = 1.0  # share of the agent's own learning rates

    def update(
        self,
        agent: Agent,
        parameters: Arrays,
        *,
        optimiser: Arrays,
        origin: Origin,
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
        return updated(parameters, fit, seen, steps=self.steps)
