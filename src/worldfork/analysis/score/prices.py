"""The price of an update at which a verdict, or the better of two policies, changes.

A policy that fires n times at a price c is worth its total dR less c n. Two policies are worth the same at the
price at which the mean over checkpoints of their difference is 0; the interval holds every price at which the
paired t test does not tell them apart.

A price is the total of an update: what is registered is in it. Thresholds are those of the triggers' other figures,
fitted at the registered price, so that a policy is worth at that price what it earns in every table. They stay as
they are along the prices: fitted anew at each of them they would follow single forks, and which of ten triggers is
best would change dozens of times.
"""

import dataclasses
from collections.abc import Collection, Mapping

import numpy as np
from scipy import stats

from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.score.clusters import ClusterMeans, group_means, partition
from worldfork.analysis.score.decisions import Decisions
from worldfork.analysis.score.intervals import fieller
from worldfork.analysis.score.undefined import Bounds, Figure, Undefined, undefined


@dataclasses.dataclass(frozen=True, kw_only=True)
class BreakEven:
    """The price of an update at which two policies are worth the same."""

    price: Figure
    interval: Bounds  # every price at which the paired t test does not tell them apart


@dataclasses.dataclass(frozen=True, kw_only=True)
class PriceRange:
    """The prices of an update at which a policy is worth the most, of those compared."""

    policy: str
    above: float
    below: float | None  # None: at every higher price


@dataclasses.dataclass(frozen=True, kw_only=True)
class TriggerPrices:
    """Prices of an update between which a trigger is worth more than never and always updating."""

    over_never: BreakEven  # up to this price
    over_always: BreakEven  # from this price on


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prices:
    """The price of an update, and those at which the answer changes; all attempted forks."""

    update_cost: float  # as registered, at which thresholds are fitted; the prices below are totals
    always: BreakEven  # up to this price always updating is worth more than never
    triggers: Mapping[str, TriggerPrices]
    best: tuple[PriceRange, ...]  # of never, always and the registered candidates, in hindsight

    @property
    def best_at_cost(self) -> str:
        """The policy that is worth the most at the registered price."""
        return next(part.policy for part in self.best if part.below is None or self.update_cost < part.below)


def break_even(gained: ClusterMeans, spent: ClusterMeans) -> BreakEven:
    """Return the price of an update at which a mean gain is spent.

    Of two policies `gained` is the difference of their totals and `spent` that of their updates, by checkpoint.

    >>> break_even(np.array([10.0, 12.0, 14.0]), np.array([2.0, 2.0, 2.0])).price
    6.0
    """
    count = len(gained)
    if not count or not spent.mean():
        return undefined(BreakEven, Undefined("both fire as often: no price changes which is better"))
    price = float(gained.mean() / spent.mean())
    if count < 2:
        return BreakEven(price=price, interval=Undefined("an interval over checkpoints needs at least two of them"))
    share = float(stats.t.ppf(0.975, count - 1)) ** 2 / count
    found = fieller(gained.mean(), -spent.mean(), share * np.cov(gained, -spent))
    return BreakEven(
        price=price, interval=found or Undefined("how often they fire is not told apart: any price may do")
    )


def best_by_price(totals: Mapping[str, float], updates: Mapping[str, float]) -> tuple[PriceRange, ...]:
    """Return the policy that is worth the most at each price of an update, from 0 up.

    >>> totals = {"never": 0.0, "always": 10.0, "some": 8.0}
    >>> updates = {"never": 0.0, "always": 5.0, "some": 2.0}
    >>> [best.policy for best in best_by_price(totals, updates)]
    ['always', 'some', 'never']
    """
    ranges: list[PriceRange] = []
    price = 0.0
    best = max(totals, key=lambda name: (totals[name], -updates[name]))
    while True:
        # The next policy to overtake fires less often; the first to do so, and of several the one that fires least.
        overtaking = {
            name: ((totals[best] - totals[name]) / (updates[best] - updates[name]), updates[name])
            for name in totals
            if updates[name] < updates[best]
        }
        if not overtaking:
            ranges.append(PriceRange(policy=best, above=price, below=None))
            return tuple(ranges)
        following = min(overtaking, key=lambda name: overtaking[name])
        until = max(price, overtaking[following][0])
        ranges.append(PriceRange(policy=best, above=price, below=until))
        best, price = following, until


def task_prices(forks: Forks, decisions: Mapping[str, Decisions], *, candidates: Collection[str]) -> Prices:
    """Return the prices of an update at which the answer of a task changes. Returns are taken before any price."""
    parts, gross = partition(forks.prefork), forks.delta + forks.outcomes.cost
    checkpoint, count = parts.checkpoint, len(parts.checkpoints)
    present = np.bincount(checkpoint, minlength=count) > 0

    def totals(fired: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        gained = np.bincount(checkpoint[fired], weights=gross[fired], minlength=count)[present]
        return gained.astype(np.float64), np.bincount(checkpoint[fired], minlength=count)[present].astype(
            np.float64
        )

    gained, updates = totals(np.ones(len(forks), bool))
    means = group_means(parts.cell_means(gross), parts.cell_checkpoint, count)
    triggers, worth, fires = (
        {},
        {"never": 0.0, "always": float(gained.sum())},
        {"never": 0.0, "always": updates.sum()},
    )
    for name, decision in decisions.items():
        if isinstance(decision.fired, Undefined):
            continue
        of_trigger, fired = totals(decision.fired)
        triggers[name] = TriggerPrices(
            over_never=break_even(of_trigger, fired), over_always=break_even(of_trigger - gained, fired - updates)
        )
        if name in candidates:
            worth[name], fires[name] = float(of_trigger.sum()), float(fired.sum())
    of_always = means[~np.isnan(means)]
    return Prices(
        update_cost=forks.outcomes.cost,
        always=break_even(of_always, np.ones(len(of_always))),
        triggers=triggers,
        best=best_by_price(worth, fires),
    )
