"""Every figure of one task in one arm, from its forks and the decisions of triggers on them."""

import functools
from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np
from jaxtyping import Bool, Float

from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.read.triggers import Reading, Unavailable, unread_candidates
from worldfork.analysis.score import contrasts, design, effects, intervals, power, rankings, summary
from worldfork.analysis.score.clusters import partition
from worldfork.analysis.score.contraction import contraction
from worldfork.analysis.score.curves import curves
from worldfork.analysis.score.decisions import Evidence, decide, diverged, quarantined
from worldfork.analysis.score.judgement import CleanReturn, Judgement, Severity
from worldfork.analysis.score.prices import task_prices
from worldfork.analysis.score.records import (
    CommonRandomNumbers,
    Effect,
    Estimands,
    ForkCounts,
    Proxies,
    ReferencePolicies,
    RegisteredDivergence,
    TaskFigures,
    TriggerScore,
)
from worldfork.analysis.score.rules import Rules
from worldfork.analysis.score.stopping import Ruling
from worldfork.analysis.score.trials import trials
from worldfork.analysis.score.undefined import Undefined
from worldfork.analysis.score.verdicts import Family

T = TypeVar("T")


def evidence_of(forks: Forks, readings: Mapping[str, Reading], rules: Rules) -> Evidence:
    """Return which forks diverged, and where every trigger fires."""
    divergence = diverged(forks, rules.divergence)
    usable = {name: reading for name, reading in readings.items() if not isinstance(reading, Unavailable)}
    left_out = quarantined(forks)
    masks = {"retained": ~(divergence.dropped | left_out), "all_attempted": ~left_out}
    decisions = decide(usable, forks, scored=masks, rate=rules.rate)
    return Evidence(forks, divergence, decisions["retained"], decisions["all_attempted"], left_out)


def estimands(figure: Callable[[Forks], T], evidence: Evidence) -> Estimands[T]:
    """Return a figure of all attempted forks and of the retained ones, which is the same where nothing diverged."""
    of_all = figure(evidence.forks)
    return Estimands(
        all_attempted=of_all, retained=figure(evidence.kept) if evidence.divergence.dropped.any() else of_all
    )


def unavailable_triggers(readings: Mapping[str, Reading], forks: Forks, rules: Rules) -> dict[str, str]:
    """Return the triggers that could not be read, each with the reason."""
    if rules.triggers is None:
        readings = {**readings, **unread_candidates(rules.candidates or (), forks.prefork)}
    return {name: reading.why for name, reading in readings.items() if isinstance(reading, Unavailable)}


def task_figures(
    evidence: Evidence,
    rules: Rules,
    *,
    effect: Estimands[Effect],
    judgement: Judgement,
    ruling: Ruling | None,
    policies: Estimands[ReferencePolicies],
    triggers: Estimands[Mapping[str, TriggerScore]],
    unavailable: Mapping[str, str],
    family: Family,
) -> TaskFigures:
    """Return every figure of one task in one arm."""
    forks, kept = evidence.forks, evidence.kept
    clean = _clean_return(forks)
    return TaskFigures(
        forks=_counts(evidence, rules),
        effect=effect,
        verdict=effects.verdict(effect.all_attempted) if ruling is None or not ruling.verdict else ruling.verdict,
        judgement=judgement,
        drift_quartiles=effects.drift_quartiles(kept),
        direction_contrast=estimands(functools.partial(contrasts.contrast_directions, seed=rules.seed), evidence),
        policies=policies,
        triggers=triggers,
        triggers_unavailable=unavailable,
        contraction=contraction(kept, seed=rules.seed, edges=rules.edges.get(forks.task)),
        proxies=Proxies(
            delta_k_given_hold=rankings.partial_correlation(
                kept.prefork.k.astype(np.float64), kept.delta, kept.outcomes.r_hold
            ),
            cells_with_both_signs=rankings.cells_with_both_signs(kept),
        ),
        variance_components=power.variance_components(forks),
        design=power.design_advice(forks, power.design_components(forks)),
        crn=CommonRandomNumbers(gain=power.crn_gain(forks)),
        divergence=RegisteredDivergence(
            fraction=Undefined("the rule is switched off") if rules.divergence is None else rules.divergence,
            off_in=evidence.divergence.off,
        ),
        clean_return=clean,
        severity=_severity(forks, rules),
        components=design.components_of(forks),
        scale=summary.scale(forks, effect.all_attempted.mean, clean=clean),
        helped=summary.helped(forks),
        robust=summary.robust(forks, seed=rules.seed),
        curves=curves(forks, _clean_of_forks(forks), edges=rules.severity, seed=rules.seed),
        trials=trials(forks, evidence.all_attempted, margin=rules.trial_margin, seed=rules.seed),
        prices=task_prices(forks, evidence.all_attempted, candidates=family.candidates),
        candidates=len(family.candidates),
        candidates_unread=sum(name in family.candidates for name in unavailable),
        evidence=evidence,
    )


def _counts(evidence: Evidence, rules: Rules) -> ForkCounts:
    forks, kept, dropped = evidence.forks, evidence.kept, evidence.divergence.dropped
    hold, update, fraction = forks.outcomes.r_hold, forks.outcomes.r_update, rules.divergence
    no_failure = Undefined("a flat table has both returns of every fork")
    return ForkCounts(
        attempted=len(forks),
        retained=len(kept),
        diverged=int(dropped.sum()),
        diverged_share=float(dropped.mean()) if len(forks) else Undefined("there are no forks"),
        quarantined=int(evidence.quarantined.sum()),
        below_own_hold=Undefined("the rule is switched off")
        if fraction is None
        else int(((hold > 0) & (update < fraction * hold)).sum()),
        failed_hold=_count(forks.outcomes.failed_hold),
        failed_update=_count(forks.outcomes.failed_update),
        failure_return=no_failure if forks.failure_return is None else forks.failure_return,
        helped=int((kept.delta > 0).sum()),
        hurt=int((kept.delta < 0).sum()),
    )


def _count(failed: Bool[np.ndarray, "forks"] | None) -> int:
    return 0 if failed is None else int(failed.sum())


def _clean_return(forks: Forks) -> CleanReturn | Undefined:
    if not forks.clean:
        return Undefined("the ledger does not say the clean return of any checkpoint")
    values = np.array(list(forks.clean.values()))
    return CleanReturn(mean=float(values.mean()), student_t=intervals.student_t(values), by_checkpoint=forks.clean)


def _severity(forks: Forks, rules: Rules) -> tuple[Severity, ...] | Undefined:
    parts, outcomes = partition(forks.prefork), forks.outcomes
    return effects.severity(
        outcomes.r_hold,
        outcomes.delta,
        _clean_of_forks(forks),
        parts.checkpoint,
        edges=rules.severity,
        hold=outcomes.hold,
        update=outcomes.update,
        cost=outcomes.cost,
    )


def _clean_of_forks(forks: Forks) -> Float[np.ndarray, "forks"]:
    """Return the clean return of each fork's checkpoint, NaN where it is not known."""
    parts = partition(forks.prefork)
    return np.array([forks.clean.get(name, np.nan) for name in parts.checkpoints])[parts.checkpoint]
