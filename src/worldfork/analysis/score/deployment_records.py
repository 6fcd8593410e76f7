"""Records of closed-loop deployments, policy by policy, and cautions about them (docs/deployment.md)."""

import dataclasses
from collections.abc import Mapping
from typing import Final

from worldfork.analysis.score.intervals import LeaveOneOut, MeanByCheckpoint
from worldfork.analysis.score.undefined import Bounds, Figure, Named, Undefined
from worldfork.analysis.score.verdicts import Grade
from worldfork.counting import plural

NOT_ADJUSTED = Undefined("it was not adjusted so")
NOT_FORECAST = Undefined("it was not computed")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Advantage(MeanByCheckpoint):
    """A paired difference of two policies: within cells, then within checkpoints, then over checkpoints."""

    won: int  # checkpoints in which it is above 0
    grade: Grade | Undefined
    adjusted_student_t: Figure  # Holm's adjustment over the same difference of all policies, of all tasks
    adjusted_sign_flip: Figure
    leave_one_out: LeaveOneOut | Undefined
    adjusted_max_t: Figure = NOT_ADJUSTED  # step-down max-T over the same difference of the policies of its task
    grade_holm: Grade | Undefined = NOT_ADJUSTED  # by either correction; `grade` is the one that was registered
    grade_max_t: Grade | Undefined = NOT_ADJUSTED

    @property
    def adjusted_p(self) -> Figure:
        """The larger of both, which the grade rests on."""
        by_t, by_flips = self.adjusted_student_t, self.adjusted_sign_flip
        if isinstance(by_t, Undefined) or isinstance(by_flips, Undefined):
            return by_t if isinstance(by_t, Undefined) else by_flips
        return max(by_t, by_flips)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AtPoint:
    """The matched evaluation after one decision point, less that of never."""

    k: int
    mean: Figure
    student_t: Bounds


@dataclasses.dataclass(frozen=True)
class RetainedAdvantage:
    """The paired difference with never on the cells in which the policy did not diverge. It says what the policy is
    worth where it holds the system; no grade and no answer rests on it."""

    cells: int
    mean: Figure  # of the deployment's own episodes
    student_t: Bounds
    evaluated_mean: Figure  # of the matched evaluations
    evaluated_student_t: Bounds


@dataclasses.dataclass(frozen=True, kw_only=True)
class InDirection:
    """A policy where drift runs one way, over the checkpoints that have this direction. It says where a mean over
    all directions comes from; it is not adjusted, and no grade and no answer rests on it."""

    updates: float  # of one deployment, on average
    mean: Figure  # the return of an episode over never
    student_t: Bounds
    ledger_value: Figure
    parted: Figure  # what was realised less what the ledger says
    parted_student_t: Bounds


@dataclasses.dataclass(frozen=True)
class TrialCounts:
    """Trials of one deployment, on average. One that the deployment's end cut short is not among them."""

    decided: float
    kept: float  # whose update stayed


@dataclasses.dataclass(frozen=True, kw_only=True)
class PolicyOutcome:
    """A policy in closed-loop deployment. Returns are those of one episode, on average."""

    returned: Figure  # by the deployment's own episodes
    advantage: Advantage | Undefined  # of these, over never; undefined for never itself
    evaluation: Advantage | Undefined  # the same on the matched evaluations, over all registered points
    evaluation_at: tuple[AtPoint, ...]
    always: str | None  # the policy that always fires the same update, where there is one and it is another
    over_always: Advantage | Undefined  # of its own episodes, over that policy
    diverged: tuple[str, ...]  # its deployments that diverged, by cell; all figures but `retained` have them
    retained: RetainedAdvantage | Undefined  # of the others
    by_episode: tuple[Figure, ...]  # the advantage at each episode, mean over checkpoints
    fired_at: tuple[Figure, ...]  # the share of cells that updated at the end of each episode
    updates: float  # of one deployment, on average
    gradient_steps: float
    regret: Figure  # what the best policy of the task, chosen in hindsight, returned more
    regret_by_checkpoint: Figure  # the same with the best policy of each checkpoint
    ledger_value: Figure  # mean dR x fired over all decision points, by the one-step ledger
    ledger_updates: Figure  # as often as it would have fired on the frozen stream
    parted: Advantage | Undefined  # what was realised less what the ledger says, at every checkpoint
    by_direction: Mapping[str, InDirection]  # of drift; empty for never itself
    # The same two forecasts over the decisions that an episode follows: dR where it fires, and the label of the
    # present decision carried forward from the first fire on; and what was realised less each.
    one_step: Figure = NOT_FORECAST
    carried: Figure = NOT_FORECAST
    parted_one_step: Advantage | Undefined = NOT_FORECAST
    parted_carried: Advantage | Undefined = NOT_FORECAST
    trials: TrialCounts | None = None  # of a policy that tries its updates


@dataclasses.dataclass(frozen=True, kw_only=True)
class WithinUpdate:
    """The forecast over policies that fire one update. Two updates that lie far apart are easy to put in order, and
    hide how their policies are ordered."""

    policies: int  # that fired, here or by the ledger; the others are never by another name
    rank_correlation: Figure
    bootstrap: Bounds


@dataclasses.dataclass(frozen=True, kw_only=True)
class LedgerForecast:
    """The order of policies by the one-step ledger beside that by following them."""

    policies: int  # never among them
    rank_correlation: Figure  # Spearman's, of ledger value and realised advantage
    bootstrap: Bounds  # 95%, over resampled checkpoints; the policies are these and no sample of others
    without_one_low: Figure  # its range when one checkpoint is left out
    without_one_high: Figure
    by_checkpoint: Mapping[str, Figure]
    ordered_alike: Figure  # share of pairs of policies, of those that differ in both
    within: Mapping[str, WithinUpdate]  # by the arm whose update they fire; empty where there is one


