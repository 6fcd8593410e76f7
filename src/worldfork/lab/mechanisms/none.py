"""The null mechanism: UPDATE is HOLD, and every dR must be exactly zero."""

import numpy as np
from jaxtyping import UInt32

from worldfork.lab.agents.base import Agent, Arrays, Window
from worldfork.lab.mechanisms.base import Mechanism, Origin, Update, last, unchanged


class Nothing(Mechanism):
    """The null update: it returns what it was given."""

    def dose(self, agent: Agent, transitions: int) -> int:
        return 0

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
        """Return the identity."""
        return unchanged(agent, parameters, optimiser=optimiser, window=last(window, self.window))
