"""Random triggering (registered family 7): the null as a trigger like any other.

Each policy also has its own rate-matched random control (scoring/controls.py), which is the comparison that counts;
this family goes through the same thresholds as the rest and shows what they make of noise.
"""

import numpy as np

from worldfork.desk.reading.prefork import Prefork
from worldfork.desk.triggers.base import Reading, Signal, Trigger, draw_event
from worldfork.randomness import Purpose, fold_in, normals, words

__all__ = ["Coin"]

FAMILY = 1


class Coin(Trigger):
    """A standard normal per decision point, drawn from the cell and k alone."""

    reference = True

    def read(self, prefork: Prefork, *, seed: int) -> Reading:
        values = np.empty(len(prefork))
        for index, span in prefork.spans():
            key = words(draw_event(prefork, prefork.cells[index], seed=seed, family=FAMILY))
            values[span] = normals(fold_in(key, prefork.k[span]), 1, Purpose.RESAMPLING)[:, 0]
        return Signal(values)
