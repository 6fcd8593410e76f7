"""What happens if a trigger is followed all the way: each policy against never, and whether the ledger foresaw it.

The estimand is the paired difference with never on common random numbers; clusters are checkpoints. A policy's
ledger value is what the one-step ledger says of it: the mean over decision points of dR where it fires on the
frozen stream, and 0 where it does not. Both are in units of the return of one episode.
"""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float
from scipy import stats

from worldfork.desk.reading.deployments import Deployed, read_deployments
from worldfork.desk.reading.outcomes import Forks
from worldfork.desk.scoring import few_clusters, intervals
from worldfork.desk.scoring.deployment_records import (
    Advantage,
    AtPoint,
    LedgerForecast,
    PolicyOutcome,
    TaskDeployment,
)
from worldfork.desk.scoring.effects import estimate
from worldfork.desk.scoring.family import adjust
from worldfork.desk.scoring.partition import group_means, natural
from worldfork.desk.scoring.thresholds import decisions_on
from worldfork.desk.scoring.undefined import Figure, Undefined, finite
from worldfork.desk.triggers import imports_nothing_new
from worldfork.ledger.deployment import THRESHOLDS, Thresholds, policy_of, recorded_signals
from worldfork.ledger.records import check, read_json
from worldfork.ledger.store import Study
from worldfork.registration import Registration
from worldfork.triggers.policy import Policy

__all__ = ["score_deployments"]

NEVER = "never"
ITSELF = Undefined("it is what the others are compared with")
Arms = Mapping[str, Mapping[str, Forks]]


def score_deployments(study: Study, arms: Arms, *, seed: int = 0) -> dict[str, TaskDeployment]:
    """Every task whose policies were followed; `arms` are the forks of the same study."""
    deployed = read_deployments(study)
    registration = study.registration
    path = study.path / THRESHOLDS
    thresholds = check(read_json(path), Thresholds, where=f"`{path}`") if path.exists() else Thresholds()
    scored = {}
    for task, one in deployed.items():
        if len(one.cells) and not np.isnan(one.returns[:, :, 0]).any():
            values = _ledger_values(registration, one, arms, thresholds)
            scored[task] = _task(one, values, seed=seed)
    return _adjusted(scored)


@dataclasses.dataclass(frozen=True)
class _Value:
    """What the one-step ledger says of a policy, cell by cell, and how often it fires there."""

    earned: Float[np.ndarray, " cells"]
    fires: Float[np.ndarray, " cells"]


def _ledger_values(
    registration: Registration, one: Deployed, arms: Arms, thresholds: Thresholds
) -> dict[str, _Value | Undefined]:
    """Each policy on the frozen streams of the same cells, with the thresholds that it was deployed with."""
    values: dict[str, _Value | Undefined] = {}
    for name in one.policies:
        forks = arms.get(one.arms[name], {}).get(one.task)
        if forks is None:
            values[name] = Undefined(f"the ledger has no forks of arm `{one.arms[name]}` on {one.task}")
            continue

        def policy_at(checkpoint: str, name: str = name) -> Policy:
            return policy_of(registration, name, threshold=thresholds.of(name, one.task, checkpoint))

        assert registration.deployment is not None
        trigger = registration.deployment.every()[name].trigger
        if trigger not in recorded_signals(registration) and not imports_nothing_new(trigger):
            values[name] = Undefined(
                f"its trigger `{trigger}` does not come with worldfork, and code that a study names is not "
                f"imported to read it: name it yourself, with --triggers {trigger}"
            )
            continue
        _, fired = decisions_on(forks.prefork, policy_at, seed=registration.seed)
        earned, fires = np.full(len(one.cells), np.nan), np.full(len(one.cells), np.nan)
        for index, span in forks.prefork.spans():
            places = [place for place, key in enumerate(one.cells) if key == forks.prefork.cells[index]]
            earned[places] = np.where(fired[span], forks.delta[span], 0.0).mean()
            fires[places] = fired[span].sum()
        missing = Undefined("a deployment's cell has no forks")
        values[name] = missing if np.isnan(earned).any() else _Value(earned, fires)
    return values


