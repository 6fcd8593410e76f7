"""Every figure of a score, as records that are keyed in the same way whatever the ledger.

The names are those of the JSON that `worldfork score --json` prints (docs/scoring.md defines them): the path of a
figure in a record is its path there. A figure is a number or `Undefined` with its reason.
"""

import dataclasses
from collections.abc import Mapping
from typing import Literal

from worldfork.analysis.score.contraction import Contraction
from worldfork.analysis.score.contrasts import DirectionContrast
from worldfork.analysis.score.curves import Curves, Severity
from worldfork.analysis.score.decisions import Evidence
from worldfork.analysis.score.effects import CleanReturn, Effect, Helped, Robust, Scale
from worldfork.analysis.score.policies import ReferencePolicies
from worldfork.analysis.score.triggers import TriggerScore
from worldfork.analysis.score.undefined import INTERNAL, TWO_KEYS, Bounds, Estimands, Figure, Undefined, settle
from worldfork.analysis.score.value import Prices, Trials
from worldfork.analysis.score.variance import Components, DesignAdvice, VarianceComponents
from worldfork.analysis.score.verdicts import Judgement


@dataclasses.dataclass(frozen=True, kw_only=True)
class ForkCounts:
    """Counts of forks; helped and hurt are counted among the retained."""

    attempted: int
    retained: int
    diverged: int
    diverged_share: Figure
    quarantined: int  # forks without what was recorded before the fork: no trigger is scored on them
    failed_hold: int  # branches without a finite return: counted among the attempted, never among the retained
    failed_update: int
    failure_return: Figure  # what these count as
    below_own_hold: int | Undefined  # forks below the same share of their own r_hold, not of their cell's mean
    helped: int
    hurt: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Proxies:
    """Proxy checks: dR against k given r_hold, and cells with both signs of dR."""

    delta_k_given_hold: Figure
    cells_with_both_signs: Figure


@dataclasses.dataclass(frozen=True, kw_only=True)
class CommonRandomNumbers:
    """The factor by which m would have to grow without common random numbers."""

    gain: Figure


@dataclasses.dataclass(frozen=True, kw_only=True)
class RegisteredDivergence:
    """The divergence rule as applied, and the cells where it is off."""

    fraction: Figure
    off_in: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Equivalence:
    """Two one-sided tests of whether a mean over checkpoints lies within the margin of 0."""

    margin: float
    mean: Figure
    interval: Bounds  # 90%: inside the margin exactly where both one-sided tests reject at 5%
    p: Figure  # the larger of the two
    least_margin: Figure  # the smallest margin that this data would have shown equivalence for
    clusters: int
    answer: Literal["equivalent", "different", "not shown"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class PredictionAnswer:
    """A registered prediction, the figure it is about, and whether it held."""

    name: str
    figure: str
    against: str | None  # the arm that was subtracted
    between: tuple[float, float] | None
    falsified_below: float | None
    falsified_above: float | None
    equivalence: Equivalence | None  # two one-sided tests, where a margin was registered
    premise: str | None
    premise_value: Figure | None
    value: Figure
    interval: Bounds
    answer: Literal["held", "falsified", "unresolved", "not tested"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskScore:
    """Every figure of one task in one arm, the evidence behind them, and the registered predictions about them."""

    forks: ForkCounts
    effect: Estimands[Effect]
    verdict: str | Undefined
    judgement: Judgement
    drift_quartiles: Mapping[str, tuple[Figure, ...] | Undefined]
    direction_contrast: Estimands[DirectionContrast | Undefined]
    policies: Estimands[ReferencePolicies] = dataclasses.field(metadata=TWO_KEYS)
    triggers: Estimands[Mapping[str, TriggerScore]] = dataclasses.field(metadata=TWO_KEYS)
    triggers_unavailable: Mapping[str, str]  # those that are left out, and why
    contraction: Contraction
    proxies: Proxies
    variance_components: VarianceComponents
    design: DesignAdvice | Undefined
    crn: CommonRandomNumbers
    divergence: RegisteredDivergence
    clean_return: CleanReturn | Undefined
    severity: tuple[Severity, ...] | Undefined  # all attempted forks, the most severe first
    components: Components | Undefined  # all of them, draws of the update among them
    scale: Scale
    helped: Helped
    robust: Robust
    curves: Curves
    trials: Trials | Undefined
    prices: Prices
    candidates: int  # triggers that are registered as such, read or not: tests are adjusted over all of them
    # Of these, how many could not be read; whatever else is missing from the triggers was not asked for.
    candidates_unread: int = dataclasses.field(metadata=INTERNAL)
    evidence: Evidence = dataclasses.field(metadata=INTERNAL, repr=False, compare=False)
    predictions: tuple[PredictionAnswer, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return the figures as plain values, null where undefined."""
        plain = settle(self)[0]
        assert isinstance(plain, dict)
        return plain
