"""Part of an update: only some parameters are trained, or only part of what training changed is kept.

Sources: system identification, which fits the dynamics and nothing else; "surgical" fine-tuning of one block, whose
best choice depends on what has shifted (Lee et al., 2023, arXiv:2210.11466); training of the last layers alone
(Kirichenko, Izmailov and Wilson, 2023, arXiv:2204.02937). Points between two sets of parameters: linear paths of
fine-tuned models (Wortsman et al., "Robust fine-tuning of zero-shot models", 2022, arXiv:2109.01903).
"""

import dataclasses
from typing import Annotated

from pydantic import Field

from worldfork.lab.agents.base import Agent, Fit, Window
from worldfork.lab.agents.training import Trainable, TrainingPlan, chosen_prefixes
from worldfork.lab.mechanisms.base import Origin
from worldfork.lab.mechanisms.finetune import Composed, InitialPoint


class Partial(Composed):
    """Trains the parameters of `groups`, as far as the scope trains them."""

    groups: Annotated[tuple[str, ...], Field(min_length=1)]

    def plan(self, agent: Agent, *, origin: Origin, window: Window) -> TrainingPlan:
        plain = super().plan(agent, origin=origin, window=window)
        return dataclasses.replace(plain, groups=self.groups)


class Interpolate(Composed):
    """Trains as `finetune` does, and keeps (1 - fraction) x before + fraction x after of each parameter.

    With `groups` all other parameters stay as they were before. Arms that differ in `fraction` show where along an
    update the return falls, and arms that differ in `groups` which module makes it fall. A fraction of 1 is
    `finetune`, and more than 1 goes beyond it. Losses, gradient and optimiser are those of the whole training.
    """

    fraction: Annotated[float, Field(gt=0, le=2)] = 1.0
    groups: tuple[str, ...] = ()  # none: all parameters

    def needs(self) -> list[str]:
        return [*super().needs(), "a part of an update"]

    def accept(self, agent: Agent, current: InitialPoint, fit: Fit, *, seen: Window) -> Fit:
        assert isinstance(agent, Trainable)
        kept = chosen_prefixes(agent, self.groups or None)
        between = dict(current.parameters)
        for name, before in current.parameters.items():
            if kept is None or name.startswith(kept):
                after = fit.parameters[name]
                between[name] = ((1.0 - self.fraction) * before + self.fraction * after).astype(before.dtype)
        return dataclasses.replace(fit, parameters=between)
