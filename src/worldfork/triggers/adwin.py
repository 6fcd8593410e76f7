"""Adaptive windowing over the error of every step (Bifet and Gavalda, 2007, "Learning from time-changing data").

A window grows for as long as no cut through it separates two means that differ by more than chance allows. It is
kept as sums of 1, 2, 4, ... errors, at most five of each, and cuts lie between the sums. So its memory grows with
the logarithm of its width. The algorithm then drops the oldest part of the window. Here, as in river, the alarm is
what counts, and a new window begins after it.
"""

import dataclasses
import math
from typing import Final

import numpy as np
from jaxtyping import Float
from pydantic import Field

from worldfork.randomness import Event
from worldfork.triggers.base import CellKey, Detector

# As in river: errors between two looks, sums of one length, and the fewest errors in a window and on a cut's side.
CLOCK: Final = 32
OF_A_LENGTH: Final = 5
SHORTEST_WINDOW: Final = 10
SHORTEST_SIDE: Final = 5


@dataclasses.dataclass
class _Window:
    """The errors since the last alarm: how many, their sums by length, their total and their spread."""

    width: int = 0
    sums: list[list[float]] = dataclasses.field(default_factory=list)  # of 1, 2, 4, ... errors, the oldest first
    total: float = 0.0
    spread: float = 0.0  # the sum of squared deviations from the mean

    def copy(self) -> "_Window":
        return _Window(self.width, [list(row) for row in self.sums], self.total, self.spread)

    def add(self, error: float) -> None:
        off = error - self.total / max(self.width, 1)
        self.spread += self.width * off * off / (self.width + 1)
        self.width += 1
        self.total += error
        added = error
        for row in self.sums:
            row.append(added)
            if len(row) <= OF_A_LENGTH:
                return
            added = row.pop(0) + row.pop(0)
        self.sums.append([added])

    def has_cut(self, delta: float) -> bool:
        """Return True if the means on both sides of some cut differ by more than chance allows."""
        parts = np.array([each for row in reversed(self.sums) for each in row])
        lengths = np.repeat(
            [2**place for place in range(len(self.sums))][::-1], [len(row) for row in self.sums][::-1]
        )
        older, older_total = np.cumsum(lengths), np.cumsum(parts)
        newer, newer_total = self.width - older, self.total - older_total
        allowed = (older >= SHORTEST_SIDE) & (newer >= SHORTEST_SIDE)
        older, newer, older_total, newer_total = (
            values[allowed] for values in (older, newer, older_total, newer_total)
        )
        confidence = math.log(2 * math.log(self.width) / delta)
        inverse = 1 / (older - SHORTEST_SIDE + 1) + 1 / (newer - SHORTEST_SIDE + 1)
        by_chance = np.sqrt(2 * inverse * self.spread / self.width * confidence) + 2 / 3 * confidence * inverse
        return bool((np.abs(older_total / older - newer_total / newer) > by_chance).any())


class Adwin(Detector):
    """ADWIN with river's alarms (a test holds them against each other).

    Args:
        delta: the probability of a false alarm at one look.

    >>> trigger = Adwin(delta=0.01)
    """

    delta: float = Field(default=0.002, gt=0, lt=1)

    def begin(self, cell: CellKey, *, event: Event) -> _Window:
        return _Window()

    def show(self, memory: _Window, errors: Float[np.ndarray, "shown"]) -> tuple[_Window, bool]:
        window, alarmed = memory.copy(), False
        for error in errors.tolist():
            window.add(error)
            if window.width % CLOCK == 0 and window.width > SHORTEST_WINDOW and window.has_cut(self.delta):
                window, alarmed = _Window(), True
        return window, alarmed
