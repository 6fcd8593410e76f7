"""Page-Hinkley (Page, 1954), as implemented by river."""

import numpy as np
from jaxtyping import Bool, Float
from river import drift

from worldfork.desk.triggers.detector import Detector, alarm_steps
from worldfork.randomness import Event

__all__ = ["PageHinkley"]


class PageHinkley(Detector):
    """Upward changes of the error, river's defaults (delta 0.005, threshold 50).

    The threshold has the unit of the data, so the error is measured in standard deviations of the first segment:
    all of that segment precedes the first decision.
    """

    def alarms(
        self, errors: Float[np.ndarray, "steps"], *, segment: int, event: Event
    ) -> Bool[np.ndarray, "steps"]:
        detector = drift.PageHinkley(mode="up")
        scale = float(errors[:segment].std()) or 1.0
        centre = float(errors[:segment].mean())

        def alarmed(error: float) -> bool:
            detector.update((error - centre) / scale)
            return bool(detector.drift_detected)

        return alarm_steps(errors, alarmed)
