"""Numbers as places on a line, in per cent of its width: charts that need no script and fit any screen."""

import dataclasses
import math
from collections.abc import Iterable

from worldfork.desk.scoring.undefined import Bounds, Figure, Interval, Undefined

__all__ = ["Axis", "axis"]

TICKS = 5  # at most so many steps: a label each must fit on a phone


@dataclasses.dataclass(frozen=True)
class Axis:
    """A line from `low` to `high`."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def at(self, value: float) -> str:
        """Where a value lies; one beyond the line lies at its end."""
        share = (value - self.low) / (self.high - self.low)
        return f"{100 * min(1.0, max(0.0, share)):.2f}%"

    def span(self, ends: Interval | tuple[float, float]) -> str:
        """The style of a bar from one value to another."""
        low, high = sorted(ends)
        left, right = (float(self.at(end)[:-1]) for end in (low, high))
        return f"left:{left:.2f}%;width:{max(0.4, right - left):.2f}%"

    def minor(self, tick: float) -> bool:
        """Whether a tick is left out where there is room for every second one; zero never is."""
        step = self.ticks[1] - self.ticks[0] if len(self.ticks) > 1 else 1.0
        return len(self.ticks) > 3 and round(tick / step) % 2 == 1

    def beyond(self, value: float) -> bool:
        """Whether a value lies outside, so that an arrow must stand for it."""
        return not self.low <= value <= self.high


def axis(values: Iterable[Figure | Bounds | None], *, pad: float = 0.06) -> Axis:
    """A line that holds zero and all of these, with few round ticks."""
    known = [0.0]
    for value in values:
        if isinstance(value, Interval):
            known += value
        elif value is not None and not isinstance(value, Undefined):
            known.append(value)
    low, high = min(known), max(known)
    room = pad * (high - low) or 1.0
    low, high = low - room, high + room
    return Axis(low, high, _ticks(low, high))


def _ticks(low: float, high: float) -> tuple[float, ...]:
    rough = (high - low) / TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * next(times for times in (1, 2, 5, 10) if times * power >= rough)
    return tuple(index * step for index in range(math.ceil(low / step), math.floor(high / step) + 1))
