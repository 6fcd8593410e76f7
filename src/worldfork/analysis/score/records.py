"""Every figure of a score, as records that are keyed in the same way whatever the ledger.

The names are those of the JSON that `worldfork score --json` prints (docs/scoring.md defines them): the path of a
figure in a record is its path there. A figure is a number or `Undefined` with its reason.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Final, Generic, Literal, TypeVar

from worldfork.analysis.score.decisions import Evidence
from worldfork.analysis.score.judgement import (
    BreakEven,
    CleanReturn,
    Components,
    Earned,
    FittedThreshold,
    Gain,
    Grade,
    Helped,
    Judgement,
    MeanOf,
    PerDeployment,
    PredictionAnswer,
    PriceRange,
    Robust,
    Scale,
    Severity,
    Skew,
    SlopeEstimate,
    Standing,
    StratifiedAuc,
    SwappedControl,
    Usefulness,
)
from worldfork.analysis.score.undefined import INTERNAL, TWO_KEYS, Bounds, Figure, Undefined, settle

T = TypeVar("T")
NOT_COMPUTED: Final = Undefined("it was not computed")
Estimand = Literal["all_attempted", "retained"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Estimands(Generic[T]):
    """A figure on all attempted forks, and on those that the divergence rule retains."""

    all_attempted: T
    retained: T

    def __getitem__(self, estimand: str) -> T:
        assert estimand in ("all_attempted", "retained"), estimand
        return self.retained if estimand == "retained" else self.all_attempted

    def items(self) -> Iterator[tuple[str, T]]:
        """Yield both, by name."""
        yield "all_attempted", self.all_attempted
        yield "retained", self.retained


@dataclasses.dataclass(frozen=True, kw_only=True)
class Intervals:
    """Both 95% intervals of a mean over checkpoints."""

    bootstrap: Bounds
    student_t: Bounds


@dataclasses.dataclass(frozen=True, kw_only=True)
class MeanEstimate(Intervals):
    """A mean over checkpoints, its intervals, its minimum detectable effect, and p of there being none."""

    mean: Figure
    mde: Figure
    p_student_t: Figure
    p_sign_flip: Figure
    skew: Skew | Undefined = NOT_COMPUTED


@dataclasses.dataclass(frozen=True, kw_only=True)
class MeanByCheckpoint(MeanEstimate):
    """A mean over checkpoints with the mean of each."""

    by_checkpoint: Mapping[str, Figure]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Effect(MeanByCheckpoint):
    """Mean dR over forks, cells and checkpoints."""

    by_direction: Mapping[str, Figure]
    by_direction_intervals: Mapping[str, Intervals]
    clusters: int
    cells: int
    cells_without_forks: int
    left_out: tuple[str, ...]  # these cells, by checkpoint/direction/stream seed
    cells_below_zero: int
    forks: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class PairedForks:
    """Agreement of two arms, fork by fork."""

    forks: int
    pearson: Figure
    spearman: Figure
    same_sign: Figure


@dataclasses.dataclass(frozen=True, kw_only=True)
class PairedDifference(MeanByCheckpoint):
    """The first arm less the second, on the cells both have."""

    first: Figure
    second: Figure
    cells: int
    paired: PairedForks


@dataclasses.dataclass(frozen=True, kw_only=True)
class Contrast(PairedDifference):
    """A difference of two arms that the score compares, graded among all that it compares."""

    grade: Grade | Undefined
    family: int  # differences that are adjusted together: all of the score, of this estimand
    adjusted_student_t: Figure
    adjusted_sign_flip: Figure
    more_checkpoints: int | Undefined  # that would resolve it, were mean and spread to stay


@dataclasses.dataclass(frozen=True, kw_only=True)
class DirectionContrast(MeanByCheckpoint):
    """toward less away, at the drift levels both visit."""

    by_direction: Mapping[str, Figure]
    levels: int


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
class ReferencePolicies:
    """The totals of the policies that need no trigger; the last two read the schedule (position.py)."""

    never: Figure
    always: Figure
    oracle: Figure
    position_table: Figure
    direction_clock: Figure
    earned: Mapping[str, Earned]  # of each but `never`, which earns nothing
    per_deployment: Mapping[str, MeanOf]  # of the same


@dataclasses.dataclass(frozen=True, kw_only=True)
class PolicyTotals:
    """The total of a policy, its fires, and the gradient steps that it took."""

    policy_total: Figure
    fires: int | Undefined
    by_direction: Mapping[str, Figure] | Undefined
    gradient_steps: int | Undefined


@dataclasses.dataclass(frozen=True, kw_only=True)
class PolicyFigures(PolicyTotals):
    """The returns of a policy by checkpoint, its gains over the baselines, and the exchange of checkpoints."""

    earned: Earned | Undefined
    gains: Mapping[str, Gain] | Undefined  # over never, always, the better of both, and what reads the schedule
    swapped: SwappedControl | Undefined


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomControl:
    """The total of firing as often at random; p counts the draws that earn as much as the policy."""

    mean: Figure
    interval: Bounds
    p: float
    permutations: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClusterMean:
    """A mean over few clusters; below three of them the interval is their range, and `kind` is "min-max"."""

    value: Figure
    interval: Bounds
    kind: str
    student_t: Bounds
    clusters: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ranking:
    """The ranking of forks with dR > 0 above the rest by a signal."""

    auc: Figure
    auc_interval: Bounds
    auc_interval_kind: str | Undefined
    auc_student_t: Bounds
    auc_clusters: int  # checkpoints that have both classes: what both intervals rest on
    auc_by_checkpoint: Mapping[str, Figure] | Undefined


@dataclasses.dataclass(frozen=True, kw_only=True)
class Endpoint(ClusterMean):
    """The registered primary endpoint, by one rule of firing."""

    by_checkpoint: Mapping[str, Figure]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Endpoints:
    """The primary endpoint by both rules of firing."""

    leave_one_checkpoint_out: Endpoint | Undefined
    running_quantile: Endpoint | Undefined


@dataclasses.dataclass(frozen=True, kw_only=True)
class TriggerFigures(Ranking, PolicyFigures):
    """A trigger on one set of forks, measured by itself. The policy figures are those of its fitted threshold."""

    n_defined: int
    correlation: Figure
    partial_correlation: Figure
    spearman_hold: Figure
    running_quantile: PolicyFigures  # label-free; under a ramp it fires as the ramp goes, so it has controls too
    random: RandomControl | Undefined
    random_blocks: Mapping[str, RandomControl] | Undefined
    random_shift: RandomControl | Undefined
    endpoint: Endpoints
    excluded_quantile: Figure
    given_position: StratifiedAuc | Undefined
    per_deployment: PerDeployment
    threshold: FittedThreshold | Undefined


@dataclasses.dataclass(frozen=True, kw_only=True)
class TriggerScore(TriggerFigures):
    """A trigger judged among all that were tested together."""

    standing: Standing  # only a registered candidate can pass or fail; all else is exploratory, or a reference
    adjusted: Mapping[str, Figure]  # Holm-adjusted p of each test over candidates x tasks x arms
    passes_control: bool | Undefined  # of its random and its shifted control, adjusted
    useful: Usefulness | Undefined
    control_p: Figure  # the larger of the adjusted p of its random and its shifted control


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bin:
    """Mean dR of the forks with low <= r_hold < high; None is an open end."""

    low: float | None
    high: float | None
    forks: int
    mean: Figure
    standard_error: Figure


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitHalf:
    """The second half of HOLD's episodes on the first: what measurement error alone would show."""

    slope: Figure
    variance_ratio: Figure


