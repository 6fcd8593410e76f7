"""A policy: a trigger, and the threshold that makes a decision of its number.

It is a trigger itself, one that answers with alarms, so whatever holds for triggers holds for it: it is fed segment
by segment, has seen nothing of what follows, and is examined by the same kit. The threshold is data. Where labels
went into it, they were those of other checkpoints (`worldfork.analysis.score.thresholds` fits them).
"""

import bisect
import functools
import json
import math
import statistics
from typing import Any, Final, Literal

import numpy as np
from pydantic import Field, model_validator

from worldfork import registry
from worldfork.errors import WorldforkError
from worldfork.fixed_policies import FIXED_POLICIES
from worldfork.randomness import Event
from worldfork.triggers.base import Answer, CellKey, Segment, Trigger
from worldfork.triggers.feeding import naming

EARLIER: Final = 4  # a running quantile needs so many earlier values
Threshold = float | Literal["-inf", "inf"]  # JSON has no infinities


class Policy(Trigger):
    """A trigger that fires where another's number reaches `threshold`, or exceeds a running quantile.

    The quantile leaves the share `rate` above it; with neither, the policy fires where the trigger raises its
    alarm.
    """

    trigger: str  # a name of the registry, a recorded signal, "never" or "always"
    settings: dict[str, Any] = {}
    recorded: bool = False  # whether the name is that of a signal which is recorded before every decision
    threshold: Threshold | None = None
    rate: float | None = Field(default=None, gt=0, lt=1)

    @model_validator(mode="after")
    def _one_rule(self) -> "Policy":
        if self.threshold is not None and self.rate is not None:
            raise ValueError("a policy has a threshold or a running quantile, not both")
        return self

    @property
    def inner(self) -> Trigger | None:
        """The trigger itself; None where a recorded signal is read, or nothing."""
        if self.recorded or self.trigger in FIXED_POLICIES:
            return None
        return _built(self.trigger, json.dumps(self.settings, sort_keys=True))

    def begin(self, cell: CellKey, *, event: Event) -> tuple[Any, list[float]]:
        """Return the trigger's own memory, and the values so far in order of size."""
        return (None if self.inner is None else self.inner.begin(cell, event=event)), []

    def decide(self, memory: tuple[Any, list[float]], segment: Segment) -> tuple[tuple[Any, list[float]], bool]:
        memory, _, fired = self.consider(memory, segment)
        return memory, fired

    def consider(
        self, memory: tuple[Any, list[float]], segment: Segment
    ) -> tuple[tuple[Any, list[float]], Answer, bool]:
        """Return the memory to go on with, the trigger's answer, and True if the policy updates here."""
        if self.trigger in FIXED_POLICIES:
            return memory, None, self.trigger == "always"
        inner, earlier = memory
        answer: Answer
        if self.inner is None:
            answer = segment.signals.get(self.trigger)
        else:
            with naming(self.inner):
                inner, answer = self.inner.decide(inner, segment)
        answer, fired = self.judge(earlier, answer)
        return (inner, earlier), answer, fired

    def judge(self, earlier: list[float], answer: Answer) -> tuple[Answer, bool]:
        """Return the trigger's answer, a missing number as None, and True if the policy updates on it.

        `earlier` are its numbers so far in order of size, which this one joins where they are needed.
        """
        if self.threshold is None and self.rate is None:
            if answer is not None and not isinstance(answer, bool | np.bool_):
                raise WorldforkError(
                    f"The trigger `{self.trigger}` answers with numbers ({answer!r:.20}), and its policy has no "
                    'threshold: register threshold = "fitted", "running" or a number.'
                )
            return answer, bool(answer)
        if isinstance(answer, bool | np.bool_):
            raise WorldforkError(
                f"The trigger `{self.trigger}` raises alarms, and its policy has a threshold: leave the threshold "
                "out, an alarm is a decision already."
            )
        if answer is None or math.isnan(answer):
            return None, False  # a missing signal never fires
        if self.rate is not None:
            return float(answer), beyond_quantile(earlier, float(answer), rate=self.rate)
        assert self.threshold is not None
        return float(answer), float(answer) >= float(self.threshold)


def beyond_quantile(earlier: list[float], value: float, *, rate: float) -> bool:
    """Return True if `value` exceeds the (1 - rate) quantile of the `earlier` values, which it then joins."""
    fired = len(earlier) >= EARLIER and value > _sorted_quantile(earlier, 1 - rate)
    bisect.insort(earlier, value)
    return fired


def normal_threshold(rate: float) -> float:
    """Return what a standard normal reaches with probability `rate`."""
    if rate <= 0 or rate >= 1:
        return -math.inf if rate >= 1 else math.inf
    return statistics.NormalDist().inv_cdf(1 - rate)


def in_json(threshold: float) -> Threshold:
    """Return a threshold as a file spells it: JSON has no infinities."""
    return threshold if math.isfinite(threshold) else "inf" if threshold > 0 else "-inf"


@functools.lru_cache(maxsize=64)
def _built(name: str, settings: str) -> Trigger:
    built = registry.build("triggers", name, Trigger, settings=json.loads(settings))
    if isinstance(built, Policy):  # whose own trigger nobody is told of
        raise WorldforkError(f"`{name}` is a policy, and no trigger of another one: register its trigger itself.")
    return built


def _sorted_quantile(values: list[float], share: float) -> float:
    """Interpolate linearly, as numpy does by default."""
    place = share * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    step, share = values[high] - values[low], place - low
    # Written as numpy writes it, so that a value that equals the quantile there equals it here.
    return values[low] + step * share if share < 0.5 else values[high] - step * (1 - share)
