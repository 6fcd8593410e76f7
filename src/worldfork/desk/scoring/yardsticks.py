"""The policies that need no trigger, by checkpoint: what every trigger is compared with."""

import dataclasses
from typing import Final

import numpy as np
from jaxtyping import Bool, Float

from worldfork.desk.reading.outcomes import Forks
from worldfork.desk.scoring import earnings, policies, position
from worldfork.desk.scoring.partition import partition
from worldfork.desk.scoring.records import ReferencePolicies
from worldfork.desk.scoring.undefined import Figure, Undefined

__all__ = ["Yardsticks", "measure"]

FITTED: Final = ("position_table", "direction_clock")  # on the other checkpoints' forks


@dataclasses.dataclass(frozen=True)
class Yardsticks:
    """What each earns in each checkpoint that has forks."""

    figures: ReferencePolicies
    # never, always, better_of_both, and what reads the schedule, which is fitted on other checkpoints
    totals: dict[str, Float[np.ndarray, "checkpoints"] | Undefined]
    names: tuple[str, ...]  # of these checkpoints


def measure(forks: Forks) -> Yardsticks:
    """Never, always, the oracle, the position table and the clock of each direction on these forks."""
    parts = partition(forks.prefork)
    checkpoint, delta = parts.checkpoint, forks.delta
    present = np.unique(checkpoint)
    names = tuple(parts.checkpoints[code] for code in present)

    def totals(fired: Bool[np.ndarray, "forks"]) -> Float[np.ndarray, "checkpoints"]:
        return earnings.checkpoint_totals(fired, delta, checkpoint, count=len(parts.checkpoints))

    place = position.strata(parts.direction, forks.prefork.k)
    fired = {
        "always": np.ones(len(forks), bool),
        "oracle": delta > 0,
        "position_table": position.position_table(delta, place, checkpoint),
        "direction_clock": position.direction_clock(delta, parts.direction, forks.prefork.k, checkpoint),
    }
    always = totals(fired["always"])
    alone = Undefined("leave-one-checkpoint-out needs at least two checkpoints")
    schedule = {name: alone if len(present) < 2 else totals(fired[name]) for name in FITTED}
    by_checkpoint = {"always": always, "oracle": totals(fired["oracle"]), **schedule}

    def fitted(name: str) -> Figure:
        return alone if len(present) < 2 else policies.policy_total(fired[name], delta)

    figures = ReferencePolicies(
        never=0.0,
        always=float(delta.sum()),
        oracle=policies.oracle_total(delta),
        position_table=fitted("position_table"),
        direction_clock=fitted("direction_clock"),
        earned={name: earnings.earned(values, names) for name, values in by_checkpoint.items()},
    )
    return Yardsticks(figures, earnings.yardsticks(always, schedule), names)
