"""The drift oracle (registered family 8): the simulator's own level, which no deployment can read."""

import numpy as np

from worldfork.desk.reading.prefork import Prefork
from worldfork.desk.triggers.base import Reading, Signal, Trigger, Unavailable

__all__ = ["DriftOracle"]


class DriftOracle(Trigger):
    """The drift level at the fork: a ceiling, not a rule."""

    reference = True

    def read(self, prefork: Prefork, *, seed: int) -> Reading:
        if np.isnan(prefork.level).all():
            return Unavailable("the table has no `level` column")
        return Signal(prefork.level)