def _task(one: Deployed, values: Mapping[str, _Value | Undefined], *, seed: int) -> TaskDeployment:
    checkpoints = sorted({cell.checkpoint for cell in one.cells}, key=natural)
    owner = np.array([checkpoints.index(cell.checkpoint) for cell in one.cells])
    never = one.policies.index(NEVER)
    with np.errstate(invalid="ignore"):
        returned = np.nanmean(one.returns, axis=2)
        evaluated = one.evaluations.mean(axis=3)

    def over_checkpoints(cells: Float[np.ndarray, " cells"]) -> Float[np.ndarray, " checkpoints"]:
        return group_means(cells, owner, len(checkpoints))

    def compared(cells: Float[np.ndarray, " cells"]) -> Advantage:
        return _advantage(over_checkpoints(cells), checkpoints, seed=seed, task=one.task)

    means = np.stack([over_checkpoints(cells) for cells in returned])
    best = int(means.mean(axis=1).argmax())
    outcomes = {}
    for index, name in enumerate(one.policies):
        value = values[name]
        gained = returned[index] - returned[never]
        at_points = evaluated[index] - evaluated[never]
        no_points = Undefined("no model was evaluated" if not one.points else "not all evaluations are there yet")
        known_points = bool(one.points) and not np.isnan(at_points).any()
        parted: Advantage | Undefined = value if isinstance(value, Undefined) else ITSELF
        if not isinstance(value, Undefined) and index != never:
            parted = compared(gained - value.earned)
        outcomes[name] = PolicyOutcome(
            returned=float(means[index].mean()),
            advantage=ITSELF if index == never else compared(gained),
            evaluation=ITSELF
            if index == never
            else compared(at_points.mean(axis=1))
            if known_points
            else no_points,
            evaluation_at=tuple(
                AtPoint(
                    k=k,
                    mean=float(found.mean()),
                    student_t=intervals.student_t(found),
                )
                for place, k in enumerate(one.points)
                if not np.isnan(found := over_checkpoints(at_points[:, place])).any()
            ),
            by_episode=tuple(
                _mean(over_checkpoints((one.returns[index] - one.returns[never])[:, k]))
                for k in range(one.returns.shape[2])
            ),
            fired_at=tuple(
                _mean(one.fired[index, known, k].astype(np.float64))
                for k in range(one.returns.shape[2])
                for known in [~np.isnan(one.returns[index, :, k])]
            ),
            updates=float(one.fired[index].sum(axis=1).mean()),
            gradient_steps=float(one.steps[index].sum(axis=1).mean()),
            regret=float(means[best].mean() - means[index].mean()),
            regret_by_checkpoint=float((means.max(axis=0) - means[index]).mean()),
            ledger_value=value if isinstance(value, Undefined) else float(over_checkpoints(value.earned).mean()),
            ledger_updates=value if isinstance(value, Undefined) else float(value.fires.mean()),
            parted=parted,
        )
    earned = {name: value for name, value in values.items() if not isinstance(value, Undefined)}
    gains = np.stack([means[index] - means[never] for index in range(len(one.policies))])
    foreseen = np.stack([over_checkpoints(value.earned) for value in earned.values()]) if earned else None
    same = foreseen is not None and len(earned) == len(one.policies)
    return finite(
        TaskDeployment(
            policies=outcomes,
            best=one.policies[best],
            forecast=_forecast(foreseen if same else None, gains, checkpoints),
            checkpoints=len(checkpoints),
            cells=len(one.cells),
            episodes=one.returns.shape[2],
            points=one.points,
            evaluation_episodes=one.evaluations.shape[3],
            family=len(one.policies) - 1,
        )
    )


