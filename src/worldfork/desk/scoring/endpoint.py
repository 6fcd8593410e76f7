"""The registered primary endpoint, which the authors did not report (paper, "Design and inference")."""

import numpy as np
from jaxtyping import Bool, Float

from worldfork.desk.scoring.intervals import cluster_interval
from worldfork.desk.scoring.partition import Partition
from worldfork.desk.scoring.records import Endpoint
from worldfork.desk.scoring.undefined import Undefined

__all__ = ["endpoint"]


def endpoint(
    fired: Bool[np.ndarray, "forks"],
    delta: Float[np.ndarray, "forks"],
    hold: Float[np.ndarray, "forks episodes"] | None,
    parts: Partition,
    *,
    seed: int,
    task: str,
) -> Endpoint | Undefined:
    """(mean dR where fired - mean dR) / sigma_ep within each checkpoint that has a fire, averaged over them.

    sigma_ep is the root mean, over the checkpoint's forks, of the within-fork variance of HOLD's episode returns.
    """
    if hold is None:
        return Undefined("sigma_ep needs the per-episode returns `hold` and `update`")
    enough = (~np.isnan(hold)).sum(axis=1) > 1
    if not enough.any():
        return Undefined("sigma_ep needs at least two episodes in a fork")
    variance = np.full(len(hold), np.nan)
    variance[enough] = np.nanvar(hold[enough], axis=1, ddof=1)
    by_checkpoint: dict[str, float] = {}
    for name, forks in zip(parts.checkpoints, parts.by_checkpoint(), strict=True):
        if not fired[forks].any():
            continue
        sigma = float(np.sqrt(np.nanmean(variance[forks]))) if enough[forks].any() else 0.0
        if sigma > 0:
            by_checkpoint[name] = float(delta[forks][fired[forks]].mean() - delta[forks].mean()) / sigma
    if not by_checkpoint:
        fired_at_all = bool(fired.any())
        return Undefined("sigma_ep is zero: HOLD's episodes do not vary" if fired_at_all else "it never fires")
    mean = cluster_interval(np.array(list(by_checkpoint.values())), seed=seed, task=task)
    return Endpoint(
        value=mean.value,
        interval=mean.interval,
        kind=mean.kind,
        student_t=mean.student_t,
        clusters=mean.clusters,
        by_checkpoint=by_checkpoint,
    )
