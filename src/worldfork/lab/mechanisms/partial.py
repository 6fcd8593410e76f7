"""Fine-tuning of some parameters alone, the others frozen.

Sources: system identification, which fits the dynamics and nothing else; "surgical" fine-tuning of one block, whose
best choice depends on what has shifted (Lee et al., 2023, arXiv:2210.11466); training of the last layers alone
(Kirichenko, Izmailov and Wilson, 2023, arXiv:2204.02937).
"""

import dataclasses
from typing import Annotated

from pydantic import Field

from worldfork.lab.agents.base import Agent, Window
from worldfork.lab.agents.training import Trainable, TrainingPlan
from worldfork.lab.mechanisms.base import Origin
from worldfork.lab.mechanisms.finetune import Composed


class Partial(Composed):
    """Trains the parameters of `groups`, as far as the scope trains them."""

    groups: Annotated[tuple[str, ...], Field(min_length=1)]

    def needs(self) -> list[str]:
        return [*super().needs(), "groups of parameters"]

    def objection(self, agent: Agent, *, shortest: int, longest: int) -> str:
        refusal = super().objection(agent, shortest=shortest, longest=longest)
        return refusal or grouping_objection(agent, self.groups, scope=self.scope)

    def plan(self, agent: Agent, *, origin: Origin, window: Window) -> TrainingPlan:
        plain = super().plan(agent, origin=origin, window=window)
        return dataclasses.replace(plain, groups=self.groups)


def grouping_objection(agent: Agent, groups: tuple[str, ...], *, scope: str) -> str:
    """Return what is wrong with the groups that were registered for this agent; "" if nothing is."""
    assert isinstance(agent, Trainable)
    for group in groups:
        if group not in agent.groups:
            return f"there is no group of parameters {group!r} here; the agent has {', '.join(agent.groups)}."
        if not any(agent.trained(scope, prefix) for prefix in agent.groups[group]):
            return f"the group {group!r} has no part in the scope {scope!r}: it would stay as it is."
    return ""
