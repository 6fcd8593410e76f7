"""Where every trigger fires, by the fitted and by the running threshold."""

import dataclasses
from collections.abc import Mapping
from typing import Final

import numpy as np
from jaxtyping import Bool

from worldfork.desk.reading.outcomes import Forks
from worldfork.desk.scoring import policies
from worldfork.desk.scoring.divergence import Divergence
from worldfork.desk.scoring.partition import partition
from worldfork.desk.scoring.ties import tied
from worldfork.desk.scoring.undefined import Undefined
from worldfork.desk.triggers import Alarms, Reading, Signal

__all__ = ["NO_SIGNAL", "Decisions", "Evidence", "decide"]

NO_SIGNAL: Final = Undefined("an alarm is a decision already: it has no level to rank or to threshold")


@dataclasses.dataclass(frozen=True)
class Decisions:
    """Where a trigger fires, on every attempted fork."""

    signal: np.ndarray | None  # values that differ by rounding alone made equal; None for alarms
    threshold: np.ndarray | None  # per fork, that of its checkpoint; None where there is none
    fired: Bool[np.ndarray, "forks"] | Undefined
    running: Bool[np.ndarray, "forks"] | Undefined


@dataclasses.dataclass(frozen=True)
class Evidence:
    """What the figures of a task were computed from: its forks, which diverged, and where every trigger fired."""

    forks: Forks
    divergence: Divergence
    retained: Mapping[str, Decisions]  # thresholds fitted on retained forks
    all_attempted: Mapping[str, Decisions]


def decide(
    readings: Mapping[str, Reading], forks: Forks, *, scored: Mapping[str, Bool[np.ndarray, "forks"]], rate: float
) -> dict[str, dict[str, Decisions]]:
    """Where every trigger fires, for each named set of scored forks.

    A set's thresholds are fitted on its forks, and are undefined where those with the signal are all of one
    checkpoint: whatever the others attempted, there is nothing to fit on. The running quantile reads no label and
    sees all attempted forks.
    Sets that are the same share their decisions.
    """
    parts = partition(forks.prefork)
    checkpoint, count = parts.checkpoint, len(parts.checkpoints)
    alone = Undefined("leave-one-checkpoint-out needs at least two checkpoints")
    same = {
        side: next(first for first, other in scored.items() if np.array_equal(keep, other))
        for side, keep in scored.items()
    }
    distinct = {side: scored[side] for side in dict.fromkeys(same.values())}
    decisions: dict[str, dict[str, Decisions]] = {side: {} for side in distinct}
    for name, reading in readings.items():
        if isinstance(reading, Alarms):
            for decided in decisions.values():
                decided[name] = Decisions(None, None, reading.fired, NO_SIGNAL)
        elif isinstance(reading, Signal):
            signal = tied(reading.values)
            running = policies.running_quantile(signal, forks.prefork, rate=rate)
            for side, keep in distinct.items():
                if len(np.unique(checkpoint[keep & ~np.isnan(signal)])) < 2:
                    decisions[side][name] = Decisions(signal, None, alone, running)
                    continue
                fitted = policies.leave_one_checkpoint_out(
                    signal[keep], forks.delta[keep], checkpoint[keep], count=count
                )
                threshold = fitted[checkpoint]
                decisions[side][name] = Decisions(signal, threshold, policies.fires(signal, threshold), running)
    return {side: decisions[first] for side, first in same.items()}
