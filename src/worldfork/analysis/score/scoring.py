"""Score a ledger: effects, triggers, contrasts, predictions and policies by arm and task (docs/scoring.md)."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

import numpy as np

from worldfork.analysis.read.ledger import Source, open_ledger
from worldfork.analysis.read.outcomes import Arms, Forks
from worldfork.analysis.read.triggers import Reading, Unavailable, read_triggers_together, unread_candidates
from worldfork.analysis.score import contrasts as contrast
from worldfork.analysis.score import effects, policies, rankings, triggers, variance
from worldfork.analysis.score.arms import choose_arms
from worldfork.analysis.score.clusters import partition
from worldfork.analysis.score.contraction import contraction
from worldfork.analysis.score.curves import curves, severity
from worldfork.analysis.score.decisions import Evidence, decide, diverged, quarantined
from worldfork.analysis.score.deployment_records import TaskDeployment
from worldfork.analysis.score.deployments import score_deployments
from worldfork.analysis.score.effects import Effect
from worldfork.analysis.score.policies import ReferencePolicies
from worldfork.analysis.score.predictions import answer, is_about_deployment
from worldfork.analysis.score.records import (
    CommonRandomNumbers,
    ForkCounts,
    PredictionAnswer,
    Proxies,
    RegisteredDivergence,
    TaskScore,
)
from worldfork.analysis.score.result import ArmScore, Score
from worldfork.analysis.score.rules import ArmTask, Family, Rules, registered_family, rules_of
from worldfork.analysis.score.stopping import Ruling, StoppingScore, due_cells, ruled, ruling, score_stopping
from worldfork.analysis.score.sweeps import score_doses, score_noises
from worldfork.analysis.score.triggers import TriggerScore, judge_triggers
from worldfork.analysis.score.undefined import Estimands, Undefined, finite
from worldfork.analysis.score.value import task_prices, trials
from worldfork.analysis.score.verdicts import Judgement, judge_means
from worldfork.errors import WorldforkError
from worldfork.ledger.row import Rows
from worldfork.progress import Progress, silent
from worldfork.registration import Registration

T = TypeVar("T")
LARGEST: Final = 1e300  # of a sum of returns: room for what is computed from it


@contextlib.contextmanager
def on_one_thread() -> Iterator[None]:
    """Keep matrix products on one thread. All of scoring's are small: threads that wait for one another take more
    time than they save. And a product that is dealt out to as many threads as there are cores may be rounded
    otherwise on another machine."""
    import threadpoolctl  # a machine that fits thresholds and scores nothing need not have it

    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        yield


@on_one_thread()
def score(
    arms: Arms,
    rules: Rules,
    *,
    contrasts: Iterable[tuple[str, str]] = (),
    whole: Arms | None = None,
    registration: Registration | None = None,
    followed: Mapping[str, TaskDeployment] | None = None,
    stopping: StoppingScore | None = None,
    progress: Progress = silent,
    **about: Any,
) -> Score:
    """Return the score of every task of every arm. Neither arms nor tasks are ever pooled.

    Args:
        arms: the forks of every task, by arm.
        rules: as registered, or the paper's.
        contrasts: the pairs of arms to compare, as (later, earlier).
        whole: the ledger that `arms` were chosen from; tests are adjusted over all of it.
        registration: of the study, where there is one: its arms may differ in one setting.
        followed: by task, the outcome of the policies that were followed; None where none is registered.
        stopping: how a study with [stopping] ended: its answers decide verdicts and grades.
        progress: hears how many forks are scored.
        about: fields of the `Score` that are known beforehand: `name`, `failed`, `missing`,
            `higher_is_better`, `ignored`.

    Example:
        >>> from worldfork.analysis.read.table import read_table
        >>> rows = {"checkpoint": [0, 0, 1], "k": [1, 2, 1], "r_update": [3.0, 1.0, 2.0], "r_hold": [2.0, 2.0, 2.0]}
        >>> import polars as pl
        >>> score(read_table(pl.DataFrame(rows)).arms, Rules(permutations=20))["table"].effect.all_attempted.mean
        0.0
    """
    _refuse_too_large(arms)
    arms = priced(arms, rules.update_cost)
    family = registered_family(whole or arms, rules)
    every = {(arm, task): forks for arm, tasks in arms.items() for task, forks in tasks.items()}
    readings = read_triggers_together(
        [forks.prefork for forks in every.values()],
        names=rules.triggers,
        candidates=rules.candidates or (),
        seed=rules.seed,
    )
    read = dict(zip(every, readings, strict=True))
    evidence = {key: evidence_of(forks, read[key], rules) for key, forks in every.items()}
    effect = {
        key: finite(estimands(functools.partial(effects.effect, seed=rules.seed), found))
        for key, found in evidence.items()
    }
    judgements = judge_means({key: found.all_attempted for key, found in effect.items()}, family, seed=rules.seed)
    baselines = {
        key: Estimands(
            all_attempted=policies.measure(found.forks.take(found.scored("all_attempted"))),
            retained=policies.measure(found.forks.take(found.scored("retained"))),
        )
        for key, found in evidence.items()
    }
    rulings = {(arm, task): ruling(stopping, task=task, arm=arm) for arm, task in every}
    judgements = {key: ruled(judged, rulings[key]) for key, judged in judgements.items()}
    total, measured = sum(map(len, every.values())), {}
    progress("scoring", 0, total)
    for key, found in evidence.items():
        measured[key] = finite(
            triggers.measure_triggers(found, baselines=baselines[key], family=family, rules=rules)
        )
        progress("scoring", sum(len(every[done]) for done in measured), total)
    attempted = judge_triggers({key: found.all_attempted for key, found in measured.items()}, family)
    retained = judge_triggers({key: found.retained for key, found in measured.items()}, family)
    figures = {
        key: finite(
            task_figures(
                evidence[key],
                rules,
                effect=effect[key],
                judgement=judgements[key],
                ruling=rulings[key],
                policies=Estimands(
                    all_attempted=baselines[key].all_attempted.figures, retained=baselines[key].retained.figures
                ),
                triggers=Estimands(all_attempted=attempted[key], retained=retained[key]),
                unavailable=unavailable_triggers(read[key], every[key], rules),
                family=family,
            )
        )
        for key in every
    }
    by_arm: dict[str, dict[str, TaskScore]] = {arm: {} for arm in arms}
    for arm, task in every:
        answers = _predictions((arm, task), figures, arms, rules, followed)
        by_arm[arm][task] = dataclasses.replace(figures[arm, task], predictions=answers)
    return Score(
        arms={arm: _arm_score(of_arm) for arm, of_arm in by_arm.items()},
        family=family,
        contrasts=contrast.contrast_all(arms, contrasts, rules=rules, stopping=stopping),
        stopping=stopping,
        rules=rules,
        registration=registration,
        deployment=followed or {},
        doses={} if registration is None else score_doses(registration, by_arm, seed=rules.seed, stopping=stopping),
        noises={} if registration is None else score_noises(registration, by_arm, seed=rules.seed),
        **about,
    )


def _arm_score(tasks: Mapping[str, TaskScore]) -> ArmScore:
    sizes = {name: (task.scale, task.effect.all_attempted) for name, task in tasks.items()}
    return ArmScore(tasks=tasks, normalised=effects.normalised(sizes))


def _refuse_too_large(arms: Arms) -> None:
    """Raise where returns can not be added up: every total and every mean would be infinite or no number."""
    for arm, tasks in arms.items():
        for task, forks in tasks.items():
            returns = np.abs([forks.outcomes.r_hold, forks.outcomes.r_update])
            with np.errstate(over="ignore"):
                total = returns.sum()
            if not total < LARGEST:
                raise WorldforkError(
                    f"{f'{arm}, {task}' if arm else task}: the returns of {len(forks):,} forks, of up to "
                    f"{returns.max():.3g}, are too large to add up. Give them in another unit."
                )


def priced(arms: Arms, cost: float) -> Arms:
    """Return the forks with dR net of what an update costs."""
    return {
        arm: {
            task: dataclasses.replace(forks, outcomes=dataclasses.replace(forks.outcomes, cost=cost))
            for task, forks in tasks.items()
        }
        for arm, tasks in arms.items()
    }


def _predictions(
    arm_task: ArmTask,
    figures: Mapping[ArmTask, TaskScore],
    arms: Arms,
    rules: Rules,
    followed: Mapping[str, TaskDeployment] | None,
) -> tuple[PredictionAnswer, ...]:
    """Return the answers of the registered predictions about one task in one arm.

    Those about policies that were followed come last. They are with the arm that they name, whose mechanism the
    policy fires, or else with the first.
    """
    arm, task = arm_task
    about_forks, about_policies = [], []
    for prediction in (prediction for prediction in rules.predictions if prediction.task == task):
        premise_task = task if prediction.premise is None else prediction.premise.task or task
        premises = figures.get((arm, premise_task), Undefined(f"`{premise_task}` is not scored here"))
        if is_about_deployment(prediction):
            if followed is not None and (prediction.arm or next(iter(arms))) == arm:
                outcome = followed.get(task, Undefined(f"the policies of {task} have not been followed yet"))
                about_policies.append(answer(prediction, outcome, premises=premises))
        elif prediction.arm in (None, arm):
            subject: TaskScore | contrast.PairedDifference | Undefined = figures[arm_task]
            if prediction.against is not None and prediction.arm is not None:
                other = arms.get(prediction.against, {}).get(task)
                subject = Undefined(f"arm `{prediction.against}` is not scored here")
                if other is not None:
                    subject = contrast.contrast_arms(arms[arm][task], other, seed=rules.seed)
            about_forks.append(answer(prediction, subject, premises=premises))
    return (*about_forks, *about_policies)


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
    """Return the score of a study, a flat table or a data frame, by the rules it registered or else the paper's.

    Args:
        source: a path, a `Study`, or a data frame with one row per fork.
        arm: the one arm to score; tests are adjusted over all arms all the same.
        contrast: the two arms to compare, as a pair or as "FIRST,SECOND". Without it those that the registration
            asks for (`compared_pairs`); of a table each later arm with the first.
        higher_is_better: False where a flat table has costs.
        failure_return: the return that a branch of a flat table counts as that is missing or not finite.
        columns: names of a flat table's columns, by the names that are expected.
        progress: hears how many forks are scored.
        changes: rules by name: `seed=1`, `permutations=1_000`, `triggers="residual"`, `divergence=None`.
    """
    ledger = open_ledger(source, higher_is_better=higher_is_better, failure_return=failure_return, columns=columns)
    registration, table = ledger.registration, ledger.table
    arms, pairs = choose_arms(table.arms, arm=arm, contrast=contrast, registration=registration)
    rules, followed, stopping = rules_of(ledger, **changes), None, None
    if ledger.study is not None and registration is not None and registration.stopping is not None:
        stopping = score_stopping(ledger.study, registration, ledger.rows)
    if ledger.study is not None and registration is not None and registration.deployment is not None:
        followed = score_deployments(ledger.study, priced(table.arms, rules.update_cost), rules)
    return score(
        arms,
        rules,
        contrasts=pairs,
        whole=table.arms,
        registration=registration,
        followed=followed,
        stopping=stopping,
        progress=progress,
        name=ledger.name,
        failed=tuple(table.failed),
        missing="" if registration is None else _missing(ledger.rows, registration, stopping),
        higher_is_better=table.higher_is_better,
        ignored=table.ignored,
    )


def only_arm(source: Source) -> Mapping[str, Forks]:
    """Return the tasks of a ledger with one arm, such as a replication on other stream seeds."""
    ledger = open_ledger(source)
    if len(ledger.table.arms) != 1:
        raise WorldforkError(f"A replication has one arm; `{ledger.name}` has {', '.join(ledger.table.arms)}.")
    return next(iter(ledger.table.arms.values()))


def _missing(rows: Rows, registration: Registration, stopping: StoppingScore | None) -> str:
    """Return a sentence that says how many registered forks are not there; empty where all are.

    Those beyond the checkpoint at which a study stopped are not missing.
    """
    points = {arm.name: arm.stream.decision_points for arm in registration.arms}
    due = rows if stopping is None else due_cells(registration, rows)
    there, registered = sum(map(len, rows.values())), sum(points[cell.arm] for cell in due)
    if stopping is not None and not stopping.ended:
        return f"The study is not complete ({stopping.outcome}), and every figure is of the forks that are there."
    if there >= registered:
        return ""
    return (
        f"{registered - there:,} of {registered:,} registered forks are not there: the study is not complete, and "
        "every figure is of the others."
    )


def evidence_of(forks: Forks, readings: Mapping[str, Reading], rules: Rules) -> Evidence:
    """Return which forks diverged, and where every trigger fires."""
    divergence = diverged(forks, rules.divergence)
    usable = {name: reading for name, reading in readings.items() if not isinstance(reading, Unavailable)}
    left_out = quarantined(forks)
    attempted = decide(usable, forks, scored=~left_out, rate=rules.rate)
    retained = attempted
    if divergence.dropped.any():
        retained = decide(usable, forks, scored=~(divergence.dropped | left_out), rate=rules.rate)
    return Evidence(forks, divergence, retained, attempted, left_out)


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
) -> TaskScore:
    """Return every figure of one task in one arm."""
    forks, kept = evidence.forks, evidence.kept
    parts, clean = partition(forks.prefork), effects.clean_return(forks)
    clean_of_forks = np.array([forks.clean.get(name, np.nan) for name in parts.checkpoints])[parts.checkpoint]
    k = kept.prefork.k.astype(np.float64)
    return TaskScore(
        forks=_counts(evidence, rules),
        effect=effect,
        verdict=effects.verdict(effect.all_attempted) if ruling is None or not ruling.verdict else ruling.verdict,
        judgement=judgement,
        drift_quartiles=effects.drift_quartiles(kept),
        direction_contrast=estimands(functools.partial(contrast.contrast_directions, seed=rules.seed), evidence),
        policies=policies,
        triggers=triggers,
        triggers_unavailable=unavailable,
        contraction=contraction(kept, seed=rules.seed, edges=rules.edges.get(forks.task)),
        proxies=Proxies(
            delta_k_given_hold=rankings.partial_correlation(k, kept.delta, kept.outcomes.r_hold),
            cells_with_both_signs=rankings.cells_with_both_signs(kept),
        ),
        variance_components=variance.variance_components(forks),
        design=variance.design_advice(forks, variance.design_components(forks)),
        crn=CommonRandomNumbers(gain=variance.crn_gain(forks)),
        divergence=RegisteredDivergence(
            fraction=Undefined("the rule is switched off") if rules.divergence is None else rules.divergence,
            off_in=evidence.divergence.off,
        ),
        clean_return=clean,
        severity=severity(forks, clean_of_forks, edges=rules.severity),
        components=variance.components_of(forks),
        scale=effects.scale(forks, effect.all_attempted.mean, clean=clean),
        helped=effects.helped(forks),
        robust=effects.robust(forks, seed=rules.seed),
        curves=curves(forks, clean_of_forks, edges=rules.severity, seed=rules.seed),
        trials=trials(forks, evidence.all_attempted, margin=rules.trial_margin, seed=rules.seed),
        prices=task_prices(forks, evidence.all_attempted, candidates=family.candidates),
        candidates=len(family.candidates),
        candidates_unread=sum(name in family.candidates for name in unavailable),
        evidence=evidence,
    )


def _counts(evidence: Evidence, rules: Rules) -> ForkCounts:
    forks, kept, dropped = evidence.forks, evidence.kept, evidence.divergence.dropped
    outcomes, fraction = forks.outcomes, rules.divergence
    below = int(((outcomes.r_hold > 0) & (outcomes.r_update < (fraction or 0.0) * outcomes.r_hold)).sum())
    no_failure = Undefined("a flat table has both returns of every fork")
    return ForkCounts(
        attempted=len(forks),
        retained=len(kept),
        diverged=int(dropped.sum()),
        diverged_share=float(dropped.mean()) if len(forks) else Undefined("there are no forks"),
        quarantined=int(evidence.quarantined.sum()),
        below_own_hold=Undefined("the rule is switched off") if fraction is None else below,
        failed_hold=int(outcomes.failed_hold.sum()),
        failed_update=int(outcomes.failed_update.sum()),
        failure_return=no_failure if forks.failure_return is None else forks.failure_return,
        helped=int((kept.delta > 0).sum()),
        hurt=int((kept.delta < 0).sum()),
    )
