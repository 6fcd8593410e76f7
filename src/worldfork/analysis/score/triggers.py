"""Every trigger on one set of forks: how it ranks them, what its policy returns, and its registered endpoint.

A trigger is measured here and judged in verdicts.py, once the p values of all triggers are there. Policies that
fire at the same forks are measured once: many never fire, or fire where another one does.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from jaxtyping import Bool, Float, Int

from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.score import cross_checkpoint_null, decisions, permutation_nulls, policy_returns, rankings
from worldfork.analysis.score.clusters import Partition, partition
from worldfork.analysis.score.decisions import NO_SIGNAL, Decisions, Evidence
from worldfork.analysis.score.intervals import cluster_interval
from worldfork.analysis.score.judgement import FittedThreshold, PerDeployment
from worldfork.analysis.score.policy_returns import Baselines
from worldfork.analysis.score.records import (
    Endpoint,
    Endpoints,
    Estimands,
    PolicyFigures,
    RandomControl,
    Ranking,
    TriggerFigures,
)
from worldfork.analysis.score.refitting import refitted_gains
from worldfork.analysis.score.rules import Rules
from worldfork.analysis.score.undefined import Bounds, Undefined, divide, divide_bounds
from worldfork.analysis.score.verdicts import Family

NO_STEPS: Final = Undefined("the ledger does not say how many gradient steps an update takes")
Fires = Bool[np.ndarray, "forks"]


@dataclasses.dataclass(frozen=True)
class EndpointScale:
    """A checkpoint, whatever fires: its forks, their mean dR, and sigma_ep, the root mean over them of the
    within-fork variance of HOLD's episode returns."""

    checkpoint: str
    forks: Int[np.ndarray, "own"]
    mean: float
    sigma: float


