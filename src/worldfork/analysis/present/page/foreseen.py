"""A chart of policies: what the one-step ledger says of each against what following it returned."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from worldfork.analysis.present.page.view import Axis, axis
from worldfork.analysis.present.text import best_first, known, minus, number, realised
from worldfork.analysis.score.deployment_records import TaskDeployment

__all__ = ["Foreseen", "foreseen"]

WIDTH: Final = 460
HEIGHT: Final = 340
LEFT: Final = 56
BASE: Final = 292  # where the plot ends; the axis is named below
TOP: Final = 26  # and above it
RIGHT: Final = WIDTH - 10
LINE, LETTER = 15, 7  # the height of a name, and the width of each of its letters with the gap to its dot
NAMED: Final = 8  # with so many policies each dot has its name beside it; of more, the ends alone


@dataclasses.dataclass(frozen=True)
class Dot:
    """One policy."""

    name: str
    x: float
    y: float
    named: bool  # whether its name stands beside it; every dot says it when pointed at
    words: str

    @property
    def leftward(self) -> bool:
        """Whether its name stands on the left: in the right half it would not fit on the right."""
        return self.x > (LEFT + RIGHT) / 2

    def covers(self, other: "Dot") -> bool:
        """Whether their names would lie on one another."""
        spans = []
        for dot in (self, other):
            length = LETTER * len(dot.name)
            spans.append((dot.x - length, dot.x) if dot.leftward else (dot.x, dot.x + length))
        (begin, end), (start, stop) = spans
        return abs(self.y - other.y) < LINE and begin < stop and start < end


@dataclasses.dataclass(frozen=True)
class Tick:
    """A round number, and where it lies on both axes, which are the same."""

    x: float
    y: float
    text: str


@dataclasses.dataclass(frozen=True)
class Foreseen:
    """A square of two equal axes: by the ledger to the right, as realised upwards."""

    dots: Sequence[Dot]
    ticks: Sequence[Tick]
    rows: Sequence[tuple[str, float, float]]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = RIGHT
    top: int = TOP
    base: int = BASE


def foreseen(one: TaskDeployment, *, digits: int) -> Foreseen | None:
    """The chart of one task; None where fewer than two policies can be placed in it. What diverged is left out: it
    would be the scale of everything."""
    rows = []
    for name in best_first(one):
        outcome = one.policies[name]
        by_ledger, followed = known(outcome.ledger_value), realised(outcome)
        if by_ledger is not None and followed is not None and not outcome.diverged:
            rows.append((name, by_ledger, followed))
    if len(rows) < 2:
        return None
    both = axis([value for _, *values in rows for value in values])
    ends = {rows[0][0], rows[-1][0], "always", "never"}
    dots: list[Dot] = []
    for name, by_ledger, followed in rows:
        x, y = _x(by_ledger, both), _y(followed, both)
        words = (
            f"{name}: {minus(number(by_ledger, digits))} by the ledger, {minus(number(followed, digits))} followed"
        )
        dot = Dot(name, x, y, len(rows) <= NAMED or name in ends, words)
        if any(other.named and dot.covers(other) for other in dots):
            dot = dataclasses.replace(dot, named=False)
        dots.append(dot)
    ticks = [Tick(_x(tick, both), _y(tick, both), minus(f"{tick:+g}" if tick else "0")) for tick in both.ticks]
    return Foreseen(dots, ticks, rows)


def _x(value: float, line: Axis) -> float:
    return round(LEFT + (RIGHT - LEFT) * (value - line.low) / (line.high - line.low), 1)


def _y(value: float, line: Axis) -> float:
    return round(BASE - (BASE - TOP) * (value - line.low) / (line.high - line.low), 1)