@dataclasses.dataclass(frozen=True, kw_only=True)
class Order:
    """The order of policies by a forecast beside that by following them."""

    rank_correlation: Figure
    bootstrap: Bounds
    within: Mapping[str, WithinUpdate]  # by the arm whose update they fire; empty where there is one


@dataclasses.dataclass(frozen=True, kw_only=True)
class SizedForecast(Order):
    """A forecast of what following a policy returns more than never, per episode."""

    error: Figure  # root mean square over policies, never among them
    missed: int  # policies of which what was realised is told apart from the forecast


@dataclasses.dataclass(frozen=True, kw_only=True)
class PartialOrder:
    """Spearman's correlation of the one-step forecast with what was realised, given the count of fires."""

    value: Figure
    bootstrap: Bounds
    within: Mapping[str, WithinUpdate]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Forecasts:
    """Forecasts from one-step labels, over the decisions that an episode of the deployment follows.

    The first episode follows no decision, and no episode the last decision. `one_step` orders policies, `carried`
    says how much they return. `count` needs no label of a fork: it is how often a policy fires on the frozen stream
    times the mean dR of its update. That labels know more than that is what `partial` shows.
    """

    one_step: SizedForecast
    carried: SizedForecast
    count: Order
    partial: PartialOrder


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskDeployment:
    """Every policy on one task."""

    policies: Mapping[str, PolicyOutcome]
    best: str  # the policy with the largest return, in hindsight
    forecast: LedgerForecast
    cautions: tuple[str, ...]  # what to keep in mind when reading the intervals, in sentences
    checkpoints: int
    cells: int
    episodes: int  # of each deployment
    points: tuple[int, ...]  # at which models were evaluated
    evaluation_episodes: int
    family: int  # comparisons with never that were adjusted together
    forecasts: Forecasts | Undefined = NOT_FORECAST

    def __post_init__(self) -> None:
        object.__setattr__(self, "policies", Named(self.policies, "policy"))

    @property
    def has_trials(self) -> bool:
        """True if a policy tries its updates."""
        return any(outcome.trials for outcome in self.policies.values())

    @property
    def directions(self) -> tuple[str, ...]:
        """In which drift runs."""
        return tuple(sorted({way for outcome in self.policies.values() for way in outcome.by_direction}))


NAMED: Final = 3  # deployments that a sentence lists


def sentences(policies: Mapping[str, PolicyOutcome], cells: int) -> tuple[str, ...]:
    """Return a sentence for each policy with a deployment that diverged."""
    found = []
    for name, outcome in policies.items():
        lost = outcome.diverged
        if lost:
            listed = "; ".join(lost[:NAMED]) + (f"; and {len(lost) - NAMED} more" if len(lost) > NAMED else "")
            found.append(
                f"{name}: {len(lost)} of {plural(cells, 'deployment')} diverged ({listed}). Its means and "
                f"intervals are of all that were attempted, and rest on what diverged.{_others(outcome.retained)}"
            )
    return tuple(found)


def _others(retained: RetainedAdvantage | Undefined) -> str:
    if isinstance(retained, Undefined):  # it is never itself
        return ""
    if isinstance(retained.mean, Undefined):
        return " None is left beside these."
    words = f" The other {retained.cells} returned {retained.mean:+.3g}"
    if not isinstance(retained.student_t, Undefined):
        words += f" [{retained.student_t.low:+.3g}, {retained.student_t.high:+.3g}]"
    return f"{words} more than never."


# Checkpoints -> the lowest and the highest share of repetitions in which a nominal 95% interval held the value that
# is known: over two drifts, all policies whose rule was there beforehand and both outcomes, with one stream per
# checkpoint, without repetitions in which a deployment diverged (docs/deployment.md has every line with its error).
COVERAGE: Final = {5: (0.84, 0.97), 10: (0.87, 0.96), 20: (0.91, 0.95), 40: (0.92, 0.96)}


# The same of thresholds that a repetition fitted on its own forks: their worth as fitted, and that of fitting anew.
AS_FITTED: Final = (0.86, 0.93)


FITTING_ANEW: Final = (0.59, 0.94)


def cautions(checkpoints: int, *, fitted_here: bool) -> tuple[str, ...]:
    """Return sentences to print beside the intervals of a study of so many checkpoints."""
    sentences = []
    enough = max(COVERAGE)
    if checkpoints < enough:
        measured = max((count for count in COVERAGE if count <= checkpoints), default=min(COVERAGE))
        low, high = COVERAGE[measured]
        fewer = ", and there are fewer here" if checkpoints < measured else ""
        sentences.append(
            f"Intervals over fewer than {enough} checkpoints are too narrow where deployments are skewed: where "
            f"values are known (linear-quadratic, one stream each) a nominal 95% over {measured} checkpoints "
            f"covers {low:.0%} to {high:.0%}, depending on the drift and the policy{fewer}."
        )
    if fitted_here:
        sentences.append(
            "Fitted thresholds come from this study's own forks: their intervals are about these thresholds, not "
            f"about fitting anew. Where both are known, a nominal 95% covers {AS_FITTED[0]:.0%} to "
            f"{AS_FITTED[1]:.0%} of the one and {FITTING_ANEW[0]:.0%} to {FITTING_ANEW[1]:.0%} of the other."
        )
    return tuple(sentences)
