"""Value of rules beside never and always updating: the price at which a verdict changes, and trying before keeping.

**Prices.** A policy that fires n times at a price c is worth its total dR less c n. Two policies are worth the
same at the price at which the mean over checkpoints of their difference is 0; the interval holds every price at
which the paired t test does not tell them apart. A price is the total of an update: what is registered is in it.
Thresholds are those of the triggers' other figures, fitted at the registered price, so that a policy is worth at
that price what it earns in every table. They stay as they are along the prices: fitted anew at each of them they
would follow single forks, and which of ten triggers is best would change dozens of times.

**Trials.** An update is evaluated on some of the matched episodes and kept only where it won there. The other
episodes value the rule, over every way to choose the trial episodes: an update is never valued by the episodes
that decided about it. The trial itself is not in the value. In deployment it is lived through, one episode with
the candidate each: `break_even` is the price of a trial episode up to which the rule is worth it.
"""

import dataclasses
import itertools
import math
from collections.abc import Collection, Mapping
from typing import Final

import numpy as np
from jaxtyping import Float
from scipy import stats

from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.read.prefork import ForkFlags, ForkValues
from worldfork.analysis.score.clusters import ClusterMeans, group_means, partition
from worldfork.analysis.score.decisions import Decisions
from worldfork.analysis.score.effects import estimate, estimate_of
from worldfork.analysis.score.intervals import MeanByCheckpoint, MeanEstimate, fieller
from worldfork.analysis.score.undefined import INTERNAL, Bounds, Figure, Undefined, undefined


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
    (gained_variance, both), (_, spent_variance) = share * np.cov(gained, spent)
    mean_gain, mean_spent = gained.mean(), spent.mean()
    found = fieller(mean_spent**2 - spent_variance, mean_gain * mean_spent - both, mean_gain**2 - gained_variance)
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trial(MeanByCheckpoint):
    """A rule that tries an update on a few episodes and keeps it where it won there: mean dR of the others."""

    episodes: int  # of a trial
    proposed: float  # the share of decision points at which an update is tried
    kept: Figure  # the share of the trials after which it is kept
    over_better: MeanEstimate  # over the better of never and always, in hindsight
    break_even: BreakEven  # the price of a trial episode up to which it is worth more than these


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trials:
    """Try, then keep: by the number of trial episodes, and with one where a trigger proposes the update."""

    margin: float  # that the mean dR of the trial has to exceed
    by_episodes: Mapping[str, Trial]
    proposed_by: Mapping[str, Trial]
    always: float  # mean dR, for comparison
    oracle: float  # the mean of max(dR, 0) over forks: no rule that keeps or drops an update can be worth more
    # Of never, always and each number of episodes the best at each price of a trial episode, in hindsight.
    best: tuple[PriceRange, ...] = dataclasses.field(default=(), metadata=INTERNAL)


MOST_SPLITS: Final = 1_000  # ways to choose the trial episodes that are listed; more episodes are not tried
MOST_EPISODES: Final = 4


def trials(
    forks: Forks, decisions: Mapping[str, Decisions], *, margin: float = 0.0, seed: int
) -> Trials | Undefined:
    """Return the value of every number of trial episodes, and of one where a trigger proposes the update.

    Args:
        forks: all attempted forks; those without all of their episodes are left out.
        decisions: where each trigger fires.
        margin: the mean dR of the trial episodes that an update has to exceed to be kept.
        seed: of the resampled intervals.
    """
    hold, update = forks.outcomes.hold, forks.outcomes.update
    if hold is None or update is None or hold.shape[1] < 2:
        return Undefined("a trial needs at least two episodes per fork, in the lists `hold` and `update`")
    whole = ~(np.isnan(hold) | np.isnan(update)).any(axis=1)
    if not whole.any():
        return Undefined("no fork has all of its episodes")
    kept = forks.take(whole)
    parts, delta = partition(kept.prefork), (update - hold)[whole] - forks.outcomes.cost
    always = parts.means_of_checkpoints(delta.mean(axis=1))
    better = always if always.mean() > 0 else np.zeros(len(always))
    names = [parts.checkpoints[code] for code in np.unique(parts.checkpoint)]

    def valued(count: int, proposed: ForkFlags) -> Trial:
        worth, share = _worth(delta, count, margin=margin)
        values = parts.means_of_checkpoints(np.where(proposed, worth, 0.0))
        episodes = parts.means_of_checkpoints(count * proposed.astype(np.float64))
        price = break_even(values - better, episodes)
        return Trial(
            **vars(estimate_of(dict(zip(names, values.tolist(), strict=True)), seed=seed, task=forks.task)),
            episodes=count,
            proposed=float(proposed.mean()),
            kept=float(share[proposed].mean()) if proposed.any() else Undefined("it proposes no update"),
            over_better=estimate(values - better, seed=seed, task=forks.task),
            break_even=price,
        )

    every = np.ones(len(delta), bool)
    counts = [
        count
        for count in range(1, min(delta.shape[1] - 1, MOST_EPISODES) + 1)
        if math.comb(delta.shape[1], count) <= MOST_SPLITS
    ]
    by_episodes = {str(count): valued(count, every) for count in counts}
    worth = {"never": 0.0, "always": float(always.mean())}
    spent = {"never": 0.0, "always": 0.0} | {name: float(trial.episodes) for name, trial in by_episodes.items()}
    worth |= {name: mean for name, trial in by_episodes.items() if not isinstance(mean := trial.mean, Undefined)}
    return Trials(
        margin=margin,
        by_episodes=by_episodes,
        proposed_by={
            name: valued(1, decision.fired[whole])
            for name, decision in decisions.items()
            if not isinstance(decision.fired, Undefined)
        },
        always=float(always.mean()),
        oracle=float(parts.means_of_checkpoints(np.maximum(delta.mean(axis=1), 0.0)).mean()),
        best=best_by_price(worth, spent),
    )


def _worth(
    delta: Float[np.ndarray, "forks episodes"], count: int, *, margin: float
) -> tuple[ForkValues, ForkValues]:
    """Return dR of the other episodes where the update is kept, and how often it is, averaged over all splits."""
    episodes = delta.shape[1]
    total, worth, kept, splits = delta.sum(axis=1), np.zeros(len(delta)), np.zeros(len(delta)), 0
    for chosen in itertools.combinations(range(episodes), count):
        tried = delta[:, chosen].sum(axis=1)
        keep = tried / count > margin
        worth += np.where(keep, (total - tried) / (episodes - count), 0.0)
        kept += keep
        splits += 1
    return worth / splits, kept / splits
