"""Means with their intervals as places on a line: what the chart beside a row of a table shows."""

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from worldfork.analysis.score.undefined import Bounds, Figure, Interval, Undefined

TICKS: Final = 5  # at most so many steps: a label each must fit on a phone
PAD: Final = 0.06  # of an axis, to either side of what lies on it
FAR: Final = 2.5  # times as long as the axis of the others: then arrows stand for what lies far out


@dataclasses.dataclass(frozen=True, kw_only=True)
class Strip:
    """Chart of a row: a mean with its intervals, and what it is to be seen beside."""

    mean: Figure
    student_t: Bounds | None = None
    bootstrap: Bounds | None = None
    checkpoints: Sequence[Figure] = ()
    chance: Figure | None = None
    chance_interval: Bounds | None = None
    forecast: Figure | None = None
    kind: str = ""  # of the dot: "hollow" fails a test, "grey" was not tested
    far: bool = False  # leaves the axis where it would leave the others no room

    @property
    def dots(self) -> list[float]:
        """The means of checkpoints that are defined."""
        return [mean for mean in self.checkpoints if not isinstance(mean, Undefined)]

    def values(self) -> Iterator[float]:
        """Yield everything that the axis has to hold."""
        for bounds in (self.student_t, self.bootstrap, self.chance_interval):
            if isinstance(bounds, Interval):
                yield from bounds
        yield from self.dots
        for figure in (self.mean, self.forecast):
            if figure is not None and not isinstance(figure, Undefined):
                yield figure


@dataclasses.dataclass(frozen=True)
class Axis:
    """A line from `low` to `high` with its ticks."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def at(self, value: float) -> float:
        """Return the place of a value in per cent of the line; a value beyond the line lies at its end."""
        return 100 * min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))

    def minor(self, tick: float) -> bool:
        """Return whether a narrow screen leaves out the label of this tick; that of zero always stays."""
        step = self.ticks[1] - self.ticks[0] if len(self.ticks) > 1 else 1.0
        return len(self.ticks) > 2 and round(tick / step) % 2 == 1

    def beyond(self, value: float) -> bool:
        """Return whether a value lies outside, so that an arrow must stand for it."""
        return not self.low <= value <= self.high


def axis_of(strips: Iterable[Strip], *, pad: float = PAD) -> Axis:
    """Return a line that holds zero and everything on these strips, with few round ticks.

    >>> axis_of([Strip(mean=7.0), Strip(mean=-2.0)]).ticks
    (0.0, 5.0)
    """
    strips = list(strips)
    near, every = (_line(part, pad) for part in ([strip for strip in strips if not strip.far], strips))
    return near if every.high - every.low > FAR * (near.high - near.low) else every


def _line(strips: Sequence[Strip], pad: float) -> Axis:
    held = [0.0, *(value for strip in strips for value in strip.values())]
    low, high = min(held), max(held)
    room = pad * (high - low) or 1.0
    low, high = low - room, high + room
    step = round_up((high - low) / TICKS)
    return Axis(
        low, high, tuple(place * step for place in range(math.ceil(low / step), math.floor(high / step) + 1))
    )


def round_up(rough: float) -> float:
    """Return 1, 2 or 5 times a power of ten, not below `rough`.

    >>> round_up(3.1), round_up(0.07)
    (5.0, 0.1)
    """
    power = 10.0 ** math.floor(math.log10(rough))
    return power * next(times for times in (1, 2, 5, 10) if times * power >= rough)
