"""The registered primary endpoint, which the authors did not report (paper, "Design and inference")."""

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from jaxtyping import Bool, Float, Int

from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.score import (
    cross_checkpoint_null,
    permutation_nulls,
    policy_returns,
    rankings,
)
from worldfork.analysis.score import (
    decisions as policies,
)
from worldfork.analysis.score.clusters import Partition, partition
from worldfork.analysis.score.decisions import NO_SIGNAL, Decisions, Divergence, Evidence
from worldfork.analysis.score.intervals import cluster_interval
from worldfork.analysis.score.judgement import (
    Earned,
    FittedThreshold,
    Gain,
    PerDeployment,
    StratifiedAuc,
    SwappedControl,
)
from worldfork.analysis.score.policy_returns import Yardsticks
from worldfork.analysis.score.rankings import ranking
from worldfork.analysis.score.records import (
    Endpoint,
    Endpoints,
    Estimands,
    PolicyTotals,
    RandomControl,
    Ranking,
    RunningPolicy,
    TriggerScore,
)
from worldfork.analysis.score.rules import Rules
from worldfork.analysis.score.undefined import Undefined, divide, divide_bounds


@dataclasses.dataclass(frozen=True)
class Baseline:
    """One checkpoint, whatever fires: its forks, their mean dR, and sigma_ep, the root mean over them of the
    within-fork variance of HOLD's episode returns."""

    checkpoint: str
    forks: Int[np.ndarray, "own"]
    mean: float
    sigma: float


def baselines(
    delta: Float[np.ndarray, "forks"], hold: Float[np.ndarray, "forks episodes"] | None, parts: Partition
) -> tuple[Baseline, ...] | Undefined:
    """What every policy's endpoint is measured by."""
    if hold is None:
        return Undefined("sigma_ep needs the per-episode returns `hold` and `update`")
    enough = (~np.isnan(hold)).sum(axis=1) > 1
    if not enough.any():
        return Undefined("sigma_ep needs at least two episodes in a fork")
    variance = np.full(len(hold), np.nan)
    variance[enough] = np.nanvar(hold[enough], axis=1, ddof=1)
    return tuple(
        Baseline(
            checkpoint=name,
            forks=forks,
            mean=float(delta[forks].mean()),
            sigma=float(np.sqrt(np.nanmean(variance[forks]))) if enough[forks].any() else 0.0,
        )
        for name, forks in zip(parts.checkpoints, parts.by_checkpoint(), strict=True)
        if len(delta[forks])
    )


def endpoint(
    fired: Bool[np.ndarray, "forks"],
    delta: Float[np.ndarray, "forks"],
    measured: Sequence[Baseline] | Undefined,
    *,
    seed: int,
    task: str,
) -> Endpoint | Undefined:
    """(mean dR where fired - mean dR) / sigma_ep within each checkpoint that has a fire, averaged over them."""
    if isinstance(measured, Undefined):
        return measured
    by_checkpoint = {
        baseline.checkpoint: float(_mean(delta[baseline.forks[flags]]) - baseline.mean) / baseline.sigma
        for baseline in measured
        if baseline.sigma > 0 and (flags := fired[baseline.forks]).any()
    }
    if not by_checkpoint:
        fired_at_all = bool(fired.any())
        return Undefined("sigma_ep is zero: HOLD's episodes do not vary" if fired_at_all else "it never fires")
    mean = cluster_interval(np.array(list(by_checkpoint.values())), seed=seed, task=task)
    return Endpoint(
        value=mean.value,
        interval=mean.interval,
        kind=mean.kind,
        student_t=mean.student_t,
        clusters=mean.clusters,
        by_checkpoint=by_checkpoint,
    )


def _mean(values: Float[np.ndarray, "some"]) -> float:
    """What `values.mean()` is, in a third of its time: there is one for every checkpoint of every policy."""
    return float(np.add.reduce(values) / len(values))


JudgedPolicies = Mapping[bytes, Mapping[str, RandomControl]]  # by where they fire, the control under each null

UNJUDGED: Final = Undefined("not yet compared with the rest of its family")
NO_STEPS: Final = Undefined("the ledger does not say how many gradient steps an update takes")


