"""Every trigger on one set of forks: how it ranks them, what its policy returns, and its registered endpoint; and
how it is judged among all triggers that were tested together."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from jaxtyping import Float, Int

from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.read.prefork import ForkFlags, ForkValues
from worldfork.analysis.score import permutation_nulls, policies, rankings
from worldfork.analysis.score.clusters import Partition, partition, place_of, strata
from worldfork.analysis.score.decisions import NO_SIGNAL, Decisions, Evidence, policy_total
from worldfork.analysis.score.intervals import SIGNIFICANT, ClusterMean, MeanOf, cluster_interval
from worldfork.analysis.score.permutation_nulls import RandomControl
from worldfork.analysis.score.policies import Baselines, Gain, PolicyFigures, Usefulness, usefulness
from worldfork.analysis.score.rankings import Ranking, StratifiedAuc
from worldfork.analysis.score.rules import ArmTask, Family, Rules, Standing
from worldfork.analysis.score.undefined import (
    Bounds,
    Estimand,
    Estimands,
    Figure,
    Undefined,
    divide,
    divide_bounds,
    undefined,
)
from worldfork.analysis.score.verdicts import BASELINES, CONTROLS, REQUIRED, adjust


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


NO_STEPS: Final = Undefined("the ledger does not say how many gradient steps an update takes")


@dataclasses.dataclass(frozen=True)
class EndpointScale:
    """A checkpoint, whatever fires: its forks, their mean dR, and sigma_ep, the root mean over them of the
    within-fork variance of HOLD's episode returns."""

    checkpoint: str
    forks: Int[np.ndarray, "own"]
    mean: float
    sigma: float


def endpoint_scales(
    delta: ForkValues, hold: Float[np.ndarray, "forks episodes"] | None, parts: Partition
) -> tuple[EndpointScale, ...] | Undefined:
    """Return the scale of each checkpoint that every policy's endpoint is measured by."""
    if hold is None:
        return Undefined("sigma_ep needs the per-episode returns `hold` and `update`")
    enough = (~np.isnan(hold)).sum(axis=1) > 1
    if not enough.any():
        return Undefined("sigma_ep needs at least two episodes in a fork")
    variance = np.full(len(hold), np.nan)
    variance[enough] = np.nanvar(hold[enough], axis=1, ddof=1)
    return tuple(
        EndpointScale(
            checkpoint=name,
            forks=forks,
            mean=float(delta[forks].mean()),
            sigma=float(np.sqrt(np.nanmean(variance[forks]))) if enough[forks].any() else 0.0,
        )
        for name, forks in zip(parts.checkpoints, parts.by_checkpoint(), strict=True)
        if len(forks)
    )


def endpoint(
    fired: ForkFlags, delta: ForkValues, scales: Sequence[EndpointScale] | Undefined, *, seed: int, task: str
) -> Endpoint | Undefined:
    """Return (mean dR where fired - mean dR) / sigma_ep, averaged over the checkpoints that have a fire.

    It is the registered primary endpoint, which the authors did not report (paper, "Design and inference").
    """
    if isinstance(scales, Undefined):
        return scales
    by_checkpoint = {
        scale.checkpoint: (float(delta[scale.forks[flags]].mean()) - scale.mean) / scale.sigma
        for scale in scales
        if scale.sigma > 0 and (flags := fired[scale.forks]).any()
    }
    if not by_checkpoint:
        fired_at_all = bool(fired.any())
        return Undefined("sigma_ep is zero: HOLD's episodes do not vary" if fired_at_all else "it never fires")
    mean = cluster_interval(np.array(list(by_checkpoint.values())), seed=seed, task=task)
    return Endpoint(**vars(mean), by_checkpoint=by_checkpoint)


def measure_triggers(
    evidence: Evidence, *, baselines: Estimands[Baselines], family: Family, rules: Rules
) -> Estimands[dict[str, TriggerFigures]]:
    """Return the figures of every trigger on all attempted and on retained forks."""

    def measured(side: Estimand) -> dict[str, TriggerFigures]:
        return _measure(evidence, evidence.scored(side), getattr(evidence, side), baselines[side], family, rules)

    attempted = measured("all_attempted")
    retained = measured("retained") if evidence.divergence.dropped.any() else attempted
    return Estimands(all_attempted=attempted, retained=retained)


