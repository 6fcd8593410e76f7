"""Fine-tuning of some parameters alone, the others frozen.

Sources: system identification, which fits the dynamics and nothing else; "surgical" fine-tuning of one block, whose
best choice depends on what has shifted (Lee et al., 2023, arXiv:2210.11466); training of the last layers alone
(Kirichenko, Izmailov and Wilson, 2023, arXiv:2204.02937).
"""

import dataclasses
from typing import Annotated

from pydantic import Field

from worldfork.lab.agents.base import Agent, Window
from worldfork.lab.agents.training import TrainingPlan
from worldfork.lab.mechanisms.base import Origin
from worldfork.lab.mechanisms.finetune import Composed


class Partial(Composed):
    """Trains the parameters of `groups`, as far as the scope trains them."""

    groups: Annotated[tuple[str, ...], Field(min_length=1)]

    def plan(self, agent: Agent, *, origin: Origin, window: Window) -> TrainingPlan:
        plain = super().plan(agent, origin=origin, window=window)
        return dataclasses.replace(plain, groups=self.groups)
