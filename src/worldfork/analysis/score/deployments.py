"""Policies in closed-loop deployment: what they returned, and which deployments diverged.

A deployment diverged that lies so far below never that a mean over checkpoints would rest on it alone: an update
that persists can leave a model whose controller does not hold the system. Every figure of a policy is on all
attempted deployments all the same, but for `retained`, which is on the others.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from jaxtyping import Bool, Float

from worldfork.analysis.read.outcomes import Arms
from worldfork.analysis.read.study import Deployed, read_deployments
from worldfork.analysis.score import intervals
from worldfork.analysis.score.clusters import group_means, natural
from worldfork.analysis.score.deployment_records import (
    Advantage,
    AtPoint,
    Forecasts,
    InDirection,
    PolicyOutcome,
    RetainedAdvantage,
    TaskDeployment,
    TrialCounts,
    cautions,
    sentences,
)
from worldfork.analysis.score.effects import estimate_of
from worldfork.analysis.score.forecasts import Foreseen, LedgerValue, compare_forecasts, forecast, ledger_values
from worldfork.analysis.score.intervals import MeanByCheckpoint
from worldfork.analysis.score.rules import Rules
from worldfork.analysis.score.sign_flips import max_t
from worldfork.analysis.score.undefined import Figure, Undefined, finite
from worldfork.analysis.score.verdicts import grade_of, grade_together
from worldfork.fixed_policies import FIXED_POLICIES
from worldfork.ledger.closed_loop import THRESHOLDS, Thresholds
from worldfork.ledger.documents import check, read_json
from worldfork.ledger.store import Study

# Times the largest return, without its sign, that any episode of never had. Returns that are bounded from below by
# 0 can not lose so much: the rule is for costs without a bound.
BEYOND: Final = 100.0

NOT_YET: Final = "no cell has come so far"


def diverged_deployments(deployed: Deployed, never: int) -> Bool[np.ndarray, "policies cells"]:
    """Return the deployments that diverged: with a return that is not finite, or an episode, their own or of an
    evaluation, that returned less than never's by more than `BEYOND` times the largest return of never."""
    columns = (deployed.returns, deployed.evaluations.reshape(*deployed.returns.shape[:2], -1))
    everything = np.concatenate(columns, axis=2)
    largest = float(np.nanmax(np.abs(everything[never]), initial=0.0))
    lost = deployed.failed.copy()
    if largest > 0:
        lost |= (everything[never] - everything > BEYOND * largest).any(axis=2)
    lost[never] = deployed.failed[never]
    return lost


NEVER, ALWAYS = FIXED_POLICIES
# Of a `LedgerValue`, what is taken off what was realised.
LEDGER_COLUMNS: Final = {"parted": "earned", "parted_one_step": "one_step", "parted_carried": "carried"}
KINDS: Final = ("advantage", "evaluation", "over_always", *LEDGER_COLUMNS)  # of differences, each a family of tests
ITSELF = Undefined("it is what the others are compared with")
Cells = Float[np.ndarray, " cells"]


def score_deployments(study: Study, arms: Arms, rules: Rules | None = None) -> dict[str, TaskDeployment]:
    """Return every task whose policies were followed; `arms` are the forks of the same study."""
    rules = Rules.registered(study.registration) if rules is None else rules
    registered = study.registration.deployment
    if registered is None:
        return {}
    path = study.path / THRESHOLDS
    thresholds = check(read_json(path), Thresholds, where=f"`{path}`") if path.exists() else Thresholds()
    fitted = any(policy.threshold == "fitted" for policy in registered.policies.values())
    constant = [
        name for name, policy in registered.every().items() if policy.trigger == ALWAYS and not policy.trial
    ]
    tasks = {
        task: _Task(deployed, ledger_values(study.registration, deployed, arms, thresholds), rules, constant)
        for task, deployed in read_deployments(study).items()
        if len(deployed.cells) and not np.isnan(deployed.returns[:, :, 0]).any()
    }
    graded = {kind: _advantages(tasks, kind, rules) for kind in KINDS}
    family = sum(not isinstance(entry, Undefined) for entry in graded["advantage"].values())
    return {
        task: finite(
            entry.scored(
                {name: {kind: graded[kind][task, name] for kind in KINDS} for name in entry.deployed.policies},
                fitted_here=fitted and registered.ledger is None,
                family=family,
            )
        )
        for task, entry in tasks.items()
    }


