"""Everything that is said about a ledger (docs/scoring.md defines every figure)."""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

import numpy as np
from jaxtyping import Bool

from worldfork.desk.reading.outcomes import Forks
from worldfork.desk.scoring import budget, contrast, effects, intervals, power, proxies, yardsticks
from worldfork.desk.scoring.contraction import contraction
from worldfork.desk.scoring.controls import control_totals
from worldfork.desk.scoring.decisions import Evidence, decide
from worldfork.desk.scoring.divergence import diverged
from worldfork.desk.scoring.judgement import CleanReturn, Severity
from worldfork.desk.scoring.partition import partition
from worldfork.desk.scoring.predictions import Prediction, answer, is_about_deployment
from worldfork.desk.scoring.products import on_one_thread
from worldfork.desk.scoring.records import (
    CommonRandomNumbers,
    Contrast,
    Estimands,
    ForkCounts,
    Proxies,
    RegisteredDivergence,
    TaskScore,
)
from worldfork.desk.scoring.result import ArmScore, Score
from worldfork.desk.scoring.rivals import JudgedPolicies, judge_policies, rivals, tested_policies
from worldfork.desk.scoring.rules import Rules
from worldfork.desk.scoring.severity import severity
from worldfork.desk.scoring.undefined import Undefined, finite
from worldfork.desk.scoring.verdicts import judge_all, judge_mean, registered_family
from worldfork.desk.triggers import Reading, Unavailable, read_triggers_together, unread_candidates
from worldfork.errors import WorldforkError
from worldfork.progress import Progress, silent

__all__ = ["contrast_all", "score"]

T = TypeVar("T")
LARGEST: Final = 1e300  # of a sum of returns: room for what is computed from it
NO_FAILURE: Final = Undefined("a flat table has both returns of every fork")


@on_one_thread()
def score(
    arms: Mapping[str, Mapping[str, Forks]],
    rules: Rules,
    *,
    contrasts: Iterable[tuple[str, str]] = (),
    whole: Mapping[str, Mapping[str, Forks]] | None = None,
    failed: Iterable[str] = (),
    progress: Progress = silent,
) -> Score:
    """Score every task of every arm. Neither arms nor tasks are ever pooled.

    `whole` is the ledger that `arms` were chosen from: tests are adjusted over all of it. `failed` is listed.
    """
    total = sum(len(forks) for tasks in arms.values() for forks in tasks.values())
    done = 0

    def advance(forks: int) -> None:
        nonlocal done
        done += forks
        progress("scoring", done, total)

    progress("scoring", done, total)
    _refuse_too_large(arms)
    every = {(arm, task): forks for arm, tasks in arms.items() for task, forks in tasks.items()}
    readings = read_triggers_together(
        [forks.prefork for forks in every.values()], names=rules.triggers, seed=rules.seed
    )
    read = dict(zip(every, readings, strict=True))
    # Task by task, since the arms of a task share their draws.
    by_task = [key for task in dict.fromkeys(task for _, task in every) for key in every if key[1] == task]
    evidence = {key: _evidence(every[key], read[key], rules) for key in by_task}
    nulls = control_totals(
        [tested_policies(evidence[key]) for key in by_task],
        permutations=rules.permutations,
        seed=rules.seed,
        advance=advance,
    )
    # All controls before the rest, which would only take the interpreter's lock from the threads that compute them.
    controls = {key: judge_policies(evidence[key], of_arm) for key, of_arm in zip(by_task, nulls, strict=True)}
    in_turn = {key: _score_task(evidence[key], read[key], judged=controls[key], rules=rules) for key in by_task}
    scored = {key: in_turn[key] for key in every}
    family = registered_family(whole or arms, rules)
    judged = _answered(judge_all(scored, family), arms, rules)
    return Score(
        arms={arm: ArmScore({task: judged[arm, task] for task in tasks}) for arm, tasks in arms.items()},
        family=family,
        contrasts={
            f"{first} - {second}": contrast_all(arms, first, second=second, rules=rules)
            for first, second in contrasts
        },
        rules=rules,
        failed=tuple(failed),
    )


