"""Rules of scoring, decided before the ledger it scores exists."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from worldfork.analysis.score.effects import SEVERITY_EDGES as SEVERITY_EDGES
from worldfork.analysis.score.predictions import Prediction, Premise
from worldfork.errors import WorldforkError
from worldfork.registration import Registration
from worldfork.triggers import Trigger


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rules:
    """A study's registration decides these; a flat table gets the defaults, which are the paper's."""

    divergence: float | None = 0.30  # None switches the rule off
    rate: float = 0.3  # of the running quantile
    permutations: int = 20_000
    seed: int = 0
    triggers: tuple[str | Trigger, ...] | None = None  # that are read; None: all that can be
    candidates: tuple[str, ...] | None = None  # the registered family; None: a flat table's own signals
    members: tuple[tuple[str, str], ...] | None = (
        None  # every (arm, task) of the study; None: those that are scored
    )
    edges: Mapping[str, Sequence[float]] = dataclasses.field(
        default_factory=dict
    )  # of the contraction's bins, by task
    severity: Sequence[float] = SEVERITY_EDGES  # edges of r_hold / clean return
    predictions: tuple[Prediction, ...] = ()
    update_cost: float = 0.0  # price of an update in return, taken off every update's value
    trial_margin: float = 0.0  # that the mean dR of trial episodes has to exceed for an update to be kept
    correction: Literal["holm", "max_t"] | None = None  # over policies that share rows; None: Holm's decides

    @classmethod
    def registered(cls, registration: Registration) -> "Rules":
        """Return the rules that a study registered."""
        return cls(
            divergence=registration.scoring.divergence_fraction,
            rate=registration.scoring.running_quantile_rate,
            edges=registration.scoring.contraction_edges,
            severity=registration.scoring.severity_edges,
            candidates=registration.scoring.triggers,
            members=tuple((arm.name, task) for arm in registration.arms for task in arm.tasks),
            update_cost=registration.scoring.update_cost,
            correction=registration.scoring.correction,
            predictions=tuple(_prediction(prediction.model_dump()) for prediction in registration.predictions),
        )

    def __post_init__(self) -> None:
        if self.divergence is not None and not 0 < self.divergence < 1:
            raise WorldforkError(f"The divergence fraction lies between 0 and 1; got {self.divergence:g}.")
        if not 0 < self.rate < 1:
            raise WorldforkError(f"The rate of the running quantile lies between 0 and 1; got {self.rate:g}.")
        if not 0 <= self.update_cost < math.inf:
            raise WorldforkError(f"An update costs 0 or more; got {self.update_cost:g}.")
        if self.correction not in (None, "holm", "max_t"):
            raise WorldforkError(f"`correction` is holm or max_t; got {self.correction!r:.40}.")
        if self.permutations < 1:
            raise WorldforkError(f"A control needs at least one permutation; got {self.permutations}.")


def _prediction(table: dict[str, Any]) -> Prediction:
    premise = table.pop("premise")
    return Prediction(**table, premise=None if premise is None else Premise(**premise))
