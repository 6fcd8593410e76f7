"""ADWIN (Bifet and Gavalda, 2007), as implemented by river."""

import numpy as np
from jaxtyping import Bool, Float
from river import drift

from worldfork.desk.triggers.detector import Detector, alarm_steps
from worldfork.randomness import Event

__all__ = ["Adwin"]


class Adwin(Detector):
    """Adaptive windowing on the error, river's defaults (delta 0.002)."""

    def alarms(
        self, errors: Float[np.ndarray, "steps"], *, segment: int, event: Event
    ) -> Bool[np.ndarray, "steps"]:
        detector = drift.ADWIN()

        def alarmed(error: float) -> bool:
            detector.update(error)
            return bool(detector.drift_detected)

        return alarm_steps(errors, alarmed)