def _refuse_too_large(arms: Mapping[str, Mapping[str, Forks]]) -> None:
    """Raise where returns can not be added up: every total and every mean would be infinite or no number."""
    for arm, tasks in arms.items():
        for task, forks in tasks.items():
            returns = np.stack([forks.outcomes.r_hold, forks.outcomes.r_update])
            with np.errstate(over="ignore"):
                total = np.abs(returns).sum()
            if not total < LARGEST:
                raise WorldforkError(
                    f"{f'{arm}, {task}' if arm else task}: the returns of {len(forks):,} forks, of up to "
                    f"{np.abs(returns).max():.3g}, are too large to add up. Give them in another unit."
                )


def contrast_all(
    arms: Mapping[str, Mapping[str, Forks]], first: str, *, second: str, rules: Rules
) -> dict[str, Estimands[Contrast | Undefined]]:
    """Two arms compared on every task they share, all attempted and retained."""
    for name in (first, second):
        if name not in arms:
            raise WorldforkError(f"There is no arm `{name}`; the table has {', '.join(arms) or 'none'}.")
    compared: dict[str, Estimands[Contrast | Undefined]] = {}
    for task in [task for task in arms[first] if task in arms[second]]:
        pair = (arms[first][task], arms[second][task])
        kept = [forks.take(~diverged(forks, rules.divergence).dropped) for forks in pair]
        compared[task] = finite(
            Estimands(
                all_attempted=contrast.contrast_arms(*pair, seed=rules.seed),
                retained=contrast.contrast_arms(*kept, seed=rules.seed),
            )
        )
    return compared


def _evidence(forks: Forks, readings: Mapping[str, Reading], rules: Rules) -> Evidence:
    """Which forks diverged, and where every trigger fires."""
    divergence = diverged(forks, rules.divergence)
    usable = {name: reading for name, reading in readings.items() if not isinstance(reading, Unavailable)}
    masks = {"retained": ~divergence.dropped, "all_attempted": np.ones(len(forks), bool)}
    decisions = decide(usable, forks, scored=masks, rate=rules.rate)
    return Evidence(forks, divergence, decisions["retained"], decisions["all_attempted"])


def _score_task(
    evidence: Evidence,
    readings: Mapping[str, Reading],
    *,
    judged: Mapping[str, JudgedPolicies],
    rules: Rules,
) -> TaskScore:
    """Every figure of one task in one arm, but for what depends on the registered family and the predictions."""
    forks, divergence = evidence.forks, evidence.divergence
    # Where nothing diverged, what is said of all attempted forks is said of those that were retained.
    kept = forks.take(~divergence.dropped) if divergence.dropped.any() else forks
    if rules.triggers is None:
        readings = {**readings, **unread_candidates(rules.candidates or (), forks.prefork)}
    measured = _estimands(yardsticks.measure, forks, kept)
    compared = rivals(evidence, judged, yardsticks=measured, rules=rules)
    effect = _estimands(functools.partial(effects.effect, seed=rules.seed), forks, kept)
    figures = TaskScore(
        forks=ForkCounts(
            attempted=len(forks),
            retained=len(kept),
            diverged=int(divergence.dropped.sum()),
            below_own_hold=_below_own_hold(forks, rules.divergence),
            failed_hold=_count(forks.outcomes.failed_hold),
            failed_update=_count(forks.outcomes.failed_update),
            failure_return=NO_FAILURE if forks.failure_return is None else forks.failure_return,
            helped=int((kept.delta > 0).sum()),
            hurt=int((kept.delta < 0).sum()),
        ),
        effect=effect,
        verdict=effects.verdict(effect.all_attempted),
        judgement=judge_mean(finite(effect.all_attempted), seed=rules.seed, task=forks.task),
        drift_quartiles=effects.drift_quartiles(kept),
        direction_contrast=_estimands(
            functools.partial(contrast.contrast_directions, seed=rules.seed), forks, kept
        ),
        policies=measured.retained.figures,
        policies_all_attempted=measured.all_attempted.figures,
        triggers=compared.retained,
        triggers_all_attempted=compared.all_attempted,
        triggers_unavailable={
            name: reading.why for name, reading in readings.items() if isinstance(reading, Unavailable)
        },
        contraction=contraction(kept, seed=rules.seed, edges=rules.edges.get(forks.task)),
        proxies=Proxies(
            delta_k_given_hold=proxies.partial_correlation(
                kept.prefork.k.astype(np.float64), kept.delta, kept.outcomes.r_hold
            ),
            cells_with_both_signs=proxies.cells_with_both_signs(kept),
        ),
        variance_components=power.variance_components(forks),
        design=power.design_advice(forks, power.design_components(forks)),
        crn=CommonRandomNumbers(gain=power.crn_gain(forks)),
        divergence=RegisteredDivergence(
            fraction=Undefined("the rule is switched off") if rules.divergence is None else rules.divergence,
            off_in=divergence.off,
        ),
        clean_return=_clean_return(forks),
        severity=_severity(forks, rules),
        components=budget.components_of(forks),
        evidence=evidence,
    )
    return finite(figures)


