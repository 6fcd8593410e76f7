"""The one-step ledger's value of a policy beside what following the policy came to.

A policy's ledger value is the mean over decision points of dR where it fires on the frozen stream, and 0 where it
does not: what it would earn if updates neither lasted nor built on one another. The last decision counts, though no
episode of the deployment follows it. A rank correlation of both is no proof that labels of single forks know
anything: `benchmarks/forecasts.py` sets a count of fires beside it.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import stats

from worldfork.analysis.read.outcomes import Arms
from worldfork.analysis.read.study import Deployed
from worldfork.analysis.read.triggers import imports_nothing_new
from worldfork.analysis.score.deployment_records import (
    Forecasts,
    LedgerForecast,
    Order,
    PartialOrder,
    SizedForecast,
    WithinUpdate,
)
from worldfork.analysis.score.intervals import middle_95, resamples
from worldfork.analysis.score.thresholds import Unanswered, decisions_on
from worldfork.analysis.score.undefined import Bounds, Figure, Interval, Undefined, undefined
from worldfork.ledger.closed_loop import Thresholds, policy_of, recorded_signals
from worldfork.registration import Registration
from worldfork.triggers.policy import Policy

Values = Float[np.ndarray, "policies checkpoints"]


@dataclasses.dataclass(frozen=True)
class LedgerValue:
    """The one-step ledger's value of a policy, cell by cell, and how often it fires there."""

    # The mean over all decision points of dR where it fires, and 0 where it does not.
    earned: Float[np.ndarray, " cells"]
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
            of_cell = _values_of_cell(forks.delta[span], fired[span], forks.prefork.k[span], episodes)
            columns[:, places] = of_cell[:, None]
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
        return undefined(LedgerForecast, foreseen, policies=len(realised), by_checkpoint={}, within={})
    few = Undefined("leaving a checkpoint out needs at least two of them")
    without = [
        _rank_correlation(np.delete(foreseen, index, axis=1), np.delete(realised, index, axis=1))
        for index in range(len(names) if len(names) > 1 else 0)
    ]
    defined = [value for value in without if not isinstance(value, Undefined)]
    return LedgerForecast(
        policies=len(realised),
        **vars(_order(foreseen, realised, updates=updates, seed=seed, task=task)),
        without_one_low=min(defined) if defined else few,
        without_one_high=max(defined) if defined else few,
        by_checkpoint={name: _rank_correlation(foreseen[:, [i]], realised[:, [i]]) for i, name in enumerate(names)},
        ordered_alike=_ordered_alike(foreseen.mean(axis=1), realised.mean(axis=1)),
    )


@dataclasses.dataclass(frozen=True)
class Foreseen:
    """Forecasts of every policy by checkpoint, never among them, and what was realised."""

    one_step: Values
    carried: Values
    count: Values  # how often a policy fires on the frozen stream, times the mean dR of its update
    realised: Values


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

    def order(values: Values, *given: Values) -> Order:
        return _order(values, foreseen.realised, *given, updates=updates, seed=seed, task=task)

    def sized(name: str, values: Values) -> SizedForecast:
        error = (values - foreseen.realised).mean(axis=1)
        return SizedForecast(
            **vars(order(values)), error=float(np.sqrt(np.mean(error**2))), missed=missed.get(name, 0)
        )

    partial = order(foreseen.one_step, foreseen.count)
    return Forecasts(
        one_step=sized("one_step", foreseen.one_step),
        carried=sized("carried", foreseen.carried),
        count=order(foreseen.count),
        partial=PartialOrder(value=partial.rank_correlation, bootstrap=partial.bootstrap, within=partial.within),
    )


def _order(*columns: Values, updates: Mapping[str, Sequence[int]], seed: int, task: str) -> Order:
    """Return how the first column orders the second, given the third where there is one; and the same among the
    policies of each update where there are several."""
    several = {arm: [column[list(places)] for column in columns] for arm, places in updates.items()}
    return Order(
        rank_correlation=_rank_correlation(*columns),
        bootstrap=_interval(*columns, seed=seed, task=task),
        within={
            arm: WithinUpdate(
                policies=len(inside[0]),
                rank_correlation=_rank_correlation(*inside),
                bootstrap=_interval(*inside, seed=seed, task=task),
            )
            for arm, inside in several.items()
            if len(updates) > 1
        },
    )


def _rank_correlation(*columns: Values) -> Figure:
    """Return Spearman's correlation over policies of the means of two columns, given a third where there is one."""
    given = len(columns) > 2
    if len(columns[0]) < 3 + given:
        few = "an order given another one needs at least four policies"
        return Undefined(few if given else "an order needs at least three policies")
    value = float(_rank_correlations(*(column.mean(axis=1)[:, None] for column in columns))[0])
    nothing = "given the count of fires nothing is left to order" if given else "all policies are alike"
    return Undefined(nothing) if np.isnan(value) else value


def _interval(*columns: Values, seed: int, task: str) -> Bounds:
    """Return the 95% percentile interval over resampled checkpoints.

    A resample in which all policies are alike has no order, and is left out.
    """
    policies, checkpoints = columns[0].shape
    if len(columns) > 2 and isinstance(value := _rank_correlation(*columns), Undefined):
        return value
    if policies < 3 or checkpoints < 3:
        return Undefined(
            f"an interval of an order needs three policies and three checkpoints, and there are {policies} and "
            f"{checkpoints}"
        )
    chosen = resamples(checkpoints, seed, task)
    drawn = _rank_correlations(*(column[:, chosen].mean(axis=2) for column in columns))
    drawn = drawn[~np.isnan(drawn)]
    return Interval(*middle_95(drawn).tolist()) if len(drawn) else Undefined("all policies are alike")


Drawn = Float[np.ndarray, "policies draws"]


def _rank_correlations(first: Drawn, second: Drawn, given: Drawn | None = None) -> Float[np.ndarray, " draws"]:
    """Return the rank correlation of each draw; NaN where there is nothing to order."""

    def ranked(values: Drawn) -> Drawn:
        ranks = stats.rankdata(values, axis=0)
        return np.asarray(ranks - ranks.mean(axis=0))

    def correlation(left: Drawn, right: Drawn, *, alike: float) -> Float[np.ndarray, " draws"]:
        spread = np.sqrt((left**2).sum(axis=0) * (right**2).sum(axis=0))
        return np.divide((left * right).sum(axis=0), spread, out=np.full(len(spread), alike), where=spread > 0)

    x, y = ranked(first), ranked(second)
    if given is None:
        return correlation(x, y, alike=np.nan)
    z = ranked(given)
    xy, xz, yz = (correlation(*pair, alike=0.0) for pair in ((x, y), (x, z), (y, z)))
    rest = np.maximum((1 - xz**2) * (1 - yz**2), 0.0)
    return np.divide(xy - xz * yz, np.sqrt(rest), out=np.full(len(xy), np.nan), where=rest > 1e-12)


def _ordered_alike(first: Float[np.ndarray, " policies"], second: Float[np.ndarray, " policies"]) -> Figure:
    """Return the share of pairs of policies, of those that differ in both, that both put in the same order."""
    i, j = np.triu_indices(len(first), 1)
    signs = np.sign(first[i] - first[j]) * np.sign(second[i] - second[j])
    return float((signs[signs != 0] > 0).mean()) if signs.any() else Undefined("no two policies differ in both")
