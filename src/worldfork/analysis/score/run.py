"""Score a ledger: effects, triggers, contrasts, predictions and policies by arm and task (docs/scoring.md)."""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral, Real
from typing import Any, Final, TypeVar

import numpy as np

from worldfork.analysis.read.ledger import Ledger, Source, open_ledger, uncollected
from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.read.study import Rows
from worldfork.analysis.read.triggers import (
    chosen_triggers,
    read_triggers_together,
)
from worldfork.analysis.score import contrasts as contrast
from worldfork.analysis.score import effects, policy_returns, summary
from worldfork.analysis.score.decisions import diverged
from worldfork.analysis.score.deployment_records import TaskDeployment
from worldfork.analysis.score.deployments import score_deployments
from worldfork.analysis.score.judgement import PredictionAnswer
from worldfork.analysis.score.numerics import on_one_thread
from worldfork.analysis.score.permutation_nulls import control_totals
from worldfork.analysis.score.predictions import answer, is_about_deployment
from worldfork.analysis.score.records import (
    Contrast,
    Estimands,
    PairedDifference,
    TaskFigures,
    TaskScore,
)
from worldfork.analysis.score.result import ArmScore, Score
from worldfork.analysis.score.rules import Rules
from worldfork.analysis.score.stopping import (
    NOT_RULED,
    StoppingScore,
    due_cells,
    ruled,
    ruled_contrast,
    ruling,
    score_stopping,
)
from worldfork.analysis.score.sweeps import compared_pairs, score_doses, score_noises
from worldfork.analysis.score.task_figures import estimands, evidence_of, task_figures, unavailable_triggers
from worldfork.analysis.score.triggers import measure_triggers, tested_policies
from worldfork.analysis.score.undefined import Undefined, finite
from worldfork.analysis.score.verdicts import Place, judge_means, judge_triggers, registered_family
from worldfork.errors import WorldforkError, nearest
from worldfork.progress import Progress, silent
from worldfork.registration import Registration