def _estimands(figure: Callable[[Forks], T], attempted: Forks, retained: Forks) -> Estimands[T]:
    of_all = figure(attempted)
    return Estimands(all_attempted=of_all, retained=of_all if retained is attempted else figure(retained))


def _clean_return(forks: Forks) -> CleanReturn | Undefined:
    if not forks.clean:
        return Undefined("the ledger does not say the clean return of any checkpoint")
    values = np.array(list(forks.clean.values()))
    return CleanReturn(mean=float(values.mean()), student_t=intervals.student_t(values), by_checkpoint=forks.clean)


def _severity(forks: Forks, rules: Rules) -> tuple[Severity, ...] | Undefined:
    parts, outcomes = partition(forks.prefork), forks.outcomes
    clean = np.array([forks.clean.get(name, np.nan) for name in parts.checkpoints])
    return severity(
        outcomes.r_hold,
        outcomes.delta,
        clean[parts.checkpoint],
        parts.checkpoint,
        edges=rules.severity,
        hold=outcomes.hold,
        update=outcomes.update,
    )


def _count(failed: Bool[np.ndarray, "forks"] | None) -> int:
    return 0 if failed is None else int(failed.sum())


def _below_own_hold(forks: Forks, fraction: float | None) -> int | Undefined:
    """Forks whose update fell below the rule's share of what holding earned in that very fork."""
    if fraction is None:
        return Undefined("the rule is switched off")
    hold, update = forks.outcomes.r_hold, forks.outcomes.r_update
    return int(((hold > 0) & (update < fraction * hold)).sum())


def _answered(
    tasks: Mapping[tuple[str, str], TaskScore], arms: Mapping[str, Mapping[str, Forks]], rules: Rules
) -> dict[tuple[str, str], TaskScore]:
    """The tasks with the registered predictions that are about them answered."""
    answered = {}
    for (arm, task), one in tasks.items():
        about = [
            said
            for said in rules.predictions
            if said.task == task and said.arm in (None, arm) and not is_about_deployment(said)
        ]
        answers = tuple(
            answer(said, _subject(said, one, arms, rules), premises=_premise_of(said, arm, tasks)) for said in about
        )
        answered[arm, task] = dataclasses.replace(one, predictions=answers)
    return answered


def _subject(
    said: Prediction, score: TaskScore, arms: Mapping[str, Mapping[str, Forks]], rules: Rules
) -> TaskScore | Contrast | Undefined:
    """What a prediction is about: a task's score, or two arms compared on it."""
    if said.against is None or said.arm is None:
        return score
    pair = [arms.get(name, {}).get(said.task) for name in (said.arm, said.against)]
    if pair[0] is None or pair[1] is None:
        return Undefined(f"arm `{said.against}` is not scored here")
    return contrast.contrast_arms(pair[0], pair[1], seed=rules.seed)


def _premise_of(
    said: Prediction, arm: str, tasks: Mapping[tuple[str, str], TaskScore]
) -> TaskScore | Undefined | None:
    if said.premise is None or said.premise.task is None:
        return None if said.against is None else tasks[arm, said.task]
    return tasks.get((arm, said.premise.task), Undefined(f"`{said.premise.task}` is not scored here"))
