"""Adaptive windowing over the error of every step (Bifet and Gavalda, 2007, "Learning from time-changing data").

A window grows for as long as no cut through it separates two means that differ by more than chance allows. It is
kept as an exponential histogram: sums of 1, 2, 4, ... errors, a few of each, the oldest the longest, and cuts lie
between them. The algorithm then drops the window's oldest part and goes on. Here, as in river, the alarm is what
counts and a fresh window begins with the error after it, so that no sum's own spread need be kept.
"""

import dataclasses
import math

import numpy as np
from jaxtyping import Float
from pydantic import Field

from worldfork.randomness import Event
from worldfork.triggers.base import CellKey
from worldfork.triggers.detectors import Detector

__all__ = ["Adwin"]

# As in river: errors between two looks, sums of one length, and the fewest errors in a window and on a cut's side.
CLOCK, OF_A_LENGTH, SHORTEST_WINDOW, SHORTEST_SIDE = 32, 5, 10, 5


@dataclasses.dataclass
class _Window:
    """The errors since the last alarm."""

    sums: list[list[float]] = dataclasses.field(default_factory=lambda: [[]])  # [r]: of 2 ** r errors, oldest first
    width: int = 0
    total: float = 0.0
    spread: float = 0.0  # of all squared deviations from the mean


class Adwin(Detector):
    """The alarms are river's (a test holds them against each other)."""

    delta: float = Field(default=0.002, gt=0, lt=1)

    def begin(self, cell: CellKey, *, event: Event) -> _Window:
        return _Window()

    def show(self, memory: _Window, errors: Float[np.ndarray, "shown"]) -> tuple[_Window, bool]:
        window, alarmed = memory, False
        for error in errors.tolist():
            _add(window, error)
            if window.width % CLOCK == 0 and window.width > SHORTEST_WINDOW and _has_cut(window, self.delta):
                window, alarmed = _Window(), True
        return window, alarmed


def _add(window: _Window, error: float) -> None:
    """One error more, and pairs of sums joined where there are too many of a length."""
    before = window.width
    window.width = before + 1
    if before:
        off = error - window.total / before
        window.spread += before * off * off / window.width
    window.total += error
    sums = window.sums
    sums[0].append(error)
    row = 0
    while len(sums[row]) > OF_A_LENGTH:
        if row + 1 == len(sums):
            sums.append([])
        sums[row + 1].append(sums[row][0] + sums[row][1])
        del sums[row][:2]
        row += 1


def _has_cut(window: _Window, delta: float) -> bool:
    """Whether the means before and after some cut differ by more than chance allows."""
    width, variance = window.width, window.spread / window.width
    confidence = math.log(2 * math.log(width) / delta)
    older, newer, older_total, newer_total = 0, width, 0.0, window.total
    for row in range(len(window.sums) - 1, -1, -1):
        length = 2**row
        for total in window.sums[row]:
            older, newer = older + length, newer - length
            older_total, newer_total = older_total + total, newer_total - total
            if older < SHORTEST_SIDE or newer < SHORTEST_SIDE:
                continue
            inverse = 1 / (older - SHORTEST_SIDE + 1) + 1 / (newer - SHORTEST_SIDE + 1)
            allowed = math.sqrt(2 * inverse * variance * confidence) + 2 / 3 * confidence * inverse
            if abs(older_total / older - newer_total / newer) > allowed:
                return True
    return False