T = TypeVar("T")
Arms = Mapping[str, Mapping[str, Forks]]
LARGEST: Final = 1e300  # of a sum of returns: room for what is computed from it


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
        >>> from worldfork.analysis.read import read_table
        >>> rows = {"checkpoint": [0, 0, 1], "k": [1, 2, 1], "r_update": [3.0, 1.0, 2.0], "r_hold": [2.0, 2.0, 2.0]}
        >>> import polars as pl
        >>> score(read_table(pl.DataFrame(rows)).arms, Rules(permutations=20))["table"].effect.all_attempted.mean
        0.0
    """
    _refuse_too_large(arms)
    arms = priced(arms, rules.update_cost)
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
    baselines = {
        key: Estimands(
            all_attempted=policy_returns.measure(found.forks.take(found.scored("all_attempted"))),
            retained=policy_returns.measure(found.forks.take(found.scored("retained"))),
        )
        for key, found in evidence.items()
    }
    family = registered_family(whole or arms, rules)
    nulls = control_totals(
        [tested_policies(found) for found in evidence.values()],
        permutations=rules.permutations,
        seed=rules.seed,
        advance=_counter(progress, sum(map(len, every.values()))),
    )
    measured = {
        key: finite(measure_triggers(found, null, baselines=baselines[key], family=family, rules=rules))
        for (key, found), null in zip(evidence.items(), nulls, strict=True)
    }
    judgements = judge_means({key: found.all_attempted for key, found in effect.items()}, family, seed=rules.seed)
    rulings = {(arm, task): ruling(stopping, task=task, arm=arm) for arm, task in every}
    judgements = {key: ruled(judged, rulings[key]) for key, judged in judgements.items()}
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
    tasks = {
        key: TaskScore(**vars(figures[key]), predictions=_predictions(key, figures, arms, rules, followed))
        for key in every
    }
    by_arm = {arm: {task: tasks[arm, task] for task in of_arm} for arm, of_arm in arms.items()}
    return Score(
        arms={arm: ArmScore(tasks=of_arm, normalised=summary.normalised(of_arm)) for arm, of_arm in by_arm.items()},
        family=family,
        contrasts=contrast_all(arms, contrasts, rules=rules, stopping=stopping),
        stopping=stopping,
        rules=rules,
        registration=registration,
        deployment=followed or {},
        doses={} if registration is None else score_doses(registration, by_arm, seed=rules.seed, stopping=stopping),
        noises={} if registration is None else score_noises(registration, by_arm, seed=rules.seed),
        **about,
    )


def _counter(progress: Progress, total: int) -> Callable[[int], None]:
    """Return a function that adds to the forks that are done, and reports them."""
    done = 0

    def advance(forks: int) -> None:
        nonlocal done
        done += forks
        progress("scoring", done, total)

    advance(0)
    return advance


def _refuse_too_large(arms: Arms) -> None:
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
    arms: Arms, pairs: Iterable[tuple[str, str]], *, rules: Rules, stopping: StoppingScore | None = None
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
    for key, found in of_attempted.items():
        first, _, second = key[0].partition(" - ")
        of_attempted[key] = ruled_contrast(found, ruling(stopping, task=key[1], arm=first, against=second))
    if stopping is not None:  # questions are about all attempted forks
        of_retained = {key: ruled_contrast(found, NOT_RULED) for key, found in of_retained.items()}
    return {
        pair: {
            task: Estimands(all_attempted=of_attempted[pair, task], retained=of_retained[pair, task])
            for task in tasks
        }
        for pair, tasks in compared.items()
    }


def priced(arms: Arms, cost: float) -> Arms:
    """Return the forks with dR net of what an update costs."""
    if not cost:
        return arms
    return {
        arm: {
            task: dataclasses.replace(forks, outcomes=dataclasses.replace(forks.outcomes, cost=cost))
            for task, forks in tasks.items()
        }
        for arm, tasks in arms.items()
    }


def _predictions(
    place: Place,
    figures: Mapping[Place, TaskFigures],
    arms: Arms,
    rules: Rules,
    followed: Mapping[str, TaskDeployment] | None,
) -> tuple[PredictionAnswer, ...]:
    """Return the answers of the registered predictions about one task in one arm.

    Those about policies that were followed come last. They are with the arm that they name, whose mechanism the
    policy fires, or else with the first.
    """
    arm, task = place
    about_forks, about_policies = [], []
    for prediction in (prediction for prediction in rules.predictions if prediction.task == task):
        premise_task = task if prediction.premise is None else prediction.premise.task or task
        premises = figures.get((arm, premise_task), Undefined(f"`{premise_task}` is not scored here"))
        if is_about_deployment(prediction):
            if followed is not None and (prediction.arm or next(iter(arms))) == arm:
                outcome = followed.get(task, Undefined(f"the policies of {task} have not been followed yet"))
                about_policies.append(answer(prediction, outcome, premises=premises))
        elif prediction.arm in (None, arm):
            subject: TaskFigures | PairedDifference | Undefined = figures[place]
            if prediction.against is not None and prediction.arm is not None:
                other = arms.get(prediction.against, {}).get(task)
                subject = Undefined(f"arm `{prediction.against}` is not scored here")
                if other is not None:
                    subject = contrast.contrast_arms(arms[arm][task], other, seed=rules.seed)
            about_forks.append(answer(prediction, subject, premises=premises))
    return (*about_forks, *about_policies)


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


def rules_of(ledger: Ledger, **changes: Any) -> Rules:
    """Return the rules that a study registered, or the paper's for a flat table, with these changes."""
    names = [field.name for field in dataclasses.fields(Rules)]
    if unknown := [name for name in changes if name not in names]:
        raise WorldforkError(
            f"There is no rule `{unknown[0]}`; there are {', '.join(names)}.{nearest(unknown[0], names)}"
        )
    for name, kind in (
        ("divergence", Real),
        ("rate", Real),
        ("update_cost", Real),
        ("permutations", Integral),
        ("seed", Integral),
    ):
        value = changes.get(name, 1)
        if (isinstance(value, bool) or not isinstance(value, kind)) and (name, value) != ("divergence", None):
            expected = "a whole number" if kind is Integral else "a number"
            raise WorldforkError(f"The rule `{name}` is {expected}; got {value!r:.40}.")
    if changes.get("seed", 0) < 0:
        raise WorldforkError(f"The rule `seed` is a whole number from 0; got {changes['seed']}.")
    if changes.get("triggers") is not None:
        changes["triggers"] = chosen_triggers(changes["triggers"])
    rules = Rules() if ledger.registration is None else Rules.registered(ledger.registration)
    if ledger.recorder is not None:
        rules = dataclasses.replace(rules, update_cost=ledger.recorder.update_cost)
    return dataclasses.replace(rules, **changes)


def choose_arms(
    arms: Arms,
    *,
    arm: str | None = None,
    contrast: str | tuple[str, str] | None = None,
    registration: Registration | None = None,
) -> tuple[Arms, list[tuple[str, str]]]:
    """Return the arms to score, and the pairs to compare: those of `contrast`, of a study those that its
    registration asks for, else every later arm with the first."""
    names = ", ".join(name or "(unnamed)" for name in arms)
    pair = tuple(name.strip() for name in contrast.split(",")) if isinstance(contrast, str) else contrast or ()
    if contrast is not None and len(pair) != 2:
        raise WorldforkError(f"A contrast takes two arms, FIRST,SECOND; got `{contrast}`. The ledger has {names}.")
    for name in pair if arm is None else (arm, *pair):
        if name not in arms:
            raise WorldforkError(f"There is no arm `{name}`; the ledger has {names}.")
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
