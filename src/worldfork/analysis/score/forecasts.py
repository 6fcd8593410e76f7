"""The one-step ledger's value of a policy beside what following the policy came to.

A policy's ledger value is the mean over decision points of dR where it fires on the frozen stream, and 0 where it
does not: what it would earn if updates neither lasted nor built on one another. The last decision counts, though no
episode of the deployment follows it. A rank correlation of both is no proof that labels of single forks know
anything: `benchmarks/forecasts.py` sets a count of fires beside it.
"""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import stats

from worldfork.analysis.read.deployments import Deployed
from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.read.triggers import imports_nothing_new
from worldfork.analysis.score.deployment_records import (
    Forecasts,
    LedgerForecast,
    Order,
    PartialOrder,
    SizedForecast,
    WithinUpdate,
)
from worldfork.analysis.score.intervals import resamples
from worldfork.analysis.score.numerics import middle_95
from worldfork.analysis.score.thresholds import Unanswered, decisions_on
from worldfork.analysis.score.undefined import Bounds, Figure, Interval, Undefined
from worldfork.ledger.closed_loop import Thresholds, policy_of, recorded_signals
from worldfork.registration import Registration
from worldfork.triggers.policy import Policy

Arms = Mapping[str, Mapping[str, Forks]]
Values = Float[np.ndarray, "policies checkpoints"]


@dataclasses.dataclass(frozen=True)
class LedgerValue:
    """The one-step ledger's value of a policy, cell by cell, and how often it fires there."""

    earned: Float[
        np.ndarray, " cells"
    ]  # mean over all decision points of dR where it fires, and 0 where it does not
    fires: Float[np.ndarray, " cells"]
    one_step: Float[np.ndarray, " cells"]  # the same over the decisions that an episode follows
    carried: Float[np.ndarray, " cells"]  # from the first fire on, dR of the present decision
    mean: Float[np.ndarray, " cells"]  # dR, wherever it fires


def ledger_values(
    registration: Registration, deployed: Deployed, arms: Arms, thresholds: Thresholds
) -> dict[str, LedgerValue | Undefined]:
    """Return the ledger value of each policy on the frozen streams of the same cells, with its own thresholds."""
    values: dict[str, LedgerValue | Undefined] = {}
    episodes = deployed.returns.shape[2]
    for name in deployed.policies:
        forks = arms.get(deployed.arms[name], {}).get(deployed.task)
        if forks is None:
            values[name] = Undefined(f"the ledger has no forks of arm `{deployed.arms[name]}` on {deployed.task}")
            continue

        def policy_at(checkpoint: str, name: str = name) -> Policy:
            return policy_of(registration, name, threshold=thresholds.of(name, deployed.task, checkpoint))

        assert registration.deployment is not None
        trigger = registration.deployment.every()[name].trigger
        if trigger not in recorded_signals(registration) and not imports_nothing_new(trigger):
            values[name] = Undefined(
                f"its trigger `{trigger}` does not come with worldfork, and code that a study names is not "
                f"imported to read it: name it yourself, with --triggers {trigger}"
            )
            continue
        try:
            _, fired = decisions_on(forks.prefork, policy_at, seed=registration.seed)
        except Unanswered as error:
            values[name] = Undefined(f"its trigger `{trigger}` {error.why}")
            continue
        columns = np.full((5, len(deployed.cells)), np.nan)
        for index, span in forks.prefork.spans():
            places = [place for place, key in enumerate(deployed.cells) if key == forks.prefork.cells[index]]
            columns[:, places] = _values_of_cell(forks.delta[span], fired[span], forks.prefork.k[span], episodes)[
                :, None
            ]
        missing = Undefined("a deployment's cell has no forks")
        values[name] = missing if np.isnan(columns).any() else LedgerValue(*columns)
    return values


def _values_of_cell(
    delta: Float[np.ndarray, " forks"],
    fired: Bool[np.ndarray, " forks"],
    k: Int[np.ndarray, " forks"],
    episodes: int,
) -> Float[np.ndarray, "5"]:
    """Return the columns of a `LedgerValue` in one cell. Episode e follows decisions 1 to e - 1."""
    followed = k < episodes
    earned, carried = np.where(fired, delta, 0.0), np.where(np.cumsum(fired) > 0, delta, 0.0)
    per_episode = [values[followed].sum() / episodes for values in (earned, carried)]
    return np.array([earned.mean(), fired.sum(), *per_episode, delta.mean()])