def _measure(
    evidence: Evidence,
    scored: ForkFlags,
    decided: Mapping[str, Decisions],
    baselines: Baselines,
    family: Family,
    rules: Rules,
) -> dict[str, TriggerFigures]:
    """Return the figures of every trigger where `scored`."""
    kept = evidence.forks.take(scored)
    parts = partition(kept.prefork)
    scales = endpoint_scales(kept.delta, kept.outcomes.hold, parts)
    refitted = policies.refitted_gains(
        kept,
        {
            name: decision.fired[scored] if decision.signal is None else decision.signal[scored]
            for name, decision in decided.items()
            if family.standing(name) == "candidate" and not isinstance(decision.fired, Undefined)
        },
    )
    firing = {name: flags.fired for name, flags in decided.items() if not isinstance(flags.fired, Undefined)}
    nulls = permutation_nulls.null_totals(
        evidence.forks.prefork,
        evidence.forks.delta,
        scored,
        np.array(list(firing.values()), bool).reshape(len(firing), len(scored)).T,
        permutations=rules.permutations,
        seed=rules.seed,
    )
    measured = {}
    for name, decision in decided.items():
        fired, running = decision.fired, decision.running
        policy = _policy(fired, evidence.forks, scored, baselines, rules)
        if isinstance(fired, Undefined):
            control: dict[str, Any] = dict.fromkeys(("random", "random_blocks", "random_shift"), fired)
        else:
            column = list(firing).index(name)
            control = _controls(fired[scored], kept, {kind: totals[:, column] for kind, totals in nulls.items()})
        if name in refitted and not isinstance(policy.gains, Undefined):
            gains = {
                beside: dataclasses.replace(gain, refitted=refitted[name].get(beside, gain.refitted))
                for beside, gain in policy.gains.items()
            }
            policy = dataclasses.replace(policy, gains=gains)
        endpoints = [
            flags
            if isinstance(flags, Undefined)
            else endpoint(flags[scored], kept.delta, scales, seed=rules.seed, task=kept.task)
            for flags in (fired, running)
        ]
        measured[name] = TriggerFigures(
            **vars(_ranking(decision, kept, scored, parts, rules)),
            **vars(policy),
            **_associations(decision, evidence, kept, scored),
            **control,
            running_quantile=_policy(running, evidence.forks, scored, baselines, rules),
            endpoint=Endpoints(leave_one_checkpoint_out=endpoints[0], running_quantile=endpoints[1]),
            per_deployment=_per_deployment(policy, control["random"], kept),
            threshold=_threshold(decision, scored),
        )
    return measured


def _policy(
    fired: ForkFlags | Undefined, attempted: Forks, scored: ForkFlags, baselines: Baselines, rules: Rules
) -> PolicyFigures:
    """Return the figures of a policy on the forks of `attempted` where `scored`.

    A policy that fires where no fork is scored is exchanged with other checkpoints all the same: the null asks what
    its fires would have earned there.
    """
    if isinstance(fired, Undefined):
        return undefined(PolicyFigures, fired)
    kept, there = attempted.take(scored), fired[scored]
    parts, delta = partition(kept.prefork), kept.delta
    totals = policies.checkpoint_totals(there, delta, parts.checkpoint, count=len(parts.checkpoints))
    crossed = permutation_nulls.cross_totals(
        fired, attempted.delta, scored, place_of(attempted.prefork), partition(attempted.prefork).checkpoint
    )
    return PolicyFigures(
        policy_total=policy_total(there, delta),
        fires=int(there.sum()),
        by_direction={
            direction: policy_total(there & (parts.direction == code), delta)
            for code, direction in enumerate(parts.directions)
        },
        gradient_steps=NO_STEPS if kept.gradient_steps is None else int(there.sum()) * kept.gradient_steps,
        earned=policies.earned(totals, baselines.names),
        gains=policies.gains(totals, baselines.totals, seed=rules.seed, task=kept.task),
        swapped=permutation_nulls.swapped_control(
            crossed, permutations=rules.permutations, seed=rules.seed, task=attempted.task
        ),
    )


def _controls(
    fired: ForkFlags, kept: Forks, nulls: Mapping[str, Float[np.ndarray, "permutations"]]
) -> dict[str, Any]:
    observed = policy_total(fired, kept.delta)
    judged = {kind: permutation_nulls.judge(observed, totals) for kind, totals in nulls.items()}
    blocks = {str(count): judged[f"blocks-{count}"] for count in permutation_nulls.BLOCKS}
    return {"random": judged["random"], "random_blocks": blocks, "random_shift": judged["shift"]}


def _ranking(decision: Decisions, kept: Forks, scored: ForkFlags, parts: Partition, rules: Rules) -> Ranking:
    if decision.signal is None:
        return undefined(Ranking, NO_SIGNAL, auc_clusters=0)
    return rankings.ranking(decision.signal[scored], kept.delta, parts, seed=rules.seed, task=kept.task)


