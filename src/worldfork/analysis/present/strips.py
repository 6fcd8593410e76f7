"""Means with their intervals as places on a line: what the chart beside a row of a table shows."""

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from worldfork.analysis.score.undefined import Bounds, Figure, Interval, Undefined

TICKS: Final = 5  # at most so many steps: a label each must fit on a phone
PAD: Final = 0.06  # of an axis, to either side of what lies on it
FAR: Final = 2.5  # times as long as the axis of the others: then what lies far out is drawn on a coarser scale
FOLD: Final = 25.0  # per cent of a line that a coarser scale takes at an end
EDGE: Final = 4.0  # per cent of a line within which a label would stick out


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
    far: bool = False  # lies on a coarser scale where it would leave the others no room

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
    """A line from `low` to `high` with its ticks. Beyond them it may go on to `least` and `most`, coarser."""

    low: float
    high: float
    ticks: tuple[float, ...]
    least: float | None = None
    most: float | None = None

    def at(self, value: float) -> float:
        """Return the place of a value in per cent of the line; a value beyond the line lies at its end.

        >>> axis = Axis(-100.0, 100.0, (0.0,), least=-500.0)
        >>> axis.at(-500.0), axis.at(-300.0), axis.at(-100.0), axis.at(0.0), axis.at(100.0)
        (0.0, 12.5, 25.0, 62.5, 100.0)
        """
        knots = [self.least, self.low, self.high, self.most]
        places = [
            0.0,
            FOLD if self.least is not None else 0.0,
            100 - FOLD if self.most is not None else 100.0,
            100.0,
        ]
        placed = [(knot, place) for knot, place in zip(knots, places, strict=True) if knot is not None]
        if value <= placed[0][0]:
            return 0.0
        for (low, left), (high, right) in itertools.pairwise(placed):
            if value <= high:
                return left + (right - left) * (value - low) / (high - low)
        return 100.0

    @property
    def folds(self) -> list[float]:
        """Places, in per cent, beyond which the scale is coarser."""
        return [self.at(end) for end, _ in self._outside()]

    @property
    def labelled(self) -> list[float]:
        """The ticks, and one on each coarser scale."""
        return sorted([*self.ticks, *(_outer(end, beyond) for end, beyond in self._outside())])

    def _outside(self) -> list[tuple[float, float]]:
        """Return each end of the finer scale with the end of the coarser one."""
        ends = ((self.low, self.least), (self.high, self.most))
        return [(end, beyond) for end, beyond in ends if beyond is not None]

    def minor(self, tick: float) -> bool:
        """Return whether a narrow screen leaves out the label of this tick; that of zero always stays."""
        step = self.ticks[1] - self.ticks[0] if len(self.ticks) > 1 else 1.0
        return tick in self.ticks and len(self.ticks) > 2 and round(tick / step) % 2 == 1


def axis_of(strips: Iterable[Strip], *, pad: float = PAD) -> Axis:
    """Return a line that holds zero and everything on these strips, with few round ticks.

    Where some would leave the others no room, they lie on a coarser scale at an end.

    >>> axis_of([Strip(mean=7.0), Strip(mean=-2.0)]).ticks
    (0.0, 5.0)
    """
    strips = list(strips)
    near, every = (_line(part, pad) for part in ([strip for strip in strips if not strip.far], strips))
    if every.high - every.low <= FAR * (near.high - near.low):
        return every
    values = [value for strip in strips for value in strip.values()]
    return dataclasses.replace(
        near,
        least=every.low if min(values) < near.low else None,
        most=every.high if max(values) > near.high else None,
    )


def _outer(end: float, beyond: float) -> float:
    """Return the round value on a coarser scale that lies nearest to its outer end."""
    step = round_up(abs(beyond - end) / 4)
    return step * (math.ceil(beyond / step) if beyond < end else math.floor(beyond / step))


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
