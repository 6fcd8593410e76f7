"""Fine-tune, then go only a share of the way."""

import dataclasses
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from worldfork.lab.agents.base import Window
from worldfork.lab.mechanisms.base import Mechanism, Origin, Update, last, unchanged, updated


class Blend(Mechanism):
    share: Annotated[float, Field(gt=0, le=1)] = 0.5

    def update(
        self,
        agent: Any,
        parameters: Any,
        *,
        optimiser: Any,
        origin: Origin,
        window: Window,
        batch_keys: np.ndarray,
    ) -> Update:
        seen = last(window, self.window)
        if self.steps == 0:
            return unchanged(agent, parameters, optimiser=optimiser, window=seen)
        fit = agent.fit(parameters, optimiser, seen, steps=self.steps, scope=self.scope, batch_keys=batch_keys)
        blended = {
            name: (1.0 - self.share) * old + self.share * fit.parameters[name] for name, old in parameters.items()
        }
        fit = dataclasses.replace(fit, parameters=blended, loss_after=agent.loss(blended, seen))
        return updated(parameters, fit, seen, steps=self.steps)