def _associations(decision: Decisions, evidence: Evidence, kept: Forks, scored: ForkFlags) -> dict[str, Any]:
    """Return how a signal goes with dR, with r_hold, with position, and with what diverged."""
    names = ("correlation", "partial_correlation", "spearman_hold", "given_position", "excluded_quantile")
    if decision.signal is None:
        return {"n_defined": len(kept), **dict.fromkeys(names, NO_SIGNAL)}
    signal, delta, hold, parts = decision.signal[scored], kept.delta, kept.outcomes.r_hold, partition(kept.prefork)
    position = strata(parts.direction, kept.prefork.k)
    figures = (
        rankings.correlation(signal, delta),
        rankings.partial_correlation(signal, delta, hold),
        rankings.spearman(signal, hold),
        rankings.stratified_auc(signal, delta > 0, position, parts.checkpoint),
        rankings.excluded_quantile(decision.signal, evidence.divergence.dropped),
    )
    return {"n_defined": int((~np.isnan(signal)).sum()), **dict(zip(names, figures, strict=True))}


def _per_deployment(policy: PolicyFigures, random: RandomControl | Undefined, kept: Forks) -> PerDeployment:
    deployments = policies.count_deployments(kept)
    student_t = policy.earned if isinstance(policy.earned, Undefined) else policy.earned.student_t
    mean, interval = (random, random) if isinstance(random, Undefined) else (random.mean, random.interval)
    return PerDeployment(
        **vars(deployments.mean_of(policy.policy_total, student_t)),
        random=divide(mean, deployments.count),
        random_interval=divide_bounds(interval, deployments.count),
    )


def _threshold(decision: Decisions, scored: ForkFlags) -> FittedThreshold | Undefined:
    if decision.signal is None or decision.threshold_of_all is None:
        return NO_SIGNAL
    value, signal = decision.threshold_of_all, decision.signal[scored]
    ends = {np.inf: "nowhere", -np.inf: "everywhere"}
    return FittedThreshold(
        value=Undefined(f"firing {ends[value]} earns the most") if value in ends else value,
        share=float(np.mean(signal >= value)) if len(signal) else Undefined("no fork is scored"),
    )


def judge_triggers(
    measured: Mapping[ArmTask, Mapping[str, TriggerFigures]], family: Family
) -> dict[ArmTask, dict[str, TriggerScore]]:
    """Return every trigger with its tests, each adjusted over candidates x tasks x arms."""
    every = {(*arm_task, name): figures for arm_task, named in measured.items() for name, figures in named.items()}
    adjusted = {
        test: adjust({key: _p(figures, test) for key, figures in every.items()}, family.triggers)
        for test in REQUIRED
    }
    return {
        arm_task: {
            name: _judged(
                figures, {test: adjusted[test][*arm_task, name] for test in REQUIRED}, family.standing(name)
            )
            for name, figures in named.items()
        }
        for arm_task, named in measured.items()
    }


def _p(trigger: TriggerFigures, test: str) -> Figure:
    """Return the p value of a test; over a baseline the larger of Student-t's and the sign flips'."""
    if test in CONTROLS:
        control = getattr(trigger, test)
        return control if isinstance(control, Undefined) else control.p
    if isinstance(trigger.gains, Undefined):
        return trigger.gains
    gain: Gain = trigger.gains[test]
    return _largest((gain.p_student_t, gain.p_sign_flip))


def _largest(p_values: Iterable[Figure]) -> Figure:
    """Return the largest p, or the first that is undefined."""
    values: list[float] = []
    for p in p_values:
        if isinstance(p, Undefined):
            return p
        values.append(p)
    return max(values)


def _judged(trigger: TriggerFigures, adjusted: dict[str, Figure], standing: Standing) -> TriggerScore:
    why = trigger.random if isinstance(trigger.random, Undefined) else trigger.gains
    if isinstance(why, Undefined):
        return TriggerScore(
            **vars(trigger), standing=standing, adjusted=adjusted, passes_control=why, useful=why, control_p=why
        )
    control_p = _largest(adjusted[test] for test in ("random", "random_shift"))
    return TriggerScore(
        **vars(trigger),
        standing=standing,
        adjusted=adjusted,
        control_p=control_p,
        passes_control=not isinstance(control_p, Undefined) and control_p < SIGNIFICANT,
        useful=usefulness(
            adjusted,
            {name: why[name].mean for name in BASELINES},
            {name: why[name].refitted for name in BASELINES} if standing == "candidate" else None,
        ),
    )
