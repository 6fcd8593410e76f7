"""An alarm when the models disagree more than they did at first."""

from typing import Any, ClassVar

import numpy as np

from worldfork.triggers import Segment, Trigger


class Surge(Trigger):
    needs: ClassVar = ("disagreement",)

    factor: float = 1.1

    def begin(self, cell: Any, *, event: Any) -> list[float]:
        return []

    def decide(self, memory: list[float], segment: Segment) -> tuple[list[float], bool]:
        now = float(np.mean(segment.steps["disagreement"]))
        return [*memory, now], bool(memory) and now > self.factor * memory[0]