def tested_policies(evidence: Evidence) -> permutation_nulls.ArmPolicies:
    """Every policy that is compared with random ones, on all attempted and on retained forks."""
    forks = evidence.forks
    sets = []
    for scored, decisions in _sides(evidence).values():
        flags = list(_distinct(decision.fired for decision in decisions.values()).values())
        sets.append(permutation_nulls.Policies(scored, np.array(flags, bool).reshape(len(flags), len(forks)).T))
    return permutation_nulls.ArmPolicies(forks.prefork, forks.delta, sets)


def judge_policies(
    evidence: Evidence, nulls: Sequence[Mapping[str, Float[np.ndarray, "permutations _"]]]
) -> dict[str, JudgedPolicies]:
    """The tested policies beside their nulls, which are the totals of each set of them."""
    delta = evidence.forks.delta
    judged: dict[str, JudgedPolicies] = {}
    for (side, (scored, decisions)), null in zip(_sides(evidence).items(), nulls, strict=True):
        fired = _distinct(decision.fired for decision in decisions.values())
        judged[side] = {
            name: _judged(flags[scored], delta[scored], {kind: null[kind][:, index] for kind in null})
            for index, (name, flags) in enumerate(fired.items())
        }
    return judged


def rivals(
    evidence: Evidence,
    judged: Mapping[str, JudgedPolicies],
    *,
    yardsticks: Estimands[Yardsticks],
    rules: Rules,
) -> Estimands[Mapping[str, TriggerScore]]:
    """The figures of every trigger on all attempted and on retained forks, with the controls of the policies.

    What depends on the family of tests is filled in when all of it is scored (verdicts.py).
    """
    forks = evidence.forks
    scores: dict[str, dict[str, TriggerScore]] = {}
    for side, (scored, decisions) in _sides(evidence).items():
        measured = yardsticks.retained if side == "retained" else yardsticks.all_attempted
        fired = _distinct(decision.fired for decision in decisions.values())
        running = _distinct(decision.running for decision in decisions.values())
        view = _Scored(forks, forks.take(scored), scored, evidence.divergence, measured, rules, fired | running)
        scores[side] = {
            name: _trigger(decision, view, _control(decision, judged[side])) for name, decision in decisions.items()
        }
    on_all = scores["all_attempted"]
    return Estimands(all_attempted=on_all, retained=scores.get("retained", on_all))


def _sides(evidence: Evidence) -> dict[str, tuple[Bool[np.ndarray, "forks"], Mapping[str, Decisions]]]:
    """Which forks are scored, and the decisions on them. Where nothing diverged, what is said of all attempted
    forks is said of those that were retained."""
    dropped = evidence.divergence.dropped
    attempted = {"all_attempted": (np.ones(len(dropped), bool), evidence.all_attempted)}
    return {"retained": (~dropped, evidence.retained), **attempted} if dropped.any() else attempted


@dataclasses.dataclass(frozen=True)
class _Scored:
    """The forks that are scored: `kept`, those of all `attempted` ones where `scored`."""

    attempted: Forks
    kept: Forks
    scored: Bool[np.ndarray, "forks"]
    divergence: Divergence
    yardsticks: Yardsticks
    rules: Rules
    distinct: Mapping[bytes, Bool[np.ndarray, "forks"]]  # the policies by their fires: those that fire alike once

    @functools.cached_property
    def parts(self) -> Partition:
        return partition(self.kept.prefork)

    @functools.cached_property
    def deployments(self) -> policy_returns.Deployments:
        return policy_returns.count_deployments(self.kept)

    @functools.cached_property
    def stratum(self) -> Int[np.ndarray, "kept"]:
        """(direction, k) of every kept fork."""
        return policy_returns.strata(self.parts.direction, self.kept.prefork.k)

    @functools.cached_property
    def baselines(self) -> tuple[Baseline, ...] | Undefined:
        return baselines(self.kept.delta, self.kept.outcomes.hold, self.parts)

    @functools.cached_property
    def place(self) -> Int[np.ndarray, "forks"]:
        """(direction, stream seed, k) of every attempted fork: what a checkpoint has once."""
        prefork = self.attempted.prefork
        stream = np.array([cell.stream_seed for cell in prefork.cells])[prefork.cell]
        return policy_returns.strata(policy_returns.strata(partition(prefork).direction, stream), prefork.k)

    @functools.cached_property
    def swapped(self) -> dict[bytes, SwappedControl | Undefined]:
        """The control of every distinct policy, all of them at once."""
        checkpoint = partition(self.attempted.prefork).checkpoint
        totals = cross_checkpoint_null.cross_totals(
            np.array(list(self.distinct.values())), self.attempted.delta, self.scored, self.place, checkpoint
        )
        found = cross_checkpoint_null.swapped_controls(
            totals, permutations=self.rules.permutations, seed=self.rules.seed, task=self.attempted.task
        )
        return dict(zip(self.distinct, found, strict=True))

    @functools.cached_property
    def earned(self) -> dict[bytes, tuple[Earned, Mapping[str, Gain]]]:
        """Of every distinct policy the total of each checkpoint, and what it is more than each yardstick's."""
        parts, measured = self.parts, self.yardsticks
        totals = np.array(
            [
                policy_returns.checkpoint_totals(
                    fired[self.scored], self.kept.delta, parts.checkpoint, count=len(parts.checkpoints)
                )
                for fired in self.distinct.values()
            ]
        )
        gains = policy_returns.gains(totals, measured.totals, seed=self.rules.seed, task=self.kept.task)
        earned = [policy_returns.earned(of_policy, measured.names) for of_policy in totals]
        return dict(zip(self.distinct, zip(earned, gains, strict=True), strict=True))

    @functools.cached_property
    def endpoints(self) -> dict[bytes, Endpoint | Undefined]:
        """The registered endpoint of every distinct policy."""
        seed, kept = self.rules.seed, self.kept
        return {
            name: endpoint(fired[self.scored], kept.delta, self.baselines, seed=seed, task=kept.task)
            for name, fired in self.distinct.items()
        }