def forecast(
    foreseen: Values | Undefined,
    realised: Values,
    names: Sequence[str],
    *,
    updates: Mapping[str, Sequence[int]],
    seed: int,
    task: str,
) -> LedgerForecast:
    """Return Spearman's correlation over policies of ledger value and realised advantage, and how far checkpoints
    (`names`) move it: resampled with their policies together, left out one by one, and each by itself. `updates`
    are the policies that fire each update."""
    if isinstance(foreseen, Undefined):
        why = foreseen
        return LedgerForecast(
            policies=len(realised),
            rank_correlation=why,
            bootstrap=why,
            without_one_low=why,
            without_one_high=why,
            by_checkpoint={},
            ordered_alike=why,
            within={},
        )
    few = Undefined("leaving a checkpoint out needs at least two of them")
    without = [
        _spearman(np.delete(foreseen, index, axis=1).mean(axis=1), np.delete(realised, index, axis=1).mean(axis=1))
        for index in range(len(names) if len(names) > 1 else 0)
    ]
    defined = [value for value in without if not isinstance(value, Undefined)]
    return LedgerForecast(
        policies=len(realised),
        **vars(_order(foreseen, realised, updates, seed=seed, task=task)),
        without_one_low=min(defined) if defined else few,
        without_one_high=max(defined) if defined else few,
        by_checkpoint={name: _spearman(foreseen[:, i], realised[:, i]) for i, name in enumerate(names)},
        ordered_alike=_ordered_alike(foreseen.mean(axis=1), realised.mean(axis=1)),
    )


def _order(
    foreseen: Values, realised: Values, updates: Mapping[str, Sequence[int]], *, seed: int, task: str
) -> Order:
    """Return how a forecast orders policies, and those of each update where there are several."""
    several = {arm: list(places) for arm, places in updates.items() if len(updates) > 1}
    return Order(
        rank_correlation=_spearman(foreseen.mean(axis=1), realised.mean(axis=1)),
        bootstrap=_interval(foreseen, realised, seed=seed, task=task),
        within={
            arm: WithinUpdate(
                policies=len(places),
                rank_correlation=_spearman(foreseen[places].mean(axis=1), realised[places].mean(axis=1)),
                bootstrap=_interval(foreseen[places], realised[places], seed=seed, task=task),
            )
            for arm, places in several.items()
        },
    )


@dataclasses.dataclass(frozen=True)
class Foreseen:
    """Forecasts of every policy by checkpoint, never among them, and what was realised."""

    one_step: Values
    carried: Values
    count: Values  # how often a policy fires on the frozen stream, times the mean dR of its update
    realised: Values

    def rows(self, places: Sequence[int]) -> "Foreseen":
        """Return the same of some policies."""
        return Foreseen(*(getattr(self, field.name)[list(places)] for field in dataclasses.fields(self)))


def compare_forecasts(
    foreseen: Foreseen, *, missed: Mapping[str, int], updates: Mapping[str, Sequence[int]], seed: int, task: str
) -> Forecasts:
    """Return how well each forecast orders policies, how far it is off, and what labels know beyond a count.

    Args:
        foreseen: the forecasts, and what was realised.
        missed: by forecast, the policies of which what was realised is told apart from it.
        updates: the policies that fire each update.
        seed: of the resampled checkpoints.
        task: of the policies.
    """
    several = {arm: list(places) for arm, places in updates.items() if len(updates) > 1}

    def order(values: Values) -> Order:
        return _order(values, foreseen.realised, updates, seed=seed, task=task)

    def sized(name: str, values: Values) -> SizedForecast:
        error = (values - foreseen.realised).mean(axis=1)
        return SizedForecast(
            **vars(order(values)), error=float(np.sqrt(np.mean(error**2))), missed=missed.get(name, 0)
        )

    return Forecasts(
        one_step=sized("one_step", foreseen.one_step),
        carried=sized("carried", foreseen.carried),
        count=order(foreseen.count),
        partial=PartialOrder(
            value=_partial(foreseen),
            bootstrap=_partial_interval(foreseen, seed=seed, task=task),
            within={
                arm: WithinUpdate(
                    policies=len(places),
                    rank_correlation=_partial(foreseen.rows(places)),
                    bootstrap=_partial_interval(foreseen.rows(places), seed=seed, task=task),
                )
                for arm, places in several.items()
            },
        ),
    )


