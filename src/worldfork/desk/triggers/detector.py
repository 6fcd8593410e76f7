"""Change detectors over the step-level error stream: how an alarm in the stream becomes a decision at a fork."""

import abc
import functools
from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float

from worldfork.desk.reading.prefork import Prefork
from worldfork.desk.triggers.base import Alarms, Reading, Trigger, Unavailable, draw_event
from worldfork.randomness import Event

__all__ = ["Detector", "alarm_steps"]


class Detector(Trigger):
    """Runs from the start of the stream and fires at a fork if it alarmed within the segment before it."""

    @abc.abstractmethod
    def alarms(
        self, errors: Float[np.ndarray, "steps"], *, segment: int, event: Event
    ) -> Bool[np.ndarray, "steps"]:
        """Whether an alarm was raised at each step; step t may depend on steps up to the end of its segment."""

    def read(self, prefork: Prefork, *, seed: int) -> Reading:
        fired = np.zeros(len(prefork), bool)
        for index, span in prefork.spans():
            stream = prefork.stream(index)
            if stream is None:
                return Unavailable("needs the error of every step of the stream, which only a study folder has")
            segment = int(prefork.step[span.start] // max(int(prefork.k[span.start]), 1))
            event = draw_event(prefork, prefork.cells[index], seed=seed, family=2)
            errors = stream.error[: int(prefork.step[span.stop - 1])]
            # An error that is not finite has no size to compare: the detector is not shown that step.
            shown = np.isfinite(errors)
            alarmed = np.zeros(len(errors), bool)
            alarmed[shown] = _raised(self, errors[shown].tobytes(), segment, event)
            for fork in range(span.start, span.stop):
                step = int(prefork.step[fork])
                fired[fork] = alarmed[max(step - segment, 0) : step].any()
        return Alarms(fired)


@functools.lru_cache(maxsize=256)
def _raised(detector: Detector, errors: bytes, segment: int, event: Event) -> Bool[np.ndarray, "steps"]:
    """Arms on one stream have one stream of errors: its alarms are computed once."""
    return detector.alarms(np.frombuffer(errors), segment=segment, event=event)


def alarm_steps(errors: Float[np.ndarray, "steps"], alarmed: Callable[[float], bool]) -> Bool[np.ndarray, "steps"]:
    """Feed the errors one by one."""
    return np.array([alarmed(error) for error in errors.tolist()], dtype=bool)