def _advantages(
    tasks: Mapping[str, "_Task"], kind: str, rules: Rules
) -> dict[tuple[str, str], Advantage | Undefined]:
    """Return one kind of difference of every policy, graded over all policies of all tasks."""
    means: dict[tuple[str, str], MeanByCheckpoint] = {}
    found: dict[tuple[str, str], Advantage | Undefined] = {}
    for task, entry in tasks.items():
        for index, name in enumerate(entry.deployed.policies):
            cells = entry.difference(kind, index)
            if isinstance(cells, Undefined):
                found[task, name] = cells
            else:
                means[task, name] = finite(entry.estimated(cells))
    measured = dict.fromkeys(task for task, _ in means)
    together: dict[tuple[str, str], float] = {}  # p adjusted over the policies of a task, and over tasks
    for task in measured:
        differences = {key: mean.means for key, mean in means.items() if key[0] == task}
        for key, p in max_t(differences, seed=rules.seed, task=task).items():
            together[key] = min(1.0, len(measured) * p)
    for key, graded in grade_together(means, means).items():
        values = means[key].means
        by_max_t = grade_of(values, adjusted_student_p=together[key], adjusted_sign_flip_p=together[key])
        found[key] = Advantage(
            **vars(means[key]),
            won=int((values > 0).sum()),
            grade=by_max_t if rules.correction == "max_t" else graded.grade,
            grade_holm=graded.grade,
            grade_max_t=by_max_t,
            adjusted_max_t=together[key],
            adjusted_student_t=graded.adjusted_student_t,
            adjusted_sign_flip=graded.adjusted_sign_flip,
            leave_one_out=intervals.leave_one_out(values, list(means[key].by_checkpoint)),
        )
    return found


