"""Adaptive windowing over the error of every step (Bifet and Gavalda, 2007, "Learning from time-changing data").

A window grows for as long as no cut through it separates two means that differ by more than chance allows. It is
kept as an exponential histogram: sums of 1, 2, 4, ... errors, a few of each, the oldest the longest, and cuts lie
between them. The algorithm then drops the window's oldest part and goes on. Here, as in river, the alarm is what
counts and a fresh window begins with the error after it, so that no sum's own spread need be kept. Where the cuts
of a window lie depends on its width alone, so windows of one width are looked at side by side.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from pydantic import Field

from worldfork.randomness import Event
from worldfork.triggers.base import CellKey
from worldfork.triggers.detectors import Detector

__all__ = ["Adwin"]

# As in river: errors between two looks, sums of one length, and the fewest errors in a window and on a cut's side.
CLOCK, OF_A_LENGTH, SHORTEST_WINDOW, SHORTEST_SIDE = 32, 5, 10, 5


@dataclasses.dataclass(frozen=True)
class _Window:
    """The errors since the last alarm, their sum, and the sum of their squared deviations from the mean."""

    errors: Float[np.ndarray, "width"] = dataclasses.field(default_factory=lambda: np.zeros(0))
    total: float = 0.0
    spread: float = 0.0


class Adwin(Detector):
    """The alarms are river's (a test holds them against each other)."""

    delta: float = Field(default=0.002, gt=0, lt=1)

    def begin(self, cell: CellKey, *, event: Event) -> _Window:
        return _Window()

    def show(self, memory: _Window, errors: Float[np.ndarray, "shown"]) -> tuple[_Window, bool]:
        return self.show_together([memory], [errors])[0]

    def show_together(
        self, memories: Sequence[_Window], errors: Sequence[Float[np.ndarray, "_"]]
    ) -> list[tuple[_Window, bool]]:
        windows, left, alarmed = list(memories), list(errors), [False] * len(memories)
        while waiting := [index for index, shown in enumerate(left) if len(shown)]:
            alike: dict[tuple[int, int], list[int]] = {}
            for index in waiting:
                alike.setdefault((len(windows[index].errors), len(left[index])), []).append(index)
            for group in alike.values():
                grown = _grown([windows[index] for index in group], [left[index] for index in group], self.delta)
                for index, (window, unread) in zip(group, grown, strict=True):
                    alarmed[index] |= unread is not None
                    left[index] = left[index][:0] if unread is None else left[index][len(left[index]) - unread :]
                    windows[index] = window
        return list(zip(windows, alarmed, strict=True))


def _grown(
    windows: Sequence[_Window], shown: Sequence[Float[np.ndarray, "_"]], delta: float
) -> list[tuple[_Window, int | None]]:
    """Windows of one width after as many more errors each; or, after an alarm, a fresh one and how many of the
    errors have not been read."""
    errors = np.stack([np.concatenate([window.errors, more]) for window, more in zip(windows, shown, strict=True)])
    width, before = errors.shape[1], len(windows[0].errors)
    counts = np.arange(before, width)  # errors in the window before each new one
    new = errors[:, before:]
    totals = _running([window.total for window in windows], new)
    off = new - totals[:, :-1] / np.maximum(counts, 1)
    spreads = _running([window.spread for window in windows], counts * off * off / (counts + 1))
    alarms = np.zeros(len(windows), dtype=np.int64)  # the width at which it alarmed
    sums = _sums(errors)
    for looked in range(before - before % CLOCK + CLOCK, width + 1, CLOCK):
        if looked > SHORTEST_WINDOW:
            place = looked - before
            cut = _has_cut(sums, looked, totals[:, place], spreads[:, place], delta)
            alarms[(alarms == 0) & cut] = looked
    return [
        (_Window(), width - int(alarm)) if alarm else (_Window(row, float(total), float(spread)), None)
        for row, total, spread, alarm in zip(errors, totals[:, -1], spreads[:, -1], alarms, strict=True)
    ]


def _running(
    first: Sequence[float], added: Float[np.ndarray, "windows shown"]
) -> Float[np.ndarray, "windows shown+1"]:
    return np.add.accumulate(np.column_stack([first, added]), axis=1)


def _sums(errors: Float[np.ndarray, "windows width"]) -> list[Float[np.ndarray, "windows _"]]:
    """The sums of 1, 2, 4, ... errors from the oldest on."""
    sums = [errors]
    while sums[-1].shape[1] > 1:
        pairs = sums[-1][:, : sums[-1].shape[1] // 2 * 2]
        sums.append(pairs[:, ::2] + pairs[:, 1::2])
    return sums


@functools.cache
def _histogram(width: int) -> tuple[list[tuple[int, int, int]], Int[np.ndarray, "cuts"]]:
    """Which sums a window of this width consists of, from the oldest on: their row, the first and the one after the
    last; and how many errors precede each cut. When a row has one too many, its two oldest are joined."""
    rows, count, row = [], width, 0
    while count:
        joined = max(0, (count - OF_A_LENGTH + 1) // 2)
        rows.append((row, 2 * joined, count))
        count, row = joined, row + 1
    rows.reverse()
    return rows, np.cumsum(np.concatenate([np.full(end - start, 2**row) for row, start, end in rows]))


def _has_cut(
    sums: Sequence[Float[np.ndarray, "windows _"]],
    width: int,
    total: Float[np.ndarray, "windows"],
    spread: Float[np.ndarray, "windows"],
    delta: float,
) -> np.ndarray:
    """Whether the means before and after some cut differ by more than chance allows, in the first `width` errors of
    every window."""
    rows, older = _histogram(width)
    parts = np.concatenate([sums[row][:, start:end] for row, start, end in rows], axis=1)
    older_total = np.add.accumulate(parts, axis=1)
    newer_total = np.subtract.accumulate(np.column_stack([total, parts]), axis=1)[:, 1:]
    newer = width - older
    allowed_cuts = (older >= SHORTEST_SIDE) & (newer >= SHORTEST_SIDE)
    older, newer = older[allowed_cuts], newer[allowed_cuts]
    confidence = math.log(2 * math.log(width) / delta)
    inverse = 1 / (older - SHORTEST_SIDE + 1) + 1 / (newer - SHORTEST_SIDE + 1)
    variance = (spread / width)[:, None]
    by_chance = np.sqrt(2 * inverse * variance * confidence) + 2 / 3 * confidence * inverse
    apart = np.abs(older_total[:, allowed_cuts] / older - newer_total[:, allowed_cuts] / newer)
    return np.asarray((apart > by_chance).any(axis=1))
