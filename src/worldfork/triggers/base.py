"""The trigger contract: a rule that is fed a deployment segment by segment, and answers at every decision point.

At decision point k it has been shown the segments up to k and nothing else, so it can not read the future, nor what
updating turned out to be worth (paper, "Scoring"). The same object could be deployed as it is.

    class Median(Trigger):
        needs: ClassVar = ("error",)

        def begin(self, cell, *, event):
            return None

        def decide(self, memory, segment):
            return memory, float(np.median(segment.steps["error"]))
"""

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from worldfork.randomness import Event
from worldfork.registry import Plugin

Answer = float | bool | None


@dataclasses.dataclass(frozen=True, order=True)
class CellKey:
    """The name of a deployment: a checkpoint, a drift direction, a stream seed."""

    checkpoint: str
    direction: str
    stream_seed: int


@dataclasses.dataclass(frozen=True)
class Segment:
    """The part of a deployment between the previous decision point and this one, and nothing else.

    Signals are read, while the study runs, from the same part as a `worldfork.lab.signals.Episode`.
    """

    k: int
    level: float  # of the drift, at the decision point: no deployment has it; NaN where it was not recorded
    steps: Mapping[str, Float[np.ndarray, "steps"]]  # what was logged at each control step: error, kl, reward, ...
    signals: Mapping[str, float]  # what was recorded in the row before the fork; NaN is a missing signal


@dataclasses.dataclass(frozen=True, eq=False)
class LabelledDeployment:
    """A deployment of another model, and dR at each of its decision points: what `Trigger.fit` learns from."""

    segments: tuple[Segment, ...]
    delta: Float[np.ndarray, "points"]  # NaN where a decision point has no label


class Trigger(Plugin):
    """A trigger by name; its fields are its settings.

    A trigger answers with a number (a signal: larger is more reason to update) or with True and False (an alarm: a
    decision already), always the same kind, or with None where it has nothing to say.
    """

    reference: ClassVar[bool] = False  # a baseline (schedule, oracle, coin), not a candidate
    predicts: ClassVar[bool] = (
        False  # its numbers are the dR that it expects: it fires above the price of an update
    )
    needs: ClassVar[tuple[str, ...]] = ()  # what must be logged at every step; without it the trigger is not asked
    silent: ClassVar[str] = "it had nothing to say at any fork"  # why it is left out where it only answered None

    @abc.abstractmethod
    def begin(self, cell: CellKey, *, event: Event) -> Any:
        """Return a fresh memory for one deployment.

        Whatever is drawn is drawn from `event` (`worldfork.randomness`).
        """

    @abc.abstractmethod
    def decide(self, memory: Any, segment: Segment) -> tuple[Any, Answer]:
        """Return the memory to go on with, and the answer at this decision point. Called once for each, in
        order."""

    def fit(self, deployments: Sequence[LabelledDeployment]) -> "Trigger":
        """Return the trigger with what it learnt from labelled deployments of other models; most learn nothing.

        That is in its settings, as numbers and lists: it can be registered and deployed like any other.
        """
        return self


class Detector(Trigger):
    """A change detector over the error of every step: fires at a decision point if it alarmed within the segment.

    Where river has one of them, ours alarms where river's does, and needs no river. An error that is not finite has
    no size to compare: a detector is not shown it.
    """

    needs: ClassVar = ("error",)

    @abc.abstractmethod
    def show(self, memory: Any, errors: Float[np.ndarray, "shown"]) -> tuple[Any, bool]:
        """Return the memory to go on with, and True if there was an alarm at any of these steps."""

    def decide(self, memory: Any, segment: Segment) -> tuple[Any, bool]:
        errors = segment.steps["error"]
        return self.show(memory, errors[np.isfinite(errors)])
