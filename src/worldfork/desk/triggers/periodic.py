"""A fixed schedule (registered family 6)."""

from worldfork.desk.reading.prefork import Prefork
from worldfork.desk.triggers.base import Alarms, Reading, Trigger

__all__ = ["Periodic"]

PERIOD = 4


class Periodic(Trigger):
    """Fires at every 4th decision point."""

    reference = True

    def read(self, prefork: Prefork, *, seed: int) -> Reading:
        return Alarms(prefork.k % PERIOD == 0)
