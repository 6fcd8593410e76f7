"""Which deployments diverged: so far below never that a mean over checkpoints would rest on them alone.

An update that persists can leave a model whose controller does not hold the system, and where costs are unbounded
one such deployment outweighs all others. Every figure of a policy is on all attempted deployments all the same.
What is said here names those that diverged, and what the others returned.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
from jaxtyping import Bool, Float

from worldfork.counting import plural
from worldfork.desk.reading.deployments import Deployed
from worldfork.desk.scoring import intervals
from worldfork.desk.scoring.deployment_records import PolicyOutcome, RetainedAdvantage
from worldfork.desk.scoring.undefined import Figure, Undefined

__all__ = ["diverged_deployments", "named", "retained_advantage", "sentences"]

# Times the largest return, without its sign, that any episode of never had. Returns that are bounded from below by
# 0 can not lose so much: the rule is for costs without a bound.
BEYOND: Final = 100.0
NAMED: Final = 3  # deployments that a sentence lists
NONE_LEFT: Final = Undefined("no deployment is left that did not diverge")


def diverged_deployments(deployed: Deployed, never: int) -> Bool[np.ndarray, "policies cells"]:
    """A deployment diverged that has a return which is not finite, or an episode, its own or of an evaluation, that
    returned less than never's by more than `BEYOND` times the largest return of never."""
    columns = (deployed.returns, deployed.evaluations.reshape(*deployed.returns.shape[:2], -1))
    everything = np.concatenate(columns, axis=2)
    largest = float(np.nanmax(np.abs(everything[never]), initial=0.0))
    lost = deployed.failed.copy()
    if largest > 0:
        lost |= (everything[never] - everything > BEYOND * largest).any(axis=2)
    lost[never] = deployed.failed[never]
    return lost


def named(deployed: Deployed, lost: Bool[np.ndarray, " cells"]) -> tuple[str, ...]:
    """The cells of these deployments in words."""
    several = len(set(deployed.draws)) > 1
    return tuple(
        f"checkpoint {cell.checkpoint}, {cell.direction}, stream {cell.stream_seed}"
        + (f", update seed {draw}" if several else "")
        for cell, draw, out in zip(deployed.cells, deployed.draws, lost, strict=True)
        if out
    )


def retained_advantage(
    returned: Float[np.ndarray, " cells"],
    evaluated: Float[np.ndarray, " cells"] | None,
    owner: np.ndarray,
    *,
    kept: Bool[np.ndarray, " cells"],
) -> RetainedAdvantage:
    """The paired differences of the deployments that are kept, over the checkpoints that still have one."""
    own = _by_checkpoint(returned, owner, kept)
    if evaluated is None or np.isnan(evaluated).any():
        reason = Undefined("no model was evaluated, or not all evaluations are there yet")
        return RetainedAdvantage(int(kept.sum()), _mean(own), intervals.student_t(own), reason, reason)
    after = _by_checkpoint(evaluated, owner, kept)
    return RetainedAdvantage(
        int(kept.sum()), _mean(own), intervals.student_t(own), _mean(after), intervals.student_t(after)
    )


def sentences(policies: Mapping[str, PolicyOutcome], cells: int) -> tuple[str, ...]:
    """One for each policy with a deployment that diverged."""
    found = []
    for name, outcome in policies.items():
        lost = outcome.diverged
        if lost:
            listed = "; ".join(lost[:NAMED]) + (f"; and {len(lost) - NAMED} more" if len(lost) > NAMED else "")
            found.append(
                f"{name}: {len(lost)} of {plural(cells, 'deployment')} diverged ({listed}). Its means and "
                f"intervals are of all that were attempted, and rest on what diverged.{_others(outcome.retained)}"
            )
    return tuple(found)


def _others(retained: RetainedAdvantage | Undefined) -> str:
    if isinstance(retained, Undefined):  # it is never itself
        return ""
    if isinstance(retained.mean, Undefined):
        return " None is left beside these."
    words = f" The other {retained.cells} returned {retained.mean:+.3g}"
    if not isinstance(retained.student_t, Undefined):
        words += f" [{retained.student_t.low:+.3g}, {retained.student_t.high:+.3g}]"
    return f"{words} more than never."


def _by_checkpoint(
    values: Float[np.ndarray, " cells"], owner: np.ndarray, kept: Bool[np.ndarray, " cells"]
) -> Float[np.ndarray, " checkpoints"]:
    return np.array([values[kept & (owner == code)].mean() for code in np.unique(owner[kept])])


def _mean(values: Float[np.ndarray, " checkpoints"]) -> Figure:
    return float(values.mean()) if len(values) else NONE_LEFT
