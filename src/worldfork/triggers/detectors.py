"""Change detectors over the error of every step: each fires at a decision point if it alarmed within the segment.

Where river has one of them, ours alarms where river's does, and needs no river. An error that is not finite has no
size to compare: a detector is not shown it.
"""

import abc
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from worldfork.triggers.base import Segment, Trigger


class Detector(Trigger):
    """A trigger that is shown the finite errors of one segment after the other."""

    needs: ClassVar = ("error",)

    @abc.abstractmethod
    def show(self, memory: Any, errors: Float[np.ndarray, "shown"]) -> tuple[Any, bool]:
        """Return the memory to go on with, and True if there was an alarm at any of these steps."""

    def decide(self, memory: Any, segment: Segment) -> tuple[Any, bool]:
        errors = segment.steps["error"]
        return self.show(memory, errors[np.isfinite(errors)])
