"""The null mechanism: UPDATE is HOLD, and every dR must be exactly zero."""

import dataclasses

import numpy as np
from jaxtyping import UInt32

from worldfork.lab.agents.base import Agent, Arrays, Window
from worldfork.lab.mechanisms.base import Update
from worldfork.lab.mechanisms.finetune import last

__all__ = ["Nothing"]


@dataclasses.dataclass(frozen=True)
class Nothing:
    """Returns what it was given."""

    window: int

    def update(
        self,
        agent: Agent,
        parameters: Arrays,
        optimiser: Arrays,
        window: Window,
        batch_keys: UInt32[np.ndarray, "P 2"],
    ) -> Update:
        """The identity. The loss is read all the same: it is what an update would have started from."""
        seen = last(window, self.window)
        loss = agent.loss(parameters, seen)
        zero, none = np.zeros(len(loss)), np.zeros(len(loss), np.int64)
        return Update(parameters, optimiser, loss, loss, zero, zero, seen.size, none)