class _Task:
    """A task: its policies on the same cells, and the checkpoints that these belong to."""

    def __init__(
        self,
        deployed: Deployed,
        values: Mapping[str, LedgerValue | Undefined],
        rules: Rules,
        constant: Sequence[str],
    ) -> None:
        self.deployed, self.values, self.seed = deployed, values, rules.seed
        self.checkpoints = sorted({cell.checkpoint for cell in deployed.cells}, key=natural)
        self.owner = np.array([self.checkpoints.index(cell.checkpoint) for cell in deployed.cells])
        self.never = deployed.policies.index(NEVER)
        # By update, the policy that fires it always: what a trigger that fires the same one has to beat.
        begun = [name for name in constant if name in deployed.policies]
        self.always = {deployed.arms[name]: deployed.policies.index(name) for name in reversed(begun)}
        with np.errstate(invalid="ignore"):
            updates = deployed.fired.sum(axis=2) / np.maximum(1, (~np.isnan(deployed.returns)).sum(axis=2))
            self.returned = np.nanmean(deployed.returns, axis=2) - rules.update_cost * updates
            self.evaluated = deployed.evaluations.mean(axis=3)
        self.means = np.stack([self.over_checkpoints(cells) for cells in self.returned])
        self.best = int(self.means.mean(axis=1).argmax())
        self.diverged = diverged_deployments(deployed, self.never)

    def scored(
        self, graded: Mapping[str, Mapping[str, Advantage | Undefined]], *, fitted_here: bool, family: int
    ) -> TaskDeployment:
        """Return the record of the task; `graded` are the differences of each policy, by kind."""
        deployed = self.deployed
        policies = {name: self.outcome(index, graded[name]) for index, name in enumerate(deployed.policies)}
        few = cautions(len(self.checkpoints), fitted_here=fitted_here)
        return TaskDeployment(
            policies=policies,
            best=deployed.policies[self.best],
            forecast=forecast(
                self.by_ledger("earned"),
                self.means - self.means[self.never],
                self.checkpoints,
                updates=self.updates(),
                seed=self.seed,
                task=deployed.task,
            ),
            cautions=(*sentences(policies, len(deployed.cells)), *few),
            checkpoints=len(self.checkpoints),
            cells=len(deployed.cells),
            episodes=deployed.returns.shape[2],
            points=deployed.points,
            evaluation_episodes=deployed.evaluations.shape[3],
            family=family,
            forecasts=self.forecasts(graded),
        )

    def forecasts(self, graded: Mapping[str, Mapping[str, Advantage | Undefined]]) -> Forecasts | Undefined:
        """Return how well forecasts from one-step labels order policies, and how far they are off."""
        columns = {}
        for name in ("one_step", "carried", "fires", "mean"):
            column = self.by_ledger(name)
            if isinstance(column, Undefined):
                return column
            columns[name] = column
        missed = dict.fromkeys(("one_step", "carried"), 0)
        for kind in missed:
            parted = [of_policy[f"parted_{kind}"] for of_policy in graded.values()]
            missed[kind] = sum(isinstance(each, Advantage) and each.grade_holm == "resolved" for each in parted)
        return compare_forecasts(
            Foreseen(
                one_step=columns["one_step"],
                carried=columns["carried"],
                count=columns["fires"].mean(axis=1, keepdims=True) * columns["mean"],
                realised=self.means - self.means[self.never],
            ),
            missed=missed,
            updates=self.updates(),
            seed=self.seed,
            task=self.deployed.task,
        )

    def of_ledger(self, name: str, column: str) -> Float[np.ndarray, " checkpoints"] | Undefined:
        """Return what the ledger says of a policy, by checkpoint."""
        value = self.values[name]
        return value if isinstance(value, Undefined) else self.over_checkpoints(getattr(value, column))

    def by_ledger(self, column: str) -> Float[np.ndarray, "policies checkpoints"] | Undefined:
        """Return what the ledger says of every policy by checkpoint; the reason where it says nothing of one."""
        found = []
        for name in self.deployed.policies:
            value = self.of_ledger(name, column)
            if isinstance(value, Undefined):
                return Undefined(f"what the one-step ledger says of `{name}` is not known: {value.why}")
            found.append(value)
        return np.stack(found)

    def outcome(self, index: int, graded: Mapping[str, Advantage | Undefined]) -> PolicyOutcome:
        """Return one policy beside never."""
        deployed, name = self.deployed, self.deployed.policies[index]
        value = self.values[name]
        by_episode = deployed.returns[index] - deployed.returns[self.never]
        trials = (float(of[index].sum(axis=1).mean()) for of in (deployed.decided, deployed.kept))
        return PolicyOutcome(
            **graded,
            returned=float(self.means[index].mean()),
            evaluation_at=self.evaluation_at(index),
            always=self.always_beside(index),
            diverged=self.names_of(self.diverged[index]),
            retained=ITSELF if index == self.never else self.retained(index),
            by_episode=tuple(_mean(self.over_checkpoints(episode)) for episode in by_episode.T),
            fired_at=tuple(
                _mean(fired[~np.isnan(returned)].astype(np.float64))
                for fired, returned in zip(deployed.fired[index].T, deployed.returns[index].T, strict=True)
            ),
            updates=float(deployed.fired[index].sum(axis=1).mean()),
            gradient_steps=float(deployed.steps[index].sum(axis=1).mean()),
            regret=float(self.means[self.best].mean() - self.means[index].mean()),
            regret_by_checkpoint=float((self.means.max(axis=0) - self.means[index]).mean()),
            ledger_value=_mean(self.of_ledger(name, "earned")),
            ledger_updates=value if isinstance(value, Undefined) else float(value.fires.mean()),
            by_direction={} if index == self.never else self.by_direction(index, value),
            one_step=_mean(self.of_ledger(name, "one_step")),
            carried=_mean(self.of_ledger(name, "carried")),
            trials=TrialCounts(*trials) if name in deployed.tried else None,
        )

    def names_of(self, there: Bool[np.ndarray, " cells"]) -> tuple[str, ...]:
        """Return these deployments in words."""
        several = len(set(self.deployed.draws)) > 1
        return tuple(
            f"checkpoint {cell.checkpoint}, {cell.direction}, stream {cell.stream_seed}"
            + (f", update seed {draw}" if several else "")
            for cell, draw, named in zip(self.deployed.cells, self.deployed.draws, there, strict=True)
            if named
        )

    def difference(self, kind: str, index: int) -> Cells | Undefined:
        """Return one kind of paired difference of a policy, by cell; the reason where there is none."""
        gained, value = self.gained(index), self.values[self.deployed.policies[index]]
        if kind == "over_always":
            return self.over_always(index)
        if kind.startswith("parted") and isinstance(value, Undefined):
            return value
        if index == self.never:
            return ITSELF
        if not isinstance(value, Undefined) and kind in LEDGER_COLUMNS:
            return np.asarray(gained - getattr(value, LEDGER_COLUMNS[kind]))
        return self.evaluation(index) if kind == "evaluation" else gained

    def gained(self, index: int) -> Cells:
        """Return the mean return of an episode over never, by cell."""
        return np.asarray(self.returned[index] - self.returned[self.never])

    def estimated(self, cells: Cells) -> MeanByCheckpoint:
        means = dict(zip(self.checkpoints, self.over_checkpoints(cells).tolist(), strict=True))
        return estimate_of(means, seed=self.seed, task=self.deployed.task)

    def always_beside(self, index: int) -> str | None:
        """Return the policy that always fires the update of this one, unless it is that one or never."""
        always = self.always.get(self.deployed.arms[self.deployed.policies[index]])
        return None if always is None or index in (always, self.never) else self.deployed.policies[always]

    def over_always(self, index: int) -> Cells | Undefined:
        """Return the difference that the trigger makes to its update, by cell."""
        beside, arm = self.always_beside(index), self.deployed.arms[self.deployed.policies[index]]
        if beside is not None:
            return np.asarray(self.returned[index] - self.returned[self.deployed.policies.index(beside)])
        if index == self.never:
            return Undefined("it fires no update")
        if arm in self.always:
            return Undefined("it is what the other policies with its update are compared with")
        return Undefined(f'no policy fires the update of `{arm}` always: register one with trigger = "always"')

    def by_direction(self, index: int, value: LedgerValue | Undefined) -> dict[str, InDirection]:
        """Return the same for the cells of each direction of drift by themselves."""
        gained = self.gained(index)
        ways, found = np.array([cell.direction for cell in self.deployed.cells]), {}
        for way in sorted(set(ways.tolist())):
            inside = ways == way
            over_never = self.of_cells(gained, inside)
            of_ledger = value if isinstance(value, Undefined) else self.of_cells(value.earned, inside)
            parted = of_ledger if isinstance(of_ledger, Undefined) else over_never - of_ledger
            found[way] = InDirection(
                updates=float(self.deployed.fired[index][inside].sum(axis=1).mean()),
                mean=float(over_never.mean()),
                student_t=intervals.student_t(over_never),
                ledger_value=_mean(of_ledger),
                parted=_mean(parted),
                parted_student_t=parted if isinstance(parted, Undefined) else intervals.student_t(parted),
            )
        return found

    def of_cells(self, cells: Cells, inside: Bool[np.ndarray, " cells"]) -> Float[np.ndarray, " checkpoints"]:
        """Return the means of the checkpoints that these cells belong to."""
        means = group_means(cells[inside], self.owner[inside], len(self.checkpoints))
        return means[~np.isnan(means)]

    def evaluation(self, index: int) -> Cells | Undefined:
        """Return the mean of the matched evaluations of all registered points over never's, by cell."""
        if not self.deployed.points:
            return Undefined("no model was evaluated")
        at_points = self.at_points(index)
        if np.isnan(at_points).any():
            return Undefined("not all evaluations are there yet")
        return np.asarray(at_points.mean(axis=1))

    def retained(self, index: int) -> RetainedAdvantage:
        """Return the advantage of the deployments that did not diverge, where never's own did not either."""
        kept = ~(self.diverged[index] | self.diverged[self.never])
        none_left = "no deployment is left that did not diverge"
        gained, after = self.of_cells(self.gained(index), kept), self.evaluation(index)
        realised = int(kept.sum()), _mean(gained, none_left), intervals.student_t(gained)
        if isinstance(after, Undefined):
            why = Undefined("no model was evaluated, or not all evaluations are there yet")
            return RetainedAdvantage(*realised, why, why)
        after = self.of_cells(after, kept)
        return RetainedAdvantage(*realised, _mean(after, none_left), intervals.student_t(after))

    def evaluation_at(self, index: int) -> tuple[AtPoint, ...]:
        """Return the matched evaluations point by point, as far as they are there."""
        found = []
        for k, cells in zip(self.deployed.points, self.at_points(index).T, strict=True):
            means = self.over_checkpoints(cells)
            if not np.isnan(means).any():
                found.append(AtPoint(k=k, mean=float(means.mean()), student_t=intervals.student_t(means)))
        return tuple(found)

    def at_points(self, index: int) -> Float[np.ndarray, "cells points"]:
        return np.asarray(self.evaluated[index] - self.evaluated[self.never])

    def updates(self) -> dict[str, list[int]]:
        """Return, by update, the policies that fired it, here or on the frozen streams."""
        found: dict[str, list[int]] = {}
        for index, name in enumerate(self.deployed.policies):
            value = self.values[name]
            on_frozen = not isinstance(value, Undefined) and value.fires.any()
            if self.deployed.fired[index].any() or on_frozen:
                found.setdefault(self.deployed.arms[name], []).append(index)
        return found

    def over_checkpoints(self, cells: Cells) -> Float[np.ndarray, " checkpoints"]:
        return group_means(cells, self.owner, len(self.checkpoints))


def _mean(values: np.ndarray | Undefined, why: str = NOT_YET) -> Figure:
    """Return the mean of the values that are there."""
    if isinstance(values, Undefined):
        return values
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else Undefined(why)
