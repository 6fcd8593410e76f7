"""Change detectors over the error of every step: each fires at a decision point if it alarmed within the segment.

Each detector has a file of its own. Where river has one, ours alarms where river's does, and needs no river. An
error that is not finite has no size to compare: a detector is not shown it.
"""

import abc
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np
from jaxtyping import Float

from worldfork.triggers.base import Answer, Segment, Trigger

SIDE_BY_SIDE: Final = 24  # deployments from which on a step of all of them is faster than all steps of each


class Detector(Trigger):
    """A trigger that is shown the finite errors of one segment after the other."""

    needs: ClassVar = ("error",)

    @abc.abstractmethod
    def show(self, memory: Any, errors: Float[np.ndarray, "shown"]) -> tuple[Any, bool]:
        """Return the memory to go on with, and True if there was an alarm at any of these steps."""

    def show_together(
        self, memories: Sequence[Any], errors: Sequence[Float[np.ndarray, "_"]]
    ) -> list[tuple[Any, bool]]:
        """Return what `show` returns for each of several deployments."""
        return [self.show(memory, shown) for memory, shown in zip(memories, errors, strict=True)]

    def decide_together(self, memories: Sequence[Any], segments: Sequence[Segment]) -> list[tuple[Any, Answer]]:
        logged = [segment.steps["error"] for segment in segments]
        return list(self.show_together(memories, [errors[np.isfinite(errors)] for errors in logged]))

    def decide(self, memory: Any, segment: Segment) -> tuple[Any, bool]:
        errors = segment.steps["error"]
        return self.show(memory, errors[np.isfinite(errors)])


class SteppedDetector(Detector):
    """A detector that goes from step to step, and can take each step of many deployments at once."""

    @abc.abstractmethod
    def step_together(
        self, memories: Sequence[Any], errors: Sequence[Float[np.ndarray, "steps"]]
    ) -> list[tuple[Any, bool]]:
        """Return what `show` returns for each of several deployments that are shown equally many errors."""

    def show_together(
        self, memories: Sequence[Any], errors: Sequence[Float[np.ndarray, "_"]]
    ) -> list[tuple[Any, bool]]:
        alike: dict[int, list[int]] = {}
        for index, each in enumerate(errors):
            alike.setdefault(len(each), []).append(index)
        shown: dict[int, tuple[Any, bool]] = {}
        for group in alike.values():
            together = self.step_together if len(group) >= SIDE_BY_SIDE else super().show_together
            answers = together([memories[index] for index in group], [errors[index] for index in group])
            shown.update(zip(group, answers, strict=True))
        return [shown[index] for index in range(len(memories))]
