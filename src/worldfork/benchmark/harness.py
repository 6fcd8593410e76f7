"""The harness: it feeds entries, fits them on other models, and scores what they earn per deployment.

Whatever needs labels or thresholds is fitted on the models of other folds. An entry's gain is its return less that
of the best of four baselines, the best in hindsight. Its interval is the jackknife's, with Student-t: one model at
a time is left out, everything is fitted anew and the best baseline chosen anew. Thresholds and the choice of a
baseline jump, which the jackknife is not made for: with few models it is a rough interval.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from worldfork import registry
from worldfork.analysis.score.clusters import strata
from worldfork.analysis.score.decisions import fit_threshold
from worldfork.analysis.score.intervals import jackknife
from worldfork.analysis.score.policies import position_table
from worldfork.benchmark.tasks import Deployment, Task
from worldfork.built_in import BUILT_IN
from worldfork.errors import WorldforkError
from worldfork.triggers import Answer, CellKey, Trigger, draw_event, feed
from worldfork.triggers.feeding import naming
from worldfork.triggers.references import DriftOracle

PRICES: Final = (0.0, 10.0, 30.0, 100.0)
BASELINES: Final[tuple[str, ...]] = ("never", "always", "position", "one-trial")
ANONYMOUS: Final = CellKey("0", "unknown", 0)  # a deployment knows neither its direction nor its number

Models = Bool[np.ndarray, "models"]  # those that are there: all, or all but one


Numbers = Float[np.ndarray, "forks"]


class Decided(NamedTuple):
    """Decisions at every fork, and dR of what they keep; of a model that is not there, anything."""

    updates: Bool[np.ndarray, "forks"]  # which are paid for
    worth: Float[np.ndarray, "forks"]


Policy = Callable[[float, Models], Decided]  # of a price and the models that are there


@dataclasses.dataclass(frozen=True)
class Entry:
    """A trigger under the name that it has in tables."""

    name: str
    trigger: Trigger


@dataclasses.dataclass(frozen=True)
class Gain:
    """Return of one policy per deployment, on one task at one price."""

    task: str
    entry: str
    price: float
    earned: float
    best_baseline: str
    gain: float  # over the best baseline
    low: float  # 95% interval of the gain; NaN with fewer than three models
    high: float
    headroom: float  # gain as a share of the oracle's; NaN where there is none
    updates: float  # per deployment
    models: int
    left_out: str = ""  # why there is no figure


def policies(task: Task) -> dict[str, Policy]:
    """Return the policies that need no trigger: the baselines, and the oracle, which reads the outcome."""
    stratum = strata(task.direction, task.k)
    fold_of = task.fold[task.model]

    def position(price: float, models: Models) -> Decided:
        there = models[task.model]
        updates = np.zeros(len(task.delta), bool)
        updates[there] = position_table(task.delta[there] - price, stratum[there], fold_of[there])
        return Decided(updates, updates * task.delta)

    every, trial = np.ones(len(task.delta), bool), _one_trial(task)
    return {
        "never": lambda price, models: Decided(~every, 0.0 * task.delta),
        "always": lambda price, models: Decided(every, task.delta),
        "position": position,
        **({} if trial is None else {"one-trial": lambda price, models: Decided(every, trial)}),
        "oracle": lambda price, models: Decided(task.delta > price, np.where(task.delta > price, task.delta, 0.0)),
    }


def _one_trial(task: Task) -> Float[np.ndarray, "forks"] | None:
    """Return what it is worth to try every update on one episode and keep it where it helped there.

    The value is that of the other episodes, averaged over the choice of the one. The update is paid for either way.
    """
    each = task.episodes
    if each is None or each.shape[1] < 2:
        return None
    others = (each.sum(axis=1, keepdims=True) - each) / (each.shape[1] - 1)
    return ((each > 0) * others).mean(axis=1)


def entry_policy(task: Task, entry: Entry) -> Policy:
    """Return the policy of a trigger: fed step by step, fitted on the models of other folds, never on its own.

    Raises:
        WorldforkError: if the task does not log what the trigger needs, or it says nothing.
    """
    asked = Answers(task, entry)

    def policy(price: float, models: Models) -> Decided:
        updates = np.zeros(len(task.delta), bool)
        for fold in np.unique(task.fold[models]):
            inside = models & (task.fold == fold)
            others = models & (task.fold != fold)
            here, there = inside[task.model], others[task.model]
            updates[here] = asked.fired(here, there, others, price)
        return Decided(updates, updates * task.delta)

    return policy


class Answers:
    """The answers of an entry at every fork, remembered for each set of models that it was fitted on."""

    def __init__(self, task: Task, entry: Entry) -> None:
        self.task, self.entry = task, entry
        stored = task.alarms.get(entry.name) if not task.columns and _is_default(entry) else None
        missing = [name for name in entry.trigger.needs if name not in task.columns]
        if missing and stored is None:
            raise WorldforkError(
                f"it needs `{missing[0]}` at every step, and the data set has no streams of this task"
            )
        self.learns = type(entry.trigger).fit is not Trigger.fit
        self.fitted: dict[bytes, Numbers] = {}
        self.alarms = stored is not None
        if stored is not None:
            self.fitted[b""] = stored.astype(np.float64)

    def fired(
        self, here: Bool[np.ndarray, "forks"], there: Bool[np.ndarray, "forks"], others: Models, price: float
    ) -> Bool[np.ndarray, "here"]:
        """Return the decisions at the forks `here`, where forks `there` and models `others` may be learnt from."""
        answers = self.on(others)
        if self.alarms:
            return answers[here] > 0
        if self.entry.trigger.predicts:
            return answers[here] > price
        return answers[here] >= fit_threshold(answers[there], self.task.delta[there] - price)

    def on(self, others: Models) -> Float[np.ndarray, "forks"]:
        """Return the answers of the trigger fitted on these models, on all deployments of every other one."""
        key = others.tobytes() if self.learns else b""
        if key not in self.fitted:
            self.fitted[key] = self._fed(others)
        return self.fitted[key]

    def _fed(self, others: Models) -> Float[np.ndarray, "forks"]:
        task, trigger = self.task, self.entry.trigger
        with naming(trigger):
            if self.learns:
                pairs = zip(task.deployments, task.labelled, strict=True)
                trigger = trigger.fit([labelled for each, labelled in pairs if others[each.model]])
        answers = np.full(len(task.delta), np.nan)
        spoken: list[Answer] = []
        for each in task.deployments:
            if self.learns and trigger.predicts and others[each.model]:
                continue  # nobody asks: it was fitted on these
            given = ask(trigger, self.entry.name, each, task)
            spoken += [answer for answer in given if answer is not None]
            answers[each.rows] = [math.nan if answer is None else float(answer) for answer in given]
        if not spoken:
            raise WorldforkError(trigger.silent)
        self.alarms = isinstance(spoken[0], bool | np.bool_)
        return answers


def _is_default(entry: Entry) -> bool:
    """Return True for a trigger that comes with worldfork, as it was asked when its answers were stored."""
    if entry.name not in BUILT_IN["triggers"]:
        return False
    return entry.trigger == registry.build("triggers", entry.name, Trigger)


def ask(trigger: Trigger, name: str, deployment: Deployment, task: Task) -> Sequence[Answer]:
    """Return the answers of a trigger that is shown one segment of a deployment after the other."""
    event = draw_event(name, task=task.world, cell=deployment.cell, seed=0)
    segments = deployment.segments
    if isinstance(trigger, DriftOracle):  # a reference: nobody else is shown the drift
        levels = task.level[deployment.rows].tolist()
        segments = tuple(
            dataclasses.replace(each, level=level) for each, level in zip(segments, levels, strict=True)
        )
    with naming(trigger):
        return feed(trigger, segments, cell=ANONYMOUS, event=event)


def score_entry(
    task: Task, entry: Entry | str, *, prices: Sequence[float] = PRICES, intervals: bool = True
) -> list[Gain]:
    """Return what an entry, or a baseline by its name, earns at each price.

    Args:
        task: as `read_task` returns it.
        entry: a trigger under a name, or "never", "always", "position", "one-trial", "oracle".
        prices: of one update, in units of return.
        intervals: leave them out where they are not read; they take as many fits as there are models.
    """
    fixed = policies(task)
    if isinstance(entry, str) and entry not in fixed:
        raise WorldforkError(f"There is no `{entry}` on {task.name}: it has {', '.join(fixed)}.")
    policy = fixed[entry] if isinstance(entry, str) else entry_policy(task, entry)
    name = entry if isinstance(entry, str) else entry.name
    return gains_of(task, name, policy, prices, intervals=intervals)


def gains_of(
    task: Task, name: str, policy: Policy, prices: Sequence[float], *, intervals: bool = True
) -> list[Gain]:
    """Return what any policy earns at each price, beside the baselines of the task."""
    fixed, everyone = policies(task), task.all_models
    baselines = {name: fixed[name] for name in BASELINES if name in fixed}
    gains = []
    for price in map(float, prices):
        value = _value(task, policy, price, everyone)
        earned = {other: _value(task, baseline, price, everyone) for other, baseline in baselines.items()}
        best = max(earned, key=lambda other: earned[other])
        gain, headroom = value - earned[best], _value(task, fixed["oracle"], price, everyone) - earned[best]
        interval = math.nan, math.nan
        if intervals:
            interval = interval_of_lead(task, policy, list(baselines.values()), price)
        gains.append(
            Gain(
                task=task.name,
                entry=name,
                price=price,
                earned=value,
                best_baseline=best,
                gain=gain,
                low=interval[0],
                high=interval[1],
                headroom=gain / headroom if headroom > 1e-9 * abs(value) else math.nan,
                updates=float(policy(price, everyone).updates.sum() / len(task.deployments)),
                models=len(task.models),
            )
        )
    return gains


def interval_of_lead(task: Task, policy: Policy, others: Sequence[Policy], price: float) -> tuple[float, float]:
    """Return the 95% interval of what a policy earns over the best of others: jackknife over models, Student-t.

    It is NaN with fewer than three models.
    """
    count = len(task.models)
    if count < 3:
        return math.nan, math.nan

    def lead(models: Models) -> float:
        return _value(task, policy, price, models) - max(_value(task, other, price, models) for other in others)

    left_out = np.array([lead(np.arange(count) != index) for index in range(count)])
    return jackknife(lead(task.all_models), left_out - left_out.mean())


def _value(task: Task, policy: Policy, price: float, models: Models) -> float:
    """Return the mean over models of what a deployment earns."""
    decided = policy(price, models)
    totals = np.bincount(task.model, weights=decided.worth - price * decided.updates, minlength=len(task.models))
    owners = np.array([each.model for each in task.deployments])
    count = np.bincount(owners, minlength=len(task.models))
    return float((totals / count)[models].mean())
