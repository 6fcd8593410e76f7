"""Baselines: rules that no candidate should lose to, and that read nothing a deployment would."""

import math
from typing import ClassVar

import numpy as np
from jaxtyping import UInt32
from pydantic import Field

from worldfork.randomness import Event, Purpose, fold_in, normals, words
from worldfork.triggers.base import CellKey, Segment, Trigger


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

    def begin(self, cell: CellKey, *, event: Event) -> UInt32[np.ndarray, "2"]:
        return words(event)

    def decide(self, memory: UInt32[np.ndarray, "2"], segment: Segment) -> tuple[UInt32[np.ndarray, "2"], float]:
        return memory, float(normals(fold_in(memory, segment.k), 1, Purpose.RESAMPLING)[0])
