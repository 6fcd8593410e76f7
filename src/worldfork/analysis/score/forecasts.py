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
from jaxtyping import Float
from scipy import stats

from worldfork.analysis.read.deployments import Deployed
from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.read.triggers import imports_nothing_new
from worldfork.analysis.score.deployment_records import LedgerForecast, WithinUpdate
from worldfork.analysis.score.intervals import resamples
from worldfork.analysis.score.numerics import middle_95
from worldfork.analysis.score.thresholds import Unanswered, decisions_on
from worldfork.analysis.score.undefined import Bounds, Figure, Interval, Undefined
from worldfork.ledger.closed_loop import Thresholds, policy_of, recorded_signals
from worldfork.registration import Registration
from worldfork.triggers.policy import Policy

__all__ = ["Arms", "LedgerValue", "forecast", "ledger_values"]

Arms = Mapping[str, Mapping[str, Forks]]
Values = Float[np.ndarray, "policies checkpoints"]


@dataclasses.dataclass(frozen=True)
class LedgerValue:
    """The one-step ledger's value of a policy, cell by cell, and how often it fires there."""

    earned: Float[np.ndarray, " cells"]
    fires: Float[np.ndarray, " cells"]


def ledger_values(
    registration: Registration, deployed: Deployed, arms: Arms, thresholds: Thresholds
) -> dict[str, LedgerValue | Undefined]:
    """Return the ledger value of each policy on the frozen streams of the same cells, with its own thresholds."""
    values: dict[str, LedgerValue | Undefined] = {}
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
        earned, fires = np.full(len(deployed.cells), np.nan), np.full(len(deployed.cells), np.nan)
        for index, span in forks.prefork.spans():
            places = [place for place, key in enumerate(deployed.cells) if key == forks.prefork.cells[index]]
            earned[places] = np.where(fired[span], forks.delta[span], 0.0).mean()
            fires[places] = fired[span].sum()
        missing = Undefined("a deployment's cell has no forks")
        values[name] = missing if np.isnan(earned).any() else LedgerValue(earned, fires)
    return values


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
        rank_correlation=_spearman(foreseen.mean(axis=1), realised.mean(axis=1)),
        bootstrap=_interval(foreseen, realised, seed=seed, task=task),
        without_one_low=min(defined) if defined else few,
        without_one_high=max(defined) if defined else few,
        by_checkpoint={name: _spearman(foreseen[:, i], realised[:, i]) for i, name in enumerate(names)},
        ordered_alike=_ordered_alike(foreseen.mean(axis=1), realised.mean(axis=1)),
        within={
            arm: WithinUpdate(
                policies=len(places),
                rank_correlation=_spearman(foreseen[places].mean(axis=1), realised[places].mean(axis=1)),
                bootstrap=_interval(foreseen[places], realised[places], seed=seed, task=task),
            )
            for arm, places in ((arm, list(places)) for arm, places in updates.items())
            if len(updates) > 1
        },
    )


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