@dataclasses.dataclass(frozen=True)
class _Control:
    """A policy beside its nulls; undefined where the policy is."""

    random: RandomControl | Undefined
    blocks: Mapping[str, RandomControl] | Undefined
    shift: RandomControl | Undefined


def _trigger(decision: Decisions, view: _Scored, control: _Control) -> TriggerScore:
    """One trigger on one set of forks."""
    kept = view.kept
    signal = None if decision.signal is None else decision.signal[view.scored]
    ranked = _ranking(signal, view)
    policy = _policy(decision.fired, view)
    earned, gains = _earned(decision.fired, view)
    return TriggerScore(
        auc=ranked.auc,
        auc_interval=ranked.auc_interval,
        auc_interval_kind=ranked.auc_interval_kind,
        auc_student_t=ranked.auc_student_t,
        auc_clusters=ranked.auc_clusters,
        auc_by_checkpoint=ranked.auc_by_checkpoint,
        n_defined=len(kept) if signal is None else int((~np.isnan(signal)).sum()),
        correlation=NO_SIGNAL if signal is None else rankings.correlation(signal, kept.delta),
        partial_correlation=NO_SIGNAL
        if signal is None
        else rankings.partial_correlation(signal, kept.delta, kept.outcomes.r_hold),
        spearman_hold=NO_SIGNAL if signal is None else rankings.spearman(signal, kept.outcomes.r_hold),
        policy_total=policy.policy_total,
        fires=policy.fires,
        by_direction=policy.by_direction,
        gradient_steps=policy.gradient_steps,
        running_quantile=_running(decision.running, view),
        random=control.random,
        random_blocks=control.blocks,
        random_shift=control.shift,
        given_position=NO_SIGNAL if signal is None else _given_position(signal, view),
        earned=earned,
        gains=gains,
        swapped=_swapped(decision.fired, view),
        standing="exploratory",
        adjusted={},
        passes_control=UNJUDGED,
        useful=UNJUDGED,
        control_p=UNJUDGED,
        per_deployment=_per_deployment(policy, earned, control, view),
        threshold=_threshold(decision, view),
        endpoint=Endpoints(
            leave_one_checkpoint_out=_endpoint(decision.fired, view),
            running_quantile=_endpoint(decision.running, view),
        ),
        excluded_quantile=NO_SIGNAL
        if decision.signal is None
        else rankings.excluded_quantile(decision.signal, view.divergence.dropped),
    )


def _per_deployment(
    policy: PolicyTotals, earned: Earned | Undefined, control: _Control, view: _Scored
) -> PerDeployment:
    deployments, random = view.deployments, control.random
    mean = deployments.mean_of(policy.policy_total, earned if isinstance(earned, Undefined) else earned.student_t)
    return PerDeployment(
        mean=mean.mean,
        student_t=mean.student_t,
        random=random if isinstance(random, Undefined) else divide(random.mean, deployments.count),
        random_interval=random
        if isinstance(random, Undefined)
        else divide_bounds(random.interval, deployments.count),
    )


