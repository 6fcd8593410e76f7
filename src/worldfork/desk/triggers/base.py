"""What a trigger is: a function of the stream before the fork (paper, "Scoring").

A family reads a `Prefork` and answers with one of three readings. A `Signal` is a number per fork, larger meaning
more reason to update; thresholds are fitted or run elsewhere. `Alarms` have decided already. `Unavailable` says
what was not there to be read.
"""

import abc
import dataclasses
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float

from worldfork.desk.reading.prefork import CellKey, Prefork
from worldfork.randomness import Event, Purpose

__all__ = ["Alarms", "Reading", "Recorded", "SegmentStatistic", "Signal", "Trigger", "Unavailable", "draw_event"]


@dataclasses.dataclass(frozen=True)
class Signal:
    """A number per fork; NaN is a missing signal, which never fires."""

    values: Float[np.ndarray, "forks"]


@dataclasses.dataclass(frozen=True)
class Alarms:
    """A decision per fork."""

    fired: Bool[np.ndarray, "forks"]


@dataclasses.dataclass(frozen=True)
class Unavailable:
    """Nothing to read, and why."""

    why: str


Reading = Signal | Alarms | Unavailable


class Trigger(abc.ABC):
    """One family. A reference (a schedule, an oracle, a coin) is scored but is not a candidate rule."""

    reference: ClassVar[bool] = False

    @abc.abstractmethod
    def read(self, prefork: Prefork, *, seed: int) -> Reading:
        """The family's reading of every fork, each from what preceded that fork alone."""


class SegmentStatistic(Trigger):
    """A statistic of one logged quantity over the segment before the fork."""

    quantity: ClassVar[str]

    @staticmethod
    @abc.abstractmethod
    def statistic(segment: Float[np.ndarray, "steps"]) -> float:
        """The signal of one segment."""

    def read(self, prefork: Prefork, *, seed: int) -> Reading:
        values = np.full(len(prefork), np.nan)
        for index, span in prefork.spans():
            stream = prefork.stream(index)
            if stream is None:
                continue
            logged = getattr(stream, self.quantity)
            for fork in range(span.start, span.stop):
                step, k = int(prefork.step[fork]), int(prefork.k[fork])
                # Decision points are evenly spaced from the start, so the segment is a k-th of the way here.
                segment = logged[step - step // max(k, 1) : step]
                if len(segment) > 1:
                    values[fork] = self.statistic(segment)
        if np.isnan(values).all():
            return Unavailable(f"neither a recorded signal nor a stream with the {self.quantity} of every step")
        return Signal(values)


class Recorded(Trigger):
    """A signal that only the lab can compute, because it needs more than the stream's log."""

    needs: ClassVar[str]

    def read(self, prefork: Prefork, *, seed: int) -> Reading:
        return Unavailable(f"no such signal was recorded; it needs {self.needs}")


def draw_event(prefork: Prefork, cell: CellKey, *, seed: int, family: int) -> Event:
    """Where a family's own draws live: the cell, and a number per family so that no two share a key."""
    return Event(
        purpose=Purpose.RESAMPLING,
        seed=seed,
        task=prefork.task,
        checkpoint=cell.checkpoint,
        direction=cell.direction,
        stream_seed=cell.stream_seed,
        episode=family,
    )
