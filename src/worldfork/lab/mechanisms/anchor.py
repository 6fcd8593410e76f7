"""Fine-tuning on a leash: a quadratic penalty holds the parameters near those of the checkpoint.

Sources: L2 toward the starting point (Li, Grandvalet and Davoine, "Explicit inductive bias for transfer learning
with convolutional networks", 2018, arXiv:1802.01483; against loss of plasticity, Kumar, Marklund and Van Roy,
"Maintaining plasticity via regenerative regularization", 2023, arXiv:2308.11958); elastic weight consolidation
(Kirkpatrick et al., "Overcoming catastrophic forgetting in neural networks", 2017, arXiv:1612.00796).
"""

import dataclasses
from typing import Annotated, Literal

from pydantic import Field

from worldfork.lab.agents.base import Agent, Window
from worldfork.lab.agents.training import L2Penalty, TrainingPlan
from worldfork.lab.mechanisms.base import Origin
from worldfork.lab.mechanisms.finetune import Composed


class Anchor(Composed):
    """The loss plus strength/2 x the sum of importance x (parameter - the checkpoint's)**2.

    The importance is 1 for all, or the diagonal of the Fisher information on the replay of pretraining: then it is
    EWC. The penalty's gradient passes through the optimiser as the loss's does.
    """

    strength: Annotated[float, Field(gt=0)]
    importance: Literal["uniform", "fisher"] = "uniform"

    @property
    def reads_replay(self) -> bool:
        return self.importance == "fisher"

    def needs(self) -> list[str]:
        return [*super().needs(), "a penalty on parameters"]

    def plan(self, agent: Agent, *, origin: Origin, window: Window) -> TrainingPlan:
        plain = super().plan(agent, origin=origin, window=window)
        return dataclasses.replace(plain, penalty=L2Penalty(origin.parameters, self.strength, origin.replay))