def _threshold(decision: Decisions, view: _Scored) -> FittedThreshold | Undefined:
    if decision.signal is None or decision.threshold_of_all is None:
        return NO_SIGNAL
    value, scored = decision.threshold_of_all, decision.signal[view.scored]
    ends = {np.inf: "nowhere", -np.inf: "everywhere"}
    return FittedThreshold(
        value=Undefined(f"firing {ends[value]} earns the most") if value in ends else value,
        share=float(np.mean(scored >= value)) if len(scored) else Undefined("no fork is scored"),
    )


def _distinct(
    policies: Iterable[Bool[np.ndarray, "forks"] | Undefined],
) -> dict[bytes, Bool[np.ndarray, "forks"]]:
    """Policies by their fires: many never fire, or fire where another does."""
    return {fired.tobytes(): fired for fired in policies if not isinstance(fired, Undefined)}


def _ranking(signal: Float[np.ndarray, "kept"] | None, view: _Scored) -> Ranking:
    if signal is None:
        return Ranking(
            auc=NO_SIGNAL,
            auc_interval=NO_SIGNAL,
            auc_interval_kind=NO_SIGNAL,
            auc_student_t=NO_SIGNAL,
            auc_clusters=0,
            auc_by_checkpoint=NO_SIGNAL,
        )
    return ranking(signal, view.kept.delta, view.parts, seed=view.rules.seed, task=view.kept.task)


def _policy(fired: Bool[np.ndarray, "forks"] | Undefined, view: _Scored) -> PolicyTotals:
    if isinstance(fired, Undefined):
        return PolicyTotals(policy_total=fired, fires=fired, by_direction=fired, gradient_steps=fired)
    flags, kept, parts = fired[view.scored], view.kept, view.parts
    return PolicyTotals(
        policy_total=policies.policy_total(flags, kept.delta),
        fires=int(flags.sum()),
        by_direction={
            direction: policies.policy_total(flags & (parts.direction == code), kept.delta)
            for code, direction in enumerate(parts.directions)
        },
        gradient_steps=NO_STEPS if kept.gradient_steps is None else int(flags.sum()) * kept.gradient_steps,
    )


def _running(fired: Bool[np.ndarray, "forks"] | Undefined, view: _Scored) -> RunningPolicy:
    policy = _policy(fired, view)
    earned, gains = _earned(fired, view)
    return RunningPolicy(
        policy_total=policy.policy_total,
        fires=policy.fires,
        by_direction=policy.by_direction,
        gradient_steps=policy.gradient_steps,
        earned=earned,
        gains=gains,
        swapped=_swapped(fired, view),
    )


def _endpoint(fired: Bool[np.ndarray, "forks"] | Undefined, view: _Scored) -> Endpoint | Undefined:
    return fired if isinstance(fired, Undefined) else view.endpoints[fired.tobytes()]


def _judged(
    flags: Bool[np.ndarray, "kept"],
    delta: Float[np.ndarray, "kept"],
    nulls: Mapping[str, Float[np.ndarray, "permutations"]],
) -> dict[str, RandomControl]:
    observed = policies.policy_total(flags, delta)
    return {kind: permutation_nulls.judge(observed, totals) for kind, totals in nulls.items()}


def _control(decision: Decisions, judged: JudgedPolicies) -> _Control:
    if isinstance(decision.fired, Undefined):
        return _Control(decision.fired, decision.fired, decision.fired)
    control = judged[decision.fired.tobytes()]
    return _Control(
        control["random"],
        {str(count): control[f"blocks-{count}"] for count in permutation_nulls.BLOCKS},
        control["shift"],
    )


def _given_position(signal: Float[np.ndarray, "kept"], view: _Scored) -> StratifiedAuc:
    return policy_returns.stratified_auc(signal, view.kept.delta > 0, view.stratum, view.parts.checkpoint)


def _earned(
    fired: Bool[np.ndarray, "forks"] | Undefined, view: _Scored
) -> tuple[Earned | Undefined, Mapping[str, Gain] | Undefined]:
    return (fired, fired) if isinstance(fired, Undefined) else view.earned[fired.tobytes()]


def _swapped(fired: Bool[np.ndarray, "forks"] | Undefined, view: _Scored) -> SwappedControl | Undefined:
    return fired if isinstance(fired, Undefined) else view.swapped[fired.tobytes()]
