"""Which forks count as diverged: a rule of scoring, registered beforehand (paper, "Paired labels").

A ledger keeps every fork. The rule decides which of them a figure on retained forks leaves out.
"""

import dataclasses

import numpy as np
from jaxtyping import Bool

from worldfork.desk.reading.outcomes import Forks

__all__ = ["Divergence", "diverged"]


@dataclasses.dataclass(frozen=True)
class Divergence:
    """Which forks the rule drops, and in which cells it does not apply."""

    dropped: Bool[np.ndarray, "forks"]
    off: tuple[str, ...]  # one reason per cell without the rule


def diverged(forks: Forks, fraction: float | None) -> Divergence:
    """A fork diverged when r_update < fraction * mean r_hold of its cell's attempted forks.

    Below a mean of zero a fraction of it would be a reward for collapse: the rule is off in such cells. A
    `fraction` of None switches it off everywhere. A branch without a finite return has diverged by any rule.
    """
    dropped = forks.outcomes.failed.copy()
    off = []
    if fraction is not None:
        for index, span in forks.prefork.spans():
            reference = float(forks.outcomes.r_hold[span].mean())
            if reference > 0:
                dropped[span] |= forks.outcomes.r_update[span] < fraction * reference
            else:
                key = forks.prefork.cells[index]
                off.append(
                    f"cell {key.checkpoint}/{key.direction}/{key.stream_seed}: mean r_hold is {reference:.4g}, "
                    "and the divergence rule needs a positive one"
                )
    return Divergence(dropped, tuple(off))