def _partial(foreseen: Foreseen) -> Figure:
    """Return the rank correlation of the one-step forecast with what was realised, given the count of fires."""
    policies = len(foreseen.realised)
    if policies < 4:
        return Undefined("an order given another one needs at least four policies")
    columns = [foreseen.one_step, foreseen.realised, foreseen.count]
    value = float(_partials(*(column.mean(axis=1)[:, None] for column in columns))[0])
    return Undefined("given the count of fires nothing is left to order") if np.isnan(value) else value


def _partial_interval(foreseen: Foreseen, *, seed: int, task: str) -> Bounds:
    policies, checkpoints = foreseen.realised.shape
    if isinstance(value := _partial(foreseen), Undefined):
        return value
    if policies < 4 or checkpoints < 3:
        return Undefined("an interval of an order given another one needs four policies and three checkpoints")
    columns = [foreseen.one_step, foreseen.realised, foreseen.count]
    found = [
        _partials(*(column[:, chosen].mean(axis=2) for column in columns))
        for chosen in resamples(checkpoints, seed, task)
    ]
    drawn = np.concatenate(found)
    drawn = drawn[~np.isnan(drawn)]
    return Interval(*middle_95(drawn).tolist()) if len(drawn) else Undefined("all policies are alike")


Drawn = Float[np.ndarray, "policies draws"]


def _partials(foreseen: Drawn, realised: Drawn, count: Drawn) -> Float[np.ndarray, " draws"]:
    """Return the partial rank correlation of each draw; NaN where the count leaves nothing to order."""
    ranks = [stats.rankdata(values, axis=0) for values in (foreseen, realised, count)]
    first, second, third = (values - values.mean(axis=0) for values in ranks)

    def correlation(left: Drawn, right: Drawn) -> Float[np.ndarray, " draws"]:
        spread = np.sqrt((left**2).sum(axis=0) * (right**2).sum(axis=0))
        return np.divide((left * right).sum(axis=0), spread, out=np.zeros(len(spread)), where=spread > 0)

    both, with_first, with_second = (
        correlation(first, second),
        correlation(first, third),
        correlation(second, third),
    )
    rest = np.maximum((1 - with_first**2) * (1 - with_second**2), 0.0)
    out = np.full(len(both), np.nan)
    return np.divide(both - with_first * with_second, np.sqrt(rest), out=out, where=rest > 1e-12)


def _interval(foreseen: Values, realised: Values, *, seed: int, task: str) -> Bounds:
    """Return the 95% percentile interval over resampled checkpoints.

    A resample in which all policies are alike has no order, and is left out.
    """
    policies, checkpoints = foreseen.shape
    if policies < 3 or checkpoints < 3:
        return Undefined(
            f"an interval of an order needs three policies and three checkpoints, and there are {policies} and "
            f"{checkpoints}"
        )
    found = []
    for chosen in resamples(checkpoints, seed, task):
        first, second = (stats.rankdata(values[:, chosen].mean(axis=2), axis=0) for values in (foreseen, realised))
        first, second = first - first.mean(axis=0), second - second.mean(axis=0)
        spread = np.sqrt((first**2).sum(axis=0) * (second**2).sum(axis=0))
        found.append((first * second).sum(axis=0)[spread > 0] / spread[spread > 0])
    defined = np.concatenate(found)
    if not len(defined):
        return Undefined("all policies are alike")
    return Interval(*middle_95(defined).tolist())


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
    decided = [sign for sign in signs if sign]
    return (
        float(np.mean([sign > 0 for sign in decided])) if decided else Undefined("no two policies differ in both")
    )
