"""Baselines: rules that no candidate should lose to, and that read nothing a deployment would."""

import dataclasses
import math
from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np
from jaxtyping import Float, UInt32
from pydantic import Field

from worldfork.randomness import Event, Purpose, fold_in, normals, words
from worldfork.triggers.base import Answer, CellKey, Segment, Trigger

TOGETHER: Final = 32


class Reference(Trigger):
    """A baseline without a memory."""

    reference: ClassVar = True

    def begin(self, cell: CellKey, *, event: Event) -> None:
        return None


class DriftOracle(Reference):
    """The simulator's own drift level, which no deployment reads (registered family 8): a ceiling, not a rule."""

    silent: ClassVar = "the table has no `level` column"

    def decide(self, memory: None, segment: Segment) -> tuple[None, float | None]:
        return memory, None if math.isnan(segment.level) else segment.level


class Periodic(Reference):
    """A fixed schedule: fires at every 4th decision point (registered family 6)."""

    period: int = Field(default=4, ge=1)

    def decide(self, memory: None, segment: Segment) -> tuple[None, bool]:
        return memory, segment.k % self.period == 0


class Clock(Reference):
    """The decision point k itself: what a trigger must beat to have read anything but time."""

    def decide(self, memory: None, segment: Segment) -> tuple[None, float]:
        return memory, float(segment.k)


class Coin(Trigger):
    """Random triggering (registered family 7): a standard normal per decision point, from the cell and k alone.

    Each policy also has its own rate-matched random control (analysis/score), which is the comparison that
    counts; this one goes through the same thresholds as the rest and shows what they make of noise.
    """

    reference: ClassVar = True

    def begin(self, cell: CellKey, *, event: Event) -> "_Drawn":
        return _Drawn(words(event))

    def decide(self, memory: "_Drawn", segment: Segment) -> tuple["_Drawn", Answer]:
        ((memory, drawn),) = self.decide_together([memory], [segment])
        return memory, drawn

    def decide_together(
        self, memories: Sequence["_Drawn"], segments: Sequence[Segment]
    ) -> list[tuple["_Drawn", Answer]]:
        draws, firsts = list(memories), [segment.k - segment.k % TOGETHER for segment in segments]
        lacking = [index for index, first in enumerate(firsts) if draws[index].first != first]
        if lacking:
            counters = np.array([firsts[index] for index in lacking])[:, None] + np.arange(TOGETHER)
            keys = fold_in(np.array([draws[index].key for index in lacking])[:, None], counters)
            drawn = normals(keys, 1, Purpose.RESAMPLING)[..., 0]
            for index, values in zip(lacking, drawn, strict=True):
                draws[index] = _Drawn(draws[index].key, firsts[index], values)
        return [
            (memory, float(memory.values[segment.k - memory.first]))
            for memory, segment in zip(draws, segments, strict=True)
        ]


@dataclasses.dataclass(frozen=True)
class _Drawn:
    """A cell's key, and the draws of the decision points around the last one: many cost as much as one."""

    key: UInt32[np.ndarray, "2"]
    first: int = -1
    values: Float[np.ndarray, "some"] = dataclasses.field(default_factory=lambda: np.empty(0))
