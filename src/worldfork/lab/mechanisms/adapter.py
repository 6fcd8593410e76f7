"""Low-rank adapters: a small correction is trained beside each weight matrix, and added to it at the end.

Sources: Hu et al., "LoRA: low-rank adaptation of large language models", 2021, arXiv:2106.09685; updates of world
models at deployment by such adapters in "AdaWorldPolicy" (2026, arXiv:2602.20057).
"""

import dataclasses
from typing import Annotated

from pydantic import Field

from worldfork.lab.agents.base import Agent, Window
from worldfork.lab.agents.training import Adapter, TrainingPlan
from worldfork.lab.mechanisms.base import Origin
from worldfork.lab.mechanisms.finetune import Composed


class LowRank(Composed):
    """W + scale / rank x left x right for every weight matrix W of `groups`; `left` is drawn, `right` begins at 0.

    The factors are merged into W when the update ends and begin anew at the next. Their optimiser begins anew too.
    """

    rank: Annotated[int, Field(ge=1)] = 4
    scale: Annotated[float, Field(gt=0)] | None = None  # None: the rank
    groups: Annotated[tuple[str, ...], Field(min_length=1)] = ("dynamics",)

    def needs(self) -> list[str]:
        return [*super().needs(), "adapters beside its weights"]

    def plan(self, agent: Agent, *, origin: Origin, window: Window) -> TrainingPlan:
        plain = super().plan(agent, origin=origin, window=window)
        scale = float(self.rank) if self.scale is None else self.scale
        return dataclasses.replace(plain, groups=self.groups, adapter=Adapter(self.rank, scale))
