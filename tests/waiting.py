"""Waiting for a state, never for a duration: no test may need an idle machine.

`PATIENCE` is when a test gives a hung process up; nothing that works comes near it, however busy the machine is.
"""

import time
from collections.abc import Callable

PATIENCE = 1800.0  # seconds


def until(holds: Callable[[], bool], what: Callable[[], str]) -> None:
    """Return as soon as `holds` does. What it raises is raised here, so that it can look out for a process that
    ended instead; `what` is asked for when patience ends."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, f"never came true: {what()}"
        time.sleep(0.02)