@dataclasses.dataclass(frozen=True, kw_only=True)
class Contraction:
    """r_update on r_hold."""

    slope: Figure
    slope_interval: Bounds  # Student-t over checkpoints left out one at a time (slopes.py)
    slope_bootstrap: Bounds  # percentile, over resampled checkpoints
    intercept: Figure
    crossing: Figure
    crossing_interval: Bounds  # Fieller's
    crossing_bootstrap: Bounds
    variance_ratio: Figure
    variance_ratio_interval: Bounds
    variance_ratio_bootstrap: Bounds
    clusters: int
    within: SlopeEstimate  # the slope at a fixed (direction, k): between checkpoints, not between moments
    bins: tuple[Bin, ...] | Undefined
    split_half: SplitHalf


@dataclasses.dataclass(frozen=True, kw_only=True)
class Proxies:
    """Proxy checks: dR against k given r_hold, and cells with both signs of dR."""

    delta_k_given_hold: Figure
    cells_with_both_signs: Figure


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trial(MeanByCheckpoint):
    """A rule that tries an update on a few episodes and keeps it where it won there: mean dR of the others."""

    episodes: int  # of a trial
    proposed: float  # the share of decision points at which an update is tried
    kept: Figure  # the share of the trials after which it is kept
    over_better: MeanEstimate  # over the better of never and always, in hindsight
    break_even: BreakEven  # the price of a trial episode up to which it is worth more than these


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trials:
    """Try, then keep: by the number of trial episodes, and with one where a trigger proposes the update."""

    margin: float  # that the mean dR of the trial has to exceed
    by_episodes: Mapping[str, Trial]
    proposed_by: Mapping[str, Trial]
    always: float  # mean dR, for comparison
    oracle: float  # the mean of max(dR, 0) over forks: no rule that keeps or drops an update can be worth more
    # Of never, always and each number of episodes the best at each price of a trial episode, in hindsight.
    best: tuple[PriceRange, ...] = dataclasses.field(default=(), metadata=INTERNAL)