def endpoint_scales(
    delta: Float[np.ndarray, "forks"], hold: Float[np.ndarray, "forks episodes"] | None, parts: Partition
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
    fired: Fires,
    delta: Float[np.ndarray, "forks"],
    scales: Sequence[EndpointScale] | Undefined,
    *,
    seed: int,
    task: str,
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


def tested_policies(evidence: Evidence) -> permutation_nulls.ArmPolicies:
    """Return every fitted policy, to be compared with random ones, on each set of scored forks."""
    sets = []
    for scored, decided in _sides(evidence).values():
        flags = list(_distinct(decision.fired for decision in decided.values()).values())
        sets.append(permutation_nulls.Policies(scored, np.array(flags, bool).reshape(len(flags), len(scored)).T))
    return permutation_nulls.ArmPolicies(evidence.forks.prefork, evidence.forks.delta, sets)


def measure_triggers(
    evidence: Evidence,
    nulls: Iterable[Mapping[str, Float[np.ndarray, "permutations _"]]],
    *,
    baselines: Estimands[Baselines],
    family: Family,
    rules: Rules,
) -> Estimands[dict[str, TriggerFigures]]:
    """Return the figures of every trigger on all attempted and on retained forks.

    `nulls` are the totals of the tested policies under each null, for one set of scored forks after the other.
    """
    measured: dict[str, dict[str, TriggerFigures]] = {}
    for (side, (scored, decided)), null in zip(_sides(evidence).items(), nulls, strict=True):
        fitted = _distinct(decision.fired for decision in decided.values())
        running = _distinct(decision.running for decision in decided.values())
        kept = evidence.forks.take(scored)
        controls = {
            name: _controls(fired[scored], kept, {kind: null[kind][:, place] for kind in null})
            for place, (name, fired) in enumerate(fitted.items())
        }
        policies = dict(_policies(evidence.forks, kept, scored, fitted | running, baselines[side], rules))
        parts = partition(kept.prefork)
        scales = endpoint_scales(kept.delta, kept.outcomes.hold, parts)
        endpoints = {
            name: endpoint(fired[scored], kept.delta, scales, seed=rules.seed, task=kept.task)
            for name, fired in (fitted | running).items()
        }
        refitted = refitted_gains(
            kept,
            {
                name: decision.fired[scored] if decision.signal is None else decision.signal[scored]
                for name, decision in decided.items()
                if family.standing(name) == "candidate" and not isinstance(decision.fired, Undefined)
            },
        )
        measured[side] = {}
        for name, decision in decided.items():
            fired, later = (
                which if isinstance(which, Undefined) else which.tobytes()
                for which in (decision.fired, decision.running)
            )
            policy = _undefined_policy(fired) if isinstance(fired, Undefined) else policies[fired]
            if name in refitted:
                policy = _with_refitted(policy, refitted[name])
            control: dict[str, Any] = (
                dict.fromkeys(_CONTROLS, fired) if isinstance(fired, Undefined) else controls[fired]
            )
            measured[side][name] = TriggerFigures(
                **vars(_ranking(decision, kept, scored, parts, rules)),
                **vars(policy),
                **_associations(decision, evidence, kept, scored),
                **control,
                running_quantile=_undefined_policy(later) if isinstance(later, Undefined) else policies[later],
                endpoint=Endpoints(
                    leave_one_checkpoint_out=fired if isinstance(fired, Undefined) else endpoints[fired],
                    running_quantile=later if isinstance(later, Undefined) else endpoints[later],
                ),
                per_deployment=_per_deployment(policy, control["random"], kept),
                threshold=_threshold(decision, scored),
            )
    on_all = measured["all_attempted"]
    return Estimands(all_attempted=on_all, retained=measured.get("retained", on_all))


_CONTROLS: Final = ("random", "random_blocks", "random_shift")


def _sides(evidence: Evidence) -> dict[str, tuple[Fires, Mapping[str, Decisions]]]:
    """Return which forks are scored, and the decisions on them; one set where nothing diverged."""
    attempted = {"all_attempted": (evidence.scored("all_attempted"), evidence.all_attempted)}
    if not evidence.divergence.dropped.any():
        return attempted
    return {"retained": (evidence.scored("retained"), evidence.retained), **attempted}


def _distinct(policies: Iterable[Fires | Undefined]) -> dict[bytes, Fires]:
    """Return policies by where they fire."""
    return {fired.tobytes(): fired for fired in policies if not isinstance(fired, Undefined)}


def _policies(
    attempted: Forks,
    kept: Forks,
    scored: Fires,
    distinct: Mapping[bytes, Fires],
    baselines: Baselines,
    rules: Rules,
) -> Iterator[tuple[bytes, PolicyFigures]]:
    """Yield the figures of every distinct policy on the `kept` forks: those of `attempted` where `scored`.

    A policy that fires where no fork is scored is exchanged with other checkpoints all the same: the null asks what
    its fires would have earned there.
    """
    if not distinct:
        return
    parts, delta = partition(kept.prefork), kept.delta
    flags = np.array(list(distinct.values()))
    totals = np.array(
        [
            policy_returns.checkpoint_totals(fired[scored], delta, parts.checkpoint, count=len(parts.checkpoints))
            for fired in flags
        ]
    )
    gains = policy_returns.gains(totals, baselines.totals, seed=rules.seed, task=kept.task)
    crossed = cross_checkpoint_null.cross_totals(
        flags, attempted.delta, scored, _place(attempted), partition(attempted.prefork).checkpoint
    )
    swapped = cross_checkpoint_null.swapped_controls(
        crossed, permutations=rules.permutations, seed=rules.seed, task=attempted.task
    )
    steps = kept.gradient_steps
    for name, fired, of_checkpoints, gain, control in zip(distinct, flags, totals, gains, swapped, strict=True):
        there = fired[scored]
        yield (
            name,
            PolicyFigures(
                policy_total=decisions.policy_total(there, delta),
                fires=int(there.sum()),
                by_direction={
                    direction: decisions.policy_total(there & (parts.direction == code), delta)
                    for code, direction in enumerate(parts.directions)
                },
                gradient_steps=NO_STEPS if steps is None else int(there.sum()) * steps,
                earned=policy_returns.earned(of_checkpoints, baselines.names),
                gains=gain,
                swapped=control,
            ),
        )


def _with_refitted(policy: PolicyFigures, refitted: Mapping[str, Bounds]) -> PolicyFigures:
    """Return the figures of a policy of which a trigger's own threshold, and no other's, was fitted anew."""
    gains = policy.gains
    if isinstance(gains, Undefined):
        return policy
    both = {
        name: dataclasses.replace(gain, refitted=refitted[name]) if name in refitted else gain
        for name, gain in gains.items()
    }
    return dataclasses.replace(policy, gains=both)


def _undefined_policy(why: Undefined) -> PolicyFigures:
    return PolicyFigures(
        policy_total=why, fires=why, by_direction=why, gradient_steps=why, earned=why, gains=why, swapped=why
    )


def _place(forks: Forks) -> Int[np.ndarray, "forks"]:
    """Return a number for each (direction, stream seed, k), which a checkpoint has once."""
    prefork = forks.prefork
    stream = np.array([cell.stream_seed for cell in prefork.cells])[prefork.cell]
    return policy_returns.strata(policy_returns.strata(partition(prefork).direction, stream), prefork.k)


def _controls(fired: Fires, kept: Forks, nulls: Mapping[str, Float[np.ndarray, "permutations"]]) -> dict[str, Any]:
    observed = decisions.policy_total(fired, kept.delta)
    judged = {kind: permutation_nulls.judge(observed, totals) for kind, totals in nulls.items()}
    blocks = {str(count): judged[f"blocks-{count}"] for count in permutation_nulls.BLOCKS}
    return dict(zip(_CONTROLS, (judged["random"], blocks, judged["shift"]), strict=True))


def _ranking(decision: Decisions, kept: Forks, scored: Fires, parts: Partition, rules: Rules) -> Ranking:
    if decision.signal is None:
        return Ranking(
            auc=NO_SIGNAL,
            auc_interval=NO_SIGNAL,
            auc_interval_kind=NO_SIGNAL,
            auc_student_t=NO_SIGNAL,
            auc_clusters=0,
            auc_by_checkpoint=NO_SIGNAL,
        )
    return rankings.ranking(decision.signal[scored], kept.delta, parts, seed=rules.seed, task=kept.task)


def _associations(decision: Decisions, evidence: Evidence, kept: Forks, scored: Fires) -> dict[str, Any]:
    """Return how a signal goes with dR, with r_hold, with position, and with what diverged."""
    names = ("correlation", "partial_correlation", "spearman_hold", "given_position", "excluded_quantile")
    if decision.signal is None:
        return {"n_defined": len(kept), **dict.fromkeys(names, NO_SIGNAL)}
    signal, delta, hold, parts = decision.signal[scored], kept.delta, kept.outcomes.r_hold, partition(kept.prefork)
    position = policy_returns.strata(parts.direction, kept.prefork.k)
    figures = (
        rankings.correlation(signal, delta),
        rankings.partial_correlation(signal, delta, hold),
        rankings.spearman(signal, hold),
        rankings.stratified_auc(signal, delta > 0, position, parts.checkpoint),
        rankings.excluded_quantile(decision.signal, evidence.divergence.dropped),
    )
    return {"n_defined": int((~np.isnan(signal)).sum()), **dict(zip(names, figures, strict=True))}


def _per_deployment(policy: PolicyFigures, random: RandomControl | Undefined, kept: Forks) -> PerDeployment:
    deployments = policy_returns.count_deployments(kept)
    student_t = policy.earned if isinstance(policy.earned, Undefined) else policy.earned.student_t
    mean, interval = (random, random) if isinstance(random, Undefined) else (random.mean, random.interval)
    return PerDeployment(
        **vars(deployments.mean_of(policy.policy_total, student_t)),
        random=divide(mean, deployments.count),
        random_interval=divide_bounds(interval, deployments.count),
    )


def _threshold(decision: Decisions, scored: Fires) -> FittedThreshold | Undefined:
    if decision.signal is None or decision.threshold_of_all is None:
        return NO_SIGNAL
    value, signal = decision.threshold_of_all, decision.signal[scored]
    ends = {np.inf: "nowhere", -np.inf: "everywhere"}
    return FittedThreshold(
        value=Undefined(f"firing {ends[value]} earns the most") if value in ends else value,
        share=float(np.mean(signal >= value)) if len(signal) else Undefined("no fork is scored"),
    )
