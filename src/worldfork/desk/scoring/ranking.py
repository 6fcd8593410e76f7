"""Does a signal order helpful forks above harmful ones (paper, "Trigger rankings")?"""

import numpy as np
from jaxtyping import Bool, Float, Int

from worldfork.desk.scoring.intervals import cluster_interval
from worldfork.desk.scoring.partition import Partition
from worldfork.desk.scoring.records import Ranking
from worldfork.desk.scoring.undefined import Figure, Undefined

__all__ = ["auc", "ranking"]


def auc(signal: Float[np.ndarray, "forks"], positive: Bool[np.ndarray, "forks"]) -> Figure:
    """The chance that a positive fork has the larger signal, ties counting a half; missing signals are left out."""
    return _auc_of_each(signal, positive, np.zeros(len(signal), np.int64), count=1)[0]


def ranking(
    signal: Float[np.ndarray, "forks"], delta: Float[np.ndarray, "forks"], parts: Partition, *, seed: int, task: str
) -> Ranking:
    """AUC within each checkpoint over its streams together, and its mean over the checkpoints that have one."""
    within = _auc_of_each(signal, delta > 0, parts.checkpoint, count=len(parts.checkpoints))
    by_checkpoint = dict(zip(parts.checkpoints, within, strict=True))
    known = np.array([value for value in by_checkpoint.values() if not isinstance(value, Undefined)])
    if not len(known):
        why = Undefined("no checkpoint has forks both with dR > 0 and without")
        return Ranking(
            auc=why,
            auc_interval=why,
            auc_interval_kind=why,
            auc_student_t=why,
            auc_clusters=0,
            auc_by_checkpoint=by_checkpoint,
        )
    mean = cluster_interval(known, seed=seed, task=task)
    return Ranking(
        auc=mean.value,
        auc_interval=mean.interval,
        auc_interval_kind=mean.kind,
        auc_student_t=mean.student_t,
        auc_clusters=mean.clusters,
        auc_by_checkpoint=by_checkpoint,
    )


def _auc_of_each(
    signal: Float[np.ndarray, "forks"],
    positive: Bool[np.ndarray, "forks"],
    group: Int[np.ndarray, "forks"],
    *,
    count: int,
) -> list[Figure]:
    """The AUC within each group. Ranks are whole or half numbers, so their sums are exact in any order."""
    known = ~np.isnan(signal)
    signal, positive, group = signal[known], positive[known], group[known]
    order = np.lexsort((signal, group))
    values, groups = signal[order], group[order]
    new = np.ones(len(order), bool)
    new[1:] = (values[1:] != values[:-1]) | (groups[1:] != groups[:-1])
    first = np.flatnonzero(new)
    size = np.diff(first, append=len(order))
    sizes = np.bincount(group, minlength=count)
    begin = (np.cumsum(sizes) - sizes)[groups[first]]  # of the group, in this order
    ranks = np.repeat(first - begin + (size + 1) / 2, size)
    helped = positive[order]
    sums = np.bincount(groups[helped], weights=ranks[helped], minlength=count)
    positives = np.bincount(groups[helped], minlength=count)
    return [
        (rank_sum - with_gain * (with_gain + 1) / 2) / (with_gain * without)
        if with_gain and without
        else Undefined(f"{with_gain} forks with dR > 0 and {without} without: a ranking needs both")
        for rank_sum, with_gain, without in zip(
            sums.tolist(), positives.tolist(), (sizes - positives).tolist(), strict=True
        )
    ]
