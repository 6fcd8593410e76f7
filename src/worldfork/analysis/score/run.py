"""Everything that is said about a ledger (docs/scoring.md defines every figure)."""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral, Real
from typing import Any, Final, TypeVar

import numpy as np
from jaxtyping import Bool

from worldfork.analysis.read.ledger import Ledger, Source, open_ledger, uncollected
from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.read.study import Rows
from worldfork.analysis.read.triggers import (
    Reading,
    Unavailable,
    chosen_triggers,
    read_triggers_together,
    unread_candidates,
)
from worldfork.analysis.score import (
    contrasts as contrast,
)
from worldfork.analysis.score import (
    design,
    effects,
    intervals,
    policy_returns,
    power,
    rankings,
    summary,
)
from worldfork.analysis.score.clusters import partition
from worldfork.analysis.score.contraction import contraction
from worldfork.analysis.score.decisions import Evidence, decide, diverged
from worldfork.analysis.score.deployment_records import TaskDeployment
from worldfork.analysis.score.deployments import score_deployments
from worldfork.analysis.score.effects import severity
from worldfork.analysis.score.judgement import CleanReturn, Severity
from worldfork.analysis.score.numerics import on_one_thread
from worldfork.analysis.score.permutation_nulls import control_totals
from worldfork.analysis.score.predictions import Prediction, answer, is_about_deployment
from worldfork.analysis.score.records import (
    CommonRandomNumbers,
    Contrast,
    Estimands,
    ForkCounts,
    PairedDifference,
    Proxies,
    RegisteredDivergence,
    TaskScore,
)
from worldfork.analysis.score.result import ArmScore, Score
from worldfork.analysis.score.rules import Rules
from worldfork.analysis.score.sweeps import compared_pairs, score_doses, score_noises
from worldfork.analysis.score.triggers import JudgedPolicies, judge_policies, rivals, tested_policies
from worldfork.analysis.score.undefined import Undefined, finite
from worldfork.analysis.score.verdicts import judge_all, judge_mean, registered_family
from worldfork.errors import WorldforkError, nearest
from worldfork.progress import Progress, silent
from worldfork.registration import Registration

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
        arms={arm: _arm_score({task: judged[arm, task] for task in tasks}) for arm, tasks in arms.items()},
        family=family,
        contrasts=contrast_all(arms, contrasts, rules=rules),
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


def _arm_score(tasks: Mapping[str, TaskScore]) -> ArmScore:
    return ArmScore(tasks=tasks, normalised=summary.normalised(tasks))


def contrast_all(
    arms: Mapping[str, Mapping[str, Forks]], pairs: Iterable[tuple[str, str]], *, rules: Rules
) -> dict[str, dict[str, Estimands[Contrast | Undefined]]]:
    """Return every pair of arms compared on each task that they share, by "first - second" and task."""
    attempted: dict[tuple[str, str], PairedDifference | Undefined] = {}
    retained: dict[tuple[str, str], PairedDifference | Undefined] = {}
    compared: dict[str, list[str]] = {}
    for first, second in pairs:
        for name in (first, second):
            if name not in arms:
                raise WorldforkError(f"There is no arm `{name}`; the table has {', '.join(arms) or 'none'}.")
        tasks = compared.setdefault(f"{first} - {second}", [])
        for task in [task for task in arms[first] if task in arms[second]]:
            tasks.append(task)
            pair = (arms[first][task], arms[second][task])
            kept = [forks.take(~diverged(forks, rules.divergence).dropped) for forks in pair]
            key = f"{first} - {second}", task
            attempted[key] = finite(contrast.contrast_arms(*pair, seed=rules.seed))
            retained[key] = finite(contrast.contrast_arms(*kept, seed=rules.seed))
    of_attempted, of_retained = contrast.grade_contrasts(attempted), contrast.grade_contrasts(retained)
    return {
        pair: {
            task: Estimands(all_attempted=of_attempted[pair, task], retained=of_retained[pair, task])
            for task in tasks
        }
        for pair, tasks in compared.items()
    }


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
    measured = _estimands(policy_returns.measure, forks, kept)
    compared = rivals(evidence, judged, yardsticks=measured, rules=rules)
    effect = _estimands(functools.partial(effects.effect, seed=rules.seed), forks, kept)
    clean = _clean_return(forks)
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
        policies=Estimands(all_attempted=measured.all_attempted.figures, retained=measured.retained.figures),
        triggers=compared,
        triggers_unavailable={
            name: reading.why for name, reading in readings.items() if isinstance(reading, Unavailable)
        },
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
            off_in=divergence.off,
        ),
        clean_return=clean,
        severity=_severity(forks, rules),
        components=design.components_of(forks),
        scale=summary.scale(forks, effect.all_attempted.mean, clean=clean),
        helped=summary.helped(forks),
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
) -> TaskScore | PairedDifference | Undefined:
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


