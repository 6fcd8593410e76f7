"""Adaptive windowing over the error of every step (Bifet and Gavalda, 2007, "Learning from time-changing data").

A window grows for as long as no cut through it separates two means that differ by more than chance allows. It is
kept as an exponential histogram: sums of 1, 2, 4, ... errors, at most five of each, the oldest the longest, and
cuts lie between them. So its memory grows with the logarithm of its width. The algorithm then drops the window's
oldest part and goes on. Here, as in river, the alarm is what counts and a fresh window begins with the error after
it, so that no sum's own spread need be kept. Where the cuts of a window lie depends on its width alone, so windows
of one width are looked at side by side.
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

# As in river: errors between two looks, sums of one length, and the fewest errors in a window and on a cut's side.
CLOCK, OF_A_LENGTH, SHORTEST_WINDOW, SHORTEST_SIDE = 32, 5, 10, 5


@dataclasses.dataclass(frozen=True)
class _Window:
    """The errors since the last alarm: how many, sums of 1, 2, 4, ... of them, their sum and their spread."""

    width: int = 0
    sums: tuple[Float[np.ndarray, "_"], ...] = ()  # by length, the oldest first
    total: float = 0.0
    spread: float = 0.0  # the sum of squared deviations from the mean


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
        return self.show_together([memory], [errors])[0]

    def show_together(
        self, memories: Sequence[_Window], errors: Sequence[Float[np.ndarray, "_"]]
    ) -> list[tuple[_Window, bool]]:
        windows, left, alarmed = list(memories), list(errors), [False] * len(memories)
        while waiting := [index for index, shown in enumerate(left) if len(shown)]:
            by_width: dict[tuple[int, int], list[int]] = {}
            for index in waiting:
                by_width.setdefault((windows[index].width, len(left[index])), []).append(index)
            for group in by_width.values():
                grown = _grown([windows[index] for index in group], [left[index] for index in group], self.delta)
                for index, (window, unread) in zip(group, grown, strict=True):
                    alarmed[index] |= unread is not None
                    left[index] = left[index][:0] if unread is None else left[index][len(left[index]) - unread :]
                    windows[index] = window
        return list(zip(windows, alarmed, strict=True))


def _grown(
    windows: Sequence[_Window], shown: Sequence[Float[np.ndarray, "_"]], delta: float
) -> list[tuple[_Window, int | None]]:
    """Return windows of one width after as many more errors each; or, after an alarm, a fresh one and how many of
    the errors have not been read."""
    new, before = np.stack(shown), windows[0].width
    width = before + new.shape[1]
    counts = np.arange(before, width)  # errors in the window before each new one
    totals = _running([window.total for window in windows], new)
    off = new - totals[:, :-1] / np.maximum(counts, 1)
    spreads = _running([window.spread for window in windows], counts * off * off / (counts + 1))
    alarms = np.zeros(len(windows), dtype=np.int64)  # the width at which it alarmed
    sums, firsts = _sums(windows, new)
    for looked in range(before - before % CLOCK + CLOCK, width + 1, CLOCK):
        if looked > SHORTEST_WINDOW:
            place = looked - before
            parts = np.concatenate(_parts(sums, firsts, looked)[::-1], axis=1)
            cut = _has_cut(parts, looked, totals[:, place], spreads[:, place], delta)
            alarms[(alarms == 0) & cut] = looked
    kept = _parts(sums, firsts, width)
    return [
        (_Window(), width - int(alarm))
        if alarm
        else (_Window(width, tuple(row[index] for row in kept), float(total), float(spread)), None)
        for index, (total, spread, alarm) in enumerate(zip(totals[:, -1], spreads[:, -1], alarms, strict=True))
    ]


def _running(
    first: Sequence[float], added: Float[np.ndarray, "windows shown"]
) -> Float[np.ndarray, "windows shown+1"]:
    return np.add.accumulate(np.column_stack([first, added]), axis=1)


def _sums(
    windows: Sequence[_Window], new: Float[np.ndarray, "windows shown"]
) -> tuple[list[Float[np.ndarray, "windows _"]], list[int]]:
    """Return the sums of 1, 2, 4, ... errors that the windows keep, with those that the new errors add, and the
    place of the first of each length among all sums of that length since the window began."""
    layout = _histogram(windows[0].width)[0]
    sums: list[np.ndarray] = []
    firsts: list[int] = []
    added = new
    while added.shape[1] or len(sums) < len(layout):
        length = len(sums)
        kept = [window.sums[length] for window in windows] if length < len(layout) else np.zeros((len(new), 0))
        sums.append(np.concatenate([kept, added], axis=1))
        firsts.append(layout[length][0] if length < len(layout) else 0)
        pairs = sums[-1][:, : sums[-1].shape[1] // 2 * 2]
        added = pairs[:, ::2] + pairs[:, 1::2]
    return sums, firsts


def _parts(
    sums: Sequence[Float[np.ndarray, "windows _"]], firsts: Sequence[int], width: int
) -> list[Float[np.ndarray, "windows _"]]:
    """Return the sums that windows of this width consist of, by length."""
    layout = _histogram(width)[0]
    return [sums[row][:, start - firsts[row] : end - firsts[row]] for row, (start, end) in enumerate(layout)]


@functools.cache
def _histogram(width: int) -> tuple[list[tuple[int, int]], Int[np.ndarray, "cuts"]]:
    """Return the sums that a window of this width consists of, and how many errors precede each cut.

    For each length 1, 2, 4, ... they are the first sum and the one after the last, counted since the window began.
    When there is one too many of a length, the two oldest are joined.
    """
    layout, count = [], width
    while count:
        joined = max(0, (count - OF_A_LENGTH + 1) // 2)
        layout.append((2 * joined, count))
        count = joined
    lengths = [np.full(end - start, 2**row) for row, (start, end) in enumerate(layout)]
    return layout, np.cumsum(np.concatenate([*lengths[::-1], np.zeros(0, np.int64)]))


def _has_cut(
    parts: Float[np.ndarray, "windows cuts"],
    width: int,
    total: Float[np.ndarray, "windows"],
    spread: Float[np.ndarray, "windows"],
    delta: float,
) -> np.ndarray:
    """Return True for every window in which the means on both sides of some cut differ by more than chance."""
    older = _histogram(width)[1]
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