@dataclasses.dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """Mean dR of the forks between two ends, by checkpoint."""

    low: float | None
    high: float | None
    forks: int
    checkpoints: int
    mean: Figure
    student_t: Bounds  # for this place alone
    band: Bounds  # for all places at once


@dataclasses.dataclass(frozen=True, kw_only=True)
class Curve:
    """Mean dR along something, with a simultaneous 95% band."""

    points: tuple[CurvePoint, ...]
    critical: Figure  # standard errors that the band reaches to each side


@dataclasses.dataclass(frozen=True, kw_only=True)
class Curves:
    """Mean dR along the drift level, and along the share of the clean return that HOLD still has."""

    level: Curve | Undefined
    halves: tuple[CurvePoint, ...] | Undefined  # below half of the largest level, and from there on
    hold_share: Curve | Undefined  # placed by half of the episodes and valued by the others


@dataclasses.dataclass(frozen=True, kw_only=True)
class TriggerPrices:
    """Prices of an update between which a trigger is worth more than never and always updating."""

    over_never: BreakEven  # up to this price
    over_always: BreakEven  # from this price on


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prices:
    """The price of an update, and those at which the answer changes; all attempted forks."""

    update_cost: float  # as registered: every figure of the task is net of it, and the prices below are gross
    always: BreakEven  # up to this price always updating is worth more than never
    triggers: Mapping[str, TriggerPrices]
    best: tuple[PriceRange, ...]  # of never, always and the registered candidates, in hindsight


@dataclasses.dataclass(frozen=True, kw_only=True)
class VarianceComponents:
    """Variance of dR between checkpoints, between forks of a checkpoint, between paired episodes of a fork."""

    checkpoint: Figure
    fork: Figure
    episode: Figure


@dataclasses.dataclass(frozen=True, kw_only=True)
class DesignComponents(VarianceComponents):
    """Variances with what decision points share over checkpoints taken out of the forks."""

    decision_point: Figure

    def traded(self) -> dict[str, float] | Undefined:
        """Return the three variances that a budget trades against one another, or why one of them is not known."""
        variances = {}
        for name, value in (("checkpoint", self.checkpoint), ("fork", self.fork), ("episode", self.episode)):
            if isinstance(value, Undefined):
                return Undefined(f"a variance component is undefined: {value.why}")
            variances[name] = value
        return variances


@dataclasses.dataclass(frozen=True, kw_only=True)
class DesignAdvice:
    """A study's size, what it can detect, and what a larger budget would buy."""

    checkpoints: int | float
    forks: float
    episodes: float
    components: DesignComponents
    mde: Figure
    mde_at_double: Mapping[str, Figure]
    buys_most: str
    standard_error: Figure
    standard_error_at: Mapping[str, Mapping[str, Figure]]


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
class TaskFigures:
    """Every figure of one task in one arm, and the evidence behind them."""

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskScore(TaskFigures):
    """The figures of one task in one arm, and the registered predictions about them."""

    predictions: tuple[PredictionAnswer, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return the figures as plain values, null where undefined."""
        plain = settle(self)[0]
        assert isinstance(plain, dict)
        return plain
