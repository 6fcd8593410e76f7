"""Rules of scoring, decided before the ledger it scores exists."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, Final, Literal

import numpy as np

from worldfork.analysis.read.ledger import Ledger
from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.read.triggers import chosen_triggers, is_reference
from worldfork.analysis.score.curves import SEVERITY_EDGES as SEVERITY_EDGES
from worldfork.analysis.score.intervals import SIGNIFICANT
from worldfork.errors import WorldforkError, nearest
from worldfork.registration import Registration
from worldfork.registration.schema import CANDIDATES, Prediction
from worldfork.triggers import Trigger

ArmTask = tuple[str, str]


Standing = Literal["candidate", "exploratory", "reference"]


ABOVE_0: Final = math.ulp(0.0)  # the smallest number above it
ALLOWED: Final[Mapping[str, tuple[Any, float, float, str]]] = {  # kind, least, below, in words
    "divergence": (Real, ABOVE_0, 1, "a number between 0 and 1, or None"),
    "rate": (Real, ABOVE_0, 1, "a number between 0 and 1"),
    "update_cost": (Real, 0, math.inf, "a number from 0"),
    "permutations": (Integral, 1, math.inf, "a whole number from 1"),
    "seed": (Integral, 0, math.inf, "a whole number from 0"),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rules:
    """A study's registration decides these; a flat table gets the defaults, which are the paper's."""

    divergence: float | None = 0.30  # None switches the rule off
    rate: float = 0.3  # of the running quantile
    permutations: int = 20_000
    seed: int = 0
    triggers: tuple[str | Trigger, ...] | None = None  # that are read; None: all that can be
    candidates: tuple[str, ...] | None = None  # the registered family; None: a flat table's own signals
    members: tuple[ArmTask, ...] | None = None  # every (arm, task) of the study; None: those that are scored
    edges: Mapping[str, Sequence[float]] = dataclasses.field(default_factory=dict)  # of contraction's bins, by task
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
            predictions=tuple(registration.predictions),
        )

    def __post_init__(self) -> None:
        _require_allowed(vars(self))


def _require_allowed(rules: Mapping[str, Any]) -> None:
    for name, (kind, least, below, expected) in ALLOWED.items():
        value = rules.get(name, least)
        allowed = type(value) is not bool and isinstance(value, kind) and least <= value < below
        if not allowed and (name, value) != ("divergence", None):
            raise WorldforkError(f"The rule `{name}` is {expected}; got {value!r:.40}.")
    if rules.get("correction") not in (None, "holm", "max_t"):
        raise WorldforkError(f"`correction` is holm or max_t; got {rules['correction']!r:.40}.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Family:
    """The tests that were decided on beforehand."""

    candidates: tuple[str, ...]
    tasks_of_arms: tuple[ArmTask, ...]  # every (arm, task) of the study, scored or not
    registered: bool  # False: a flat table, whose family is whatever it has

    @property
    def means(self) -> frozenset[ArmTask]:
        """The registered means, by arm and task."""
        return frozenset(self.tasks_of_arms)

    @property
    def triggers(self) -> frozenset[tuple[str, str, str]]:
        """The registered candidates, by arm, task and name."""
        return frozenset((arm, task, name) for arm, task in self.tasks_of_arms for name in self.candidates)

    @property
    def permutations_needed(self) -> int:
        """The fewest permutations with which the smallest p there is, 1 / (1 + permutations), can pass the
        strictest step of Holm's adjustment."""
        return len(self.triggers) * round(1 / SIGNIFICANT)

    def standing(self, name: str) -> Standing:
        """Return the role of a trigger: registered candidate, reference (a schedule, a coin), or exploratory."""
        if is_reference(name):
            return "reference"
        return "candidate" if name in self.candidates else "exploratory"


def registered_family(arms: Mapping[str, Mapping[str, Forks]], rules: Rules) -> Family:
    """Return the registered family; of a flat table, all that it has."""
    scored = tuple((arm, task) for arm, tasks in arms.items() for task in tasks)
    if rules.candidates is not None:
        return Family(candidates=rules.candidates, tasks_of_arms=rules.members or scored, registered=True)
    tables = [forks.prefork for tasks in arms.values() for forks in tasks.values()]
    signals = {name for table in tables for name, values in table.signals.items() if not np.isnan(values).all()}
    streams = CANDIDATES if any(any(table.streams) for table in tables) else ()
    candidates = tuple(name for name in dict.fromkeys([*streams, *sorted(signals)]) if not is_reference(name))
    return Family(candidates=candidates, tasks_of_arms=rules.members or scored, registered=False)


def rules_of(ledger: Ledger, **changes: Any) -> Rules:
    """Return the rules that a study registered, or the paper's for a flat table, with these changes."""
    names = [field.name for field in dataclasses.fields(Rules)]
    if unknown := [name for name in changes if name not in names]:
        raise WorldforkError(
            f"There is no rule `{unknown[0]}`; there are {', '.join(names)}.{nearest(unknown[0], names)}"
        )
    _require_allowed(changes)
    if changes.get("triggers") is not None:
        changes["triggers"] = chosen_triggers(changes["triggers"])
    rules = Rules() if ledger.registration is None else Rules.registered(ledger.registration)
    if ledger.recorder is not None:
        rules = dataclasses.replace(rules, update_cost=ledger.recorder.update_cost)
    return dataclasses.replace(rules, **changes)
