"""Does a signal order helpful forks above harmful ones (paper, "Trigger rankings")?"""

import numpy as np
from jaxtyping import Bool, Float
from scipy import stats

from worldfork.desk.scoring.intervals import cluster_interval
from worldfork.desk.scoring.partition import Partition
from worldfork.desk.scoring.records import Ranking
from worldfork.desk.scoring.undefined import Figure, Undefined

__all__ = ["auc", "ranking"]


def auc(signal: Float[np.ndarray, "forks"], positive: Bool[np.ndarray, "forks"]) -> Figure:
    """The chance that a positive fork has the larger signal, ties counting a half; missing signals are left out."""
    known = ~np.isnan(signal)
    ranks = stats.rankdata(signal[known])
    helped = positive[known]
    n_positive, n_negative = int(helped.sum()), int((~helped).sum())
    if not n_positive or not n_negative:
        return Undefined(f"{n_positive} forks with dR > 0 and {n_negative} without: a ranking needs both")
    return float((ranks[helped].sum() - n_positive * (n_positive + 1) / 2) / (n_positive * n_negative))


def ranking(
    signal: Float[np.ndarray, "forks"], delta: Float[np.ndarray, "forks"], parts: Partition, *, seed: int, task: str
) -> Ranking:
    """AUC within each checkpoint over its streams together, and its mean over the checkpoints that have one."""
    by_checkpoint = {
        name: auc(signal[forks], delta[forks] > 0)
        for name, forks in zip(parts.checkpoints, parts.by_checkpoint(), strict=True)
    }
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
