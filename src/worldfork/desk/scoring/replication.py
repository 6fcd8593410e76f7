"""The same cells on other stream seeds: does the mean hold (paper, Table 2)?"""

import dataclasses

import numpy as np

from worldfork.desk.reading.outcomes import Forks, join
from worldfork.desk.scoring.divergence import diverged
from worldfork.desk.scoring.effects import effect
from worldfork.desk.scoring.records import Effect
from worldfork.desk.scoring.rules import Rules
from worldfork.desk.scoring.undefined import finite

__all__ = ["Replication", "replicate"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Replication:
    """Retained forks of the first stream seed, and of all of them."""

    first: Effect
    all_seeds: Effect


def replicate(forks: Forks, others: Forks | None, *, rules: Rules) -> Replication | None:
    """`forks` alone, or with `others` of the same task on other stream seeds; None where there is one seed only."""
    joined = join([forks] if others is None else [forks, others])
    kept = joined.take(~diverged(joined, rules.divergence).dropped)
    seeds = np.array([cell.stream_seed for cell in kept.prefork.cells])
    if len(set(seeds.tolist())) < 2:
        return None
    first = kept.take(seeds[kept.prefork.cell] == seeds.min())
    return finite(
        Replication(first=effect(first, seed=rules.seed), all_seeds=effect(kept, seed=rules.seed)),
    )
