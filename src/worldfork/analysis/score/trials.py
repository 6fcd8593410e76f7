"""Try, then keep: an update is evaluated on some of the matched episodes and kept only where it won there.

The other episodes value the rule, over every way to choose the trial episodes: an update is never valued by the
episodes that decided about it. The trial itself is not in the value. In deployment it is lived through, one episode
with the candidate each: `break_even` is the price of a trial episode up to which the rule is worth it.
"""

import dataclasses
import itertools
import math
from collections.abc import Mapping
from typing import Final

import numpy as np
from jaxtyping import Float

from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.read.prefork import ForkFlags, ForkValues
from worldfork.analysis.score.clusters import partition
from worldfork.analysis.score.decisions import Decisions
from worldfork.analysis.score.effects import estimate
from worldfork.analysis.score.intervals import MeanByCheckpoint, MeanEstimate
from worldfork.analysis.score.prices import BreakEven, PriceRange, best_by_price, break_even
from worldfork.analysis.score.undefined import INTERNAL, Figure, Undefined


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
            **vars(estimate(values, seed=seed, task=forks.task)),
            by_checkpoint=dict(zip(names, values.tolist(), strict=True)),
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