Arms = Mapping[str, Mapping[str, Forks]]


@uncollected()
@on_one_thread()
def score_ledger(
    source: Source,
    *,
    arm: str | None = None,
    contrast: str | tuple[str, str] | None = None,
    higher_is_better: bool = True,
    failure_return: float | None = None,
    columns: Mapping[str, str] | None = None,
    progress: Progress = silent,
    **changes: Any,
) -> Score:
    """Score a study, a flat table or a data frame, by the rules it registered or else the paper's.

    `arm` scores one arm alone. Arms are compared as registered (`pairs.py`), those of a table each with the first,
    or `contrast` names the two to compare, as a pair or as "FIRST,SECOND". `higher_is_better` and `failure_return`
    say how a flat table is read (`read_table`).
    Any rule can be changed by name: `seed=1`, `permutations=1_000`, `triggers="residual"`, `divergence=None`.
    """
    ledger = open_ledger(source, higher_is_better=higher_is_better, failure_return=failure_return, columns=columns)
    arms, pairs = choose_arms(ledger.table.arms, arm=arm, contrast=contrast, registration=ledger.registration)
    rules = rules_of(ledger, **changes)
    scored = score(
        arms, rules, contrasts=pairs, whole=ledger.table.arms, failed=ledger.table.failed, progress=progress
    )
    scored = dataclasses.replace(
        scored,
        name=ledger.name,
        higher_is_better=ledger.table.higher_is_better,
        registration=ledger.registration,
        ignored=ledger.table.ignored,
    )
    if ledger.study is None or ledger.registration is None:
        return scored
    tasks = {name: scored_arm.tasks for name, scored_arm in scored.arms.items()}
    scored = dataclasses.replace(
        scored,
        missing=_missing(ledger.rows, ledger.registration),
        doses=score_doses(ledger.registration, tasks, seed=rules.seed),
        noises=score_noises(ledger.registration, tasks, seed=rules.seed),
    )
    if ledger.registration.deployment is None:
        return scored
    followed = score_deployments(ledger.study, ledger.table.arms, seed=rules.seed)
    return dataclasses.replace(scored, arms=_answered_deployment(scored.arms, followed, rules), deployment=followed)


def _answered_deployment(
    arms: Mapping[str, ArmScore], followed: Mapping[str, TaskDeployment], rules: Rules
) -> dict[str, ArmScore]:
    """The arms with the predictions answered that are about policies which were followed. Each is with the others
    of the arm that it names, which is the one whose mechanism the policy fires, or else with those of the first."""
    about = [prediction for prediction in rules.predictions if is_about_deployment(prediction)]
    first, answered = next(iter(arms)), {}
    for arm, score_of in arms.items():
        tasks = {}
        for task, figures in score_of.tasks.items():
            outcome = followed.get(task, Undefined(f"the policies of {task} have not been followed yet"))
            more = tuple(
                answer(prediction, outcome, premises=_premises(prediction, score_of, figures))
                for prediction in about
                if prediction.task == task and (prediction.arm or first) == arm
            )
            tasks[task] = dataclasses.replace(figures, predictions=(*figures.predictions, *more))
        answered[arm] = _arm_score(tasks)
    return answered