def _advantage(
    values: Float[np.ndarray, " checkpoints"], names: Sequence[str], *, seed: int, task: str
) -> Advantage:
    """A mean over checkpoints with everything the desk holds a mean to; its family comes later."""
    mean = estimate(values, seed=seed, task=task)
    return Advantage(
        **{field.name: getattr(mean, field.name) for field in dataclasses.fields(mean)},
        by_checkpoint={name: float(value) for name, value in zip(names, values, strict=True)},
        won=int((values > 0).sum()),
        grade=Undefined("it is not adjusted yet"),
        adjusted_student_t=mean.p_student_t,
        adjusted_sign_flip=mean.p_sign_flip,
        leave_one_out=few_clusters.leave_one_out(values, names),
    )


def _adjusted(tasks: Mapping[str, TaskDeployment]) -> dict[str, TaskDeployment]:
    """Every comparison with its grade: each kind is one family, over all policies of all tasks."""
    judged = {task: dict(one.policies) for task, one in tasks.items()}
    size = 0
    for kind in ("advantage", "evaluation", "parted"):
        known = {
            (task, name): found
            for task, one in tasks.items()
            for name, outcome in one.policies.items()
            if not isinstance(found := getattr(outcome, kind), Undefined)
        }
        student = adjust({key: found.p_student_t for key, found in known.items()}, known)
        flips = adjust({key: found.p_sign_flip for key, found in known.items()}, known)
        size = max(size, len(known)) if kind == "advantage" else size
        for (task, name), found in known.items():
            values = np.array([value for value in found.by_checkpoint.values() if not isinstance(value, Undefined)])
            graded = dataclasses.replace(
                found,
                adjusted_student_t=student[task, name],
                adjusted_sign_flip=flips[task, name],
                grade=few_clusters.grade(
                    values,
                    adjusted_student_p=student[task, name],
                    adjusted_sign_flip_p=flips[task, name],
                ),
            )
            judged[task][name] = dataclasses.replace(judged[task][name], **{kind: graded})
    return {task: dataclasses.replace(one, policies=judged[task], family=size) for task, one in tasks.items()}


def _forecast(
    foreseen: Float[np.ndarray, "policies checkpoints"] | None,
    realised: Float[np.ndarray, "policies checkpoints"],
    names: Sequence[str],
) -> LedgerForecast:
    if foreseen is None:
        why = Undefined("the one-step ledger does not have every policy's forks")
        return LedgerForecast(
            policies=len(realised),
            rank_correlation=why,
            without_one_low=why,
            without_one_high=why,
            by_checkpoint={},
            ordered_alike=why,
        )
    few = Undefined("leaving a checkpoint out needs at least two of them")
    without = [
        _spearman(np.delete(foreseen, index, axis=1).mean(axis=1), np.delete(realised, index, axis=1).mean(axis=1))
        for index in range(len(names) if len(names) > 1 else 0)
    ]
    known = [value for value in without if not isinstance(value, Undefined)]
    return LedgerForecast(
        policies=len(realised),
        rank_correlation=_spearman(foreseen.mean(axis=1), realised.mean(axis=1)),
        without_one_low=min(known) if known else few,
        without_one_high=max(known) if known else few,
        by_checkpoint={name: _spearman(foreseen[:, i], realised[:, i]) for i, name in enumerate(names)},
        ordered_alike=_ordered_alike(foreseen.mean(axis=1), realised.mean(axis=1)),
    )


def _spearman(first: Float[np.ndarray, " policies"], second: Float[np.ndarray, " policies"]) -> Figure:
    if len(first) < 3:
        return Undefined("an order needs at least three policies")
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return Undefined("all policies are alike")
    return float(stats.spearmanr(first, second).statistic)


def _ordered_alike(first: Float[np.ndarray, " policies"], second: Float[np.ndarray, " policies"]) -> Figure:
    signs = [
        np.sign(first[i] - first[j]) * np.sign(second[i] - second[j])
        for i, j in itertools.combinations(range(len(first)), 2)
    ]
    told = [sign for sign in signs if sign]
    return float(np.mean([sign > 0 for sign in told])) if told else Undefined("no two policies differ in both")


def _mean(values: np.ndarray) -> Figure:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else Undefined("no cell has come so far")
