"""Records of what a figure can be held to: exact tests, baselines, severities, intervals over checkpoints."""

import dataclasses
from collections.abc import Mapping
from typing import Literal

from worldfork.analysis.score.undefined import INTERNAL, Bounds, Figure, Undefined

NOT_REFITTED = Undefined("it is fitted anew for registered candidates, and their fitted thresholds alone")
Grade = Literal["resolved", "leaning", "unresolved"]
Standing = Literal["candidate", "exploratory", "reference"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class LeaveOneOut:
    """The range of the end of the Student-t interval that is nearer to 0 when one checkpoint is left out."""

    low: Figure
    high: Figure
    crosses: tuple[str, ...]  # the checkpoints without which the interval reaches 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class LookFigures:
    """A question at one look."""

    checkpoints: int
    mean: float
    statistic: Figure  # answers the question where it is at least `bound`, whatever its sign
    bound: float
    interval: Bounds  # holds at all looks together
    answer: Literal["above", "below"] | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuestionAnswer:
    """A registered question, and the look that answered it, or else the last one."""

    task: str
    arm: str
    against: str | None
    grade: Grade  # resolved where it was answered, else unresolved
    answer: Literal["above", "below"] | None  # the side of 0 on which the mean lies
    checkpoints: int  # of that look
    mean: float  # at that look, as all below
    statistic: Figure
    bound: float
    interval: Bounds
    looks: tuple[LookFigures, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Judgement:
    """The strength of evidence of a mean over all attempted forks, among the registered means."""

    grade: Grade | Undefined
    p_student_t: Figure
    p_sign_flip: Figure
    p_wild: Figure
    least_p: Figure  # that sign flips can give with so many checkpoints
    family: int  # registered means: every task of every arm
    adjusted_student_t: Figure  # Holm's adjustment over these
    adjusted_sign_flip: Figure
    leave_one_out: LeaveOneOut | Undefined
    anytime: Bounds  # valid however often one looked
    more_checkpoints: int | Undefined  # that would resolve it, were mean and spread to stay
    # The question of [stopping] that decided the grade.
    asked: QuestionAnswer | None = dataclasses.field(default=None, metadata=INTERNAL)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Skew:
    """Skewness of cluster means, and an interval of their mean that is corrected for it."""

    skewness: Figure
    shortfall: Figure  # of coverage: how far a nominal 95% Student-t interval falls short, about
    johnson: Bounds  # by Johnson's modified t
    words: str  # the shortfall in a sentence; empty where it is too small to matter


@dataclasses.dataclass(frozen=True, kw_only=True)
class BreakEven:
    """The price of an update at which two policies are worth the same."""

    price: Figure
    interval: Bounds  # every price at which the paired t test does not tell them apart


@dataclasses.dataclass(frozen=True, kw_only=True)
class PriceRange:
    """The prices of an update at which a policy is worth the most, of those compared."""

    policy: str
    above: float
    below: float | None  # None: at every higher price


@dataclasses.dataclass(frozen=True, kw_only=True)
class Robust:
    """Figures that a few checkpoints, or a few episodes, can not carry alone."""

    interquartile_mean: Figure  # of the checkpoint means: without the highest and the lowest quarter
    interquartile_bootstrap: Bounds
    probability_of_improvement: Figure  # that an update returns more than HOLD on the same episode, ties a half
    probability_student_t: Bounds


@dataclasses.dataclass(frozen=True, kw_only=True)
class MeanOf:
    """A mean over checkpoints and its Student-t interval."""

    mean: Figure
    student_t: Bounds


@dataclasses.dataclass(frozen=True, kw_only=True)
class PerDeployment(MeanOf):
    """The return that a policy gains over never in one deployment (a cell), beside firing as often at random."""

    random: Figure
    random_interval: Bounds


@dataclasses.dataclass(frozen=True, kw_only=True)
class FittedThreshold:
    """The threshold that earns the most on all scored forks together, and the share of them that reach it."""

    value: Figure  # undefined where the most is earned by firing everywhere, or nowhere
    share: Figure


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scale:
    """Returns that a mean dR is held against, and dR as a share of each where that is positive."""

    frozen: float
    of_frozen: Figure
    clean: Figure
    of_clean: Figure


@dataclasses.dataclass(frozen=True, kw_only=True)
class Helped:
    """The share of forks with dR > 0, averaged as dR is, and its range over checkpoints."""

    share: float
    low: float
    high: float
    forks: int
    of: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Normalised:
    """The plain mean over tasks of dR as a share of the frozen return, with Welch's interval over checkpoints."""

    share: Figure
    interval: Bounds
    tasks: Mapping[str, float]


@dataclasses.dataclass(frozen=True, kw_only=True)
class StratifiedAuc:
    """The share of pairs at one (direction, k), one with dR > 0 and one without, that a signal puts in order."""

    auc: Figure
    pairs: int
    strata: int  # places that have such a pair
    without_one_low: Figure  # the range when one checkpoint is left out
    without_one_high: Figure


@dataclasses.dataclass(frozen=True, kw_only=True)
class SwappedControl:
    """The total of a policy with the fires of other checkpoints instead of its own."""

    mean: Figure
    p: float
    orders: int
    exact: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class Earned:
    """The mean total of a checkpoint."""

    mean: Figure
    student_t: Bounds
    by_checkpoint: Mapping[str, Figure]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Gain:
    """The difference of two policies' totals in a checkpoint, on average."""

    mean: Figure
    student_t: Bounds
    p_student_t: Figure
    p_sign_flip: Figure
    checkpoints: int
    won: int  # checkpoints in which it earns more
    # Student's t with thresholds and baselines fitted anew without each checkpoint: of registered candidates alone.
    refitted: Bounds = NOT_REFITTED


@dataclasses.dataclass(frozen=True, kw_only=True)
class Usefulness:
    """The verdict on a policy: useful where it beats everything it has to, and what it does not beat."""

    useful: bool
    does_not_beat: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class CleanReturn:
    """The returns of checkpoints in the clean world."""

    mean: float
    student_t: Bounds
    by_checkpoint: Mapping[str, float]


@dataclasses.dataclass(frozen=True, kw_only=True)
class FreshSeverity:
    """The forks of a bin, where half of the episodes say how severe it is and the others what updating was
    worth."""

    mean: Figure  # over checkpoints, of what either half placed here
    student_t: Bounds  # of that
    forks_by_even: int  # that the even episodes place here; the odd ones say what updating was worth
    forks_by_odd: int  # the reverse: a fork can be in both, or in different classes
    checkpoints: int  # that have such forks by either half


@dataclasses.dataclass(frozen=True, kw_only=True)
class Severity:
    """The forks with low <= r_hold / clean return < high; None is an open end."""

    low: float | None
    high: float | None
    forks: int
    checkpoints: int  # that have such forks: the interval rests on these
    helped: int
    mean: Figure  # over forks
    checkpoint_mean: Figure  # over checkpoints, of the mean over their forks here
    student_t: Bounds  # of that
    fresh: FreshSeverity | Undefined


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
class SlopeEstimate:
    """A figure of a fit with both intervals over checkpoints."""

    value: Figure
    bootstrap: Bounds
    student_t: Bounds
    clusters: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Line:
    """Least squares of y on x over all forks."""

    slope: SlopeEstimate
    crossing: SlopeEstimate
    variance_ratio: SlopeEstimate


@dataclasses.dataclass(frozen=True, kw_only=True)
class Components:
    """Variances of dR. What decision points share is no noise: every checkpoint is forked there."""

    checkpoint: Figure
    decision_point: Figure
    fork: Figure
    draw: Figure
    draw_interval: Bounds  # Student-t over checkpoints, each with the component of its own forks
    draws_of_both_signs: Figure  # share of forks of which one draw helped and another hurt
    episode: Figure
    draw_episode: Figure


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