def _premises(prediction: Prediction, arm: ArmScore, figures: TaskScore) -> TaskScore | Undefined:
    if prediction.premise is None or prediction.premise.task is None:
        return figures
    return arm.tasks.get(prediction.premise.task, Undefined(f"`{prediction.premise.task}` is not scored here"))


def rules_of(ledger: Ledger, **changes: Any) -> Rules:
    """The rules that a study registered, or the paper's for a flat table, with these changes."""
    known = [field.name for field in dataclasses.fields(Rules)]
    if unknown := [name for name in changes if name not in known]:
        raise WorldforkError(
            f"There is no rule `{unknown[0]}`; there are {', '.join(known)}.{nearest(unknown[0], known)}"
        )
    for name, kind in (("divergence", Real), ("rate", Real), ("permutations", Integral), ("seed", Integral)):
        value = changes.get(name, 1)
        if (isinstance(value, bool) or not isinstance(value, kind)) and (name, value) != ("divergence", None):
            expected = "a whole number" if kind is Integral else "a number"
            raise WorldforkError(f"The rule `{name}` is {expected}; got {value!r:.40}.")
    if changes.get("seed", 0) < 0:
        raise WorldforkError(f"The rule `seed` is a whole number from 0; got {changes['seed']}.")
    if changes.get("triggers") is not None:
        changes["triggers"] = chosen_triggers(changes["triggers"])
    rules = Rules() if ledger.registration is None else Rules.registered(ledger.registration)
    return dataclasses.replace(rules, **changes)


def choose_arms(
    arms: Arms,
    *,
    arm: str | None = None,
    contrast: str | tuple[str, str] | None = None,
    registration: Registration | None = None,
) -> tuple[Arms, list[tuple[str, str]]]:
    """The arms to score, and the pairs to compare: those of `contrast`, of a study those that its registration asks
    for, else every later arm with the first."""
    known = ", ".join(name or "(unnamed)" for name in arms)
    pair = tuple(name.strip() for name in contrast.split(",")) if isinstance(contrast, str) else contrast or ()
    if contrast is not None and len(pair) != 2:
        raise WorldforkError(f"A contrast takes two arms, FIRST,SECOND; got `{contrast}`. The ledger has {known}.")
    for name in pair if arm is None else (arm, *pair):
        if name not in arms:
            raise WorldforkError(f"There is no arm `{name}`; the ledger has {known}.")
    if pair:
        chosen = arms if arm is None else {name: arms[name] for name in dict.fromkeys((arm, *pair))}
        return chosen, [(pair[0], pair[1])]
    if arm is not None:
        return {arm: arms[arm]}, []
    if registration is not None:
        return arms, [(pair.later, pair.earlier) for pair in compared_pairs(registration, arms)]
    first, *others = arms
    return arms, [(other, first) for other in others]


def only_arm(source: Source) -> Mapping[str, Forks]:
    """The tasks of a ledger with one arm, such as a replication on other stream seeds."""
    ledger = open_ledger(source)
    if len(ledger.table.arms) != 1:
        raise WorldforkError(f"A replication has one arm; `{ledger.name}` has {', '.join(ledger.table.arms)}.")
    return next(iter(ledger.table.arms.values()))


def _missing(rows: Rows, registration: Registration) -> str:
    """What a reader of every figure has to know first: that forks are not there."""
    points = {arm.name: arm.stream.decision_points for arm in registration.arms}
    there, registered = sum(map(len, rows.values())), sum(points[cell.arm] for cell in rows)
    if there >= registered:
        return ""
    return (
        f"{registered - there:,} of {registered:,} registered forks are not there: the study is not complete, and "
        "every figure is of the others."
    )
