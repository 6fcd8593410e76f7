"""The clock: later is more reason to update."""

import numpy as np

from worldfork.desk.triggers.base import Reading, Signal, Trigger
from worldfork.ledger.prefork import Prefork

__all__ = ["Clock"]


class Clock(Trigger):
    """The decision point k itself: what a trigger must beat to have read anything but time."""

    reference = True

    def read(self, prefork: Prefork, *, seed: int) -> Reading:
        return Signal(prefork.k.astype(np.float64))
