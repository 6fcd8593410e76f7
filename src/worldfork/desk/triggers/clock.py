"""The clock: later is more reason to update."""

import numpy as np

from worldfork.desk.reading.prefork import Prefork
from worldfork.desk.triggers.base import Reading, Signal, Trigger

__all__ = ["Clock"]


class Clock(Trigger):
    """The decision point k itself: what a trigger must beat to have read anything but time."""

    reference = True

    def read(self, prefork: Prefork, *, seed: int) -> Reading:
        return Signal(prefork.k.astype(np.float64))
