"""The registered primary endpoint, which the authors did not report (paper, "Design and inference")."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from worldfork.desk.scoring.intervals import cluster_interval
from worldfork.desk.scoring.partition import Partition
from worldfork.desk.scoring.records import Endpoint
from worldfork.desk.scoring.undefined import Undefined

__all__ = ["Baseline", "baselines", "endpoint"]


@dataclasses.dataclass(frozen=True)
class Baseline:
    """One checkpoint, whatever fires: its forks, their mean dR, and sigma_ep, the root mean over them of the
    within-fork variance of HOLD's episode returns."""

    checkpoint: str
    forks: Int[np.ndarray, "own"]
    mean: float
    sigma: float


def baselines(
    delta: Float[np.ndarray, "forks"], hold: Float[np.ndarray, "forks episodes"] | None, parts: Partition
) -> tuple[Baseline, ...] | Undefined:
    """What every policy's endpoint is measured by."""
    if hold is None:
        return Undefined("sigma_ep needs the per-episode returns `hold` and `update`")
    enough = (~np.isnan(hold)).sum(axis=1) > 1
    if not enough.any():
        return Undefined("sigma_ep needs at least two episodes in a fork")
    variance = np.full(len(hold), np.nan)
    variance[enough] = np.nanvar(hold[enough], axis=1, ddof=1)
    return tuple(
        Baseline(
            checkpoint=name,
            forks=forks,
            mean=float(delta[forks].mean()),
            sigma=float(np.sqrt(np.nanmean(variance[forks]))) if enough[forks].any() else 0.0,
        )
        for name, forks in zip(parts.checkpoints, parts.by_checkpoint(), strict=True)
        if len(delta[forks])
    )


def endpoint(
    fired: Bool[np.ndarray, "forks"],
    delta: Float[np.ndarray, "forks"],
    measured: Sequence[Baseline] | Undefined,
    *,
    seed: int,
    task: str,
) -> Endpoint | Undefined:
    """(mean dR where fired - mean dR) / sigma_ep within each checkpoint that has a fire, averaged over them."""
    if isinstance(measured, Undefined):
        return measured
    by_checkpoint = {
        baseline.checkpoint: float(_mean(delta[baseline.forks[flags]]) - baseline.mean) / baseline.sigma
        for baseline in measured
        if baseline.sigma > 0 and (flags := fired[baseline.forks]).any()
    }
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


def _mean(values: Float[np.ndarray, "some"]) -> float:
    """What `values.mean()` is, in a third of its time: there is one for every checkpoint of every policy."""
    return float(np.add.reduce(values) / len(values))
