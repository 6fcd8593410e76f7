"""Rankings: how a signal orders helpful forks above harmful ones (paper, "Trigger rankings"), and correlations."""

import dataclasses
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from scipy import stats

from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.read.prefork import ForkCodes, ForkFlags, ForkValues
from worldfork.analysis.score.clusters import Partition, partition
from worldfork.analysis.score.intervals import cluster_interval
from worldfork.analysis.score.undefined import Bounds, Figure, Undefined, undefined


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ranking:
    """The ranking of forks with dR > 0 above the rest by a signal."""

    auc: Figure
    auc_interval: Bounds
    auc_interval_kind: str | Undefined
    auc_student_t: Bounds
    auc_clusters: int  # checkpoints that have both classes: what both intervals rest on
    auc_by_checkpoint: Mapping[str, Figure] | Undefined


@dataclasses.dataclass(frozen=True, kw_only=True)
class StratifiedAuc:
    """The share of pairs at one (direction, k), one with dR > 0 and one without, that a signal puts in order."""

    auc: Figure
    pairs: int
    strata: int  # places that have such a pair
    without_one_low: Figure  # the range when one checkpoint is left out
    without_one_high: Figure


def auc(signal: ForkValues, positive: ForkFlags) -> Figure:
    """Return the chance that a positive fork has the larger signal, ties counting a half; missing signals are left
    out."""
    return _auc_of_each(signal, positive, np.zeros(len(signal), np.int64), count=1)[0]


def ranking(signal: ForkValues, delta: ForkValues, parts: Partition, *, seed: int, task: str) -> Ranking:
    """Return the AUC within each checkpoint over its streams together, and its mean over the checkpoints that have
    one."""
    within = _auc_of_each(signal, delta > 0, parts.checkpoint, count=len(parts.checkpoints))
    by_checkpoint = dict(zip(parts.checkpoints, within, strict=True))
    defined = np.array([value for value in by_checkpoint.values() if not isinstance(value, Undefined)])
    if not len(defined):
        why = Undefined("no checkpoint has forks both with dR > 0 and without")
        return undefined(Ranking, why, auc_clusters=0, auc_by_checkpoint=by_checkpoint)
    mean = cluster_interval(defined, seed=seed, task=task)
    return Ranking(
        auc=mean.value,
        auc_interval=mean.interval,
        auc_interval_kind=mean.kind,
        auc_student_t=mean.student_t,
        auc_clusters=mean.clusters,
        auc_by_checkpoint=by_checkpoint,
    )


def pairs_in_order(
    signal: ForkValues, positive: ForkFlags, group: ForkCodes, *, count: int
) -> tuple[Float[np.ndarray, "{count}"], Float[np.ndarray, "{count}"], Float[np.ndarray, "{count}"]]:
    """Return, for each group, the pairs of a positive and another fork that the signal orders, and the forks of
    either kind. Ties count a half; missing signals are left out."""
    defined = ~np.isnan(signal)
    signal, positive, group = signal[defined], positive[defined], group[defined]
    order = np.lexsort((signal, group))
    values, groups, helped = signal[order], group[order], positive[order]
    new = np.ones(len(order), bool)
    new[1:] = (values[1:] != values[:-1]) | (groups[1:] != groups[:-1])
    first = np.flatnonzero(new)
    size = np.diff(first, append=len(order))
    sizes = np.bincount(group, minlength=count)
    begin = (np.cumsum(sizes) - sizes)[groups[first]]  # of the group, in this order
    # Ranks within the group are whole or half numbers, so their sums are exact in any order.
    ranks = np.repeat(first - begin + (size + 1) / 2, size)
    positives = np.bincount(groups[helped], minlength=count).astype(float)
    ordered = np.bincount(groups[helped], weights=ranks[helped], minlength=count) - positives * (positives + 1) / 2
    return ordered, positives, sizes - positives


def _auc_of_each(signal: ForkValues, positive: ForkFlags, group: ForkCodes, *, count: int) -> list[Figure]:
    """Return the AUC within each group."""
    counts = pairs_in_order(signal, positive, group, count=count)
    return [
        ordered / (helped * others)
        if helped and others
        else Undefined(f"{helped:.0f} forks with dR > 0 and {others:.0f} without: a ranking needs both")
        for ordered, helped, others in zip(*(column.tolist() for column in counts), strict=True)
    ]


def stratified_auc(
    signal: ForkValues, positive: ForkFlags, stratum: ForkCodes, checkpoint: ForkCodes
) -> StratifiedAuc:
    """Return the AUC within (direction, k), ties counting a half, pairs pooled over strata."""
    count = int(stratum.max(initial=-1)) + 1

    def pooled(kept: ForkFlags) -> tuple[float, Float[np.ndarray, "strata"]]:
        ordered, helped, others = pairs_in_order(signal[kept], positive[kept], stratum[kept], count=count)
        return float(ordered[others > 0].sum()), helped * others

    in_order, pairs = pooled(np.ones(len(signal), bool))
    left_out = [pooled(checkpoint != name) for name in np.unique(checkpoint[~np.isnan(signal)])]
    shares = [ordered / total for ordered, of in left_out if (total := float(of.sum()))]
    alone = Undefined("leaving any checkpoint out leaves no pair of forks at one place")
    nowhere = Undefined("no place (direction, k) has forks both with dR > 0 and without")
    return StratifiedAuc(
        auc=in_order / float(pairs.sum()) if pairs.any() else nowhere,
        pairs=round(float(pairs.sum())),
        strata=int((pairs > 0).sum()),
        without_one_low=min(shares) if shares else alone,
        without_one_high=max(shares) if shares else alone,
    )


def correlation(x: ForkValues, y: ForkValues) -> Figure:
    """Return Pearson's correlation, over the forks where x is there."""
    defined = ~np.isnan(x)
    return _pearson(x[defined], y[defined])


def partial_correlation(x: ForkValues, y: ForkValues, given: ForkValues) -> Figure:
    """Return the correlation of x and y with `given` held fixed."""
    defined = ~np.isnan(x)
    pairs = [
        _pearson(x[defined], y[defined]),
        _pearson(x[defined], given[defined]),
        _pearson(y[defined], given[defined]),
    ]
    for pair in pairs:
        if isinstance(pair, Undefined):
            return pair
    xy, xz, yz = (float(pair) for pair in pairs if not isinstance(pair, Undefined))
    left = (1 - xz**2) * (1 - yz**2)
    if left < 1e-12:
        return Undefined("one of the two is a function of what is held fixed: nothing is left to correlate")
    return float(np.clip((xy - xz * yz) / np.sqrt(left), -1, 1))


def spearman(x: ForkValues, y: ForkValues) -> Figure:
    """Return Spearman's rank correlation, over the forks where x is there."""
    defined = ~np.isnan(x)
    return _pearson(stats.rankdata(x[defined]), stats.rankdata(y[defined]))


def cells_with_both_signs(forks: Forks) -> Figure:
    """Return the share of cells in which updating helps at one fork and hurts at another."""
    parts = partition(forks.prefork)
    cells = len(parts.cell_checkpoint)
    there, helped, hurt = (
        np.bincount(parts.cell[mask], minlength=cells) > 0
        for mask in (np.ones(len(forks), bool), forks.delta > 0, forks.delta < 0)
    )
    if not there.any():
        return Undefined("there are no forks")
    return float((helped & hurt).sum() / there.sum())


def excluded_quantile(signal: ForkValues, dropped: ForkFlags) -> Figure:
    """Return the mean quantile, within the retained forks' signals, of the signal on the excluded forks.

    A value's quantile is the share of retained signals below it, and half of those equal to it.
    """
    defined = ~np.isnan(signal)
    retained, excluded = np.sort(signal[defined & ~dropped]), signal[defined & dropped]
    if not len(excluded):
        return Undefined("no fork with this signal was excluded")
    if not len(retained):
        return Undefined("no fork with this signal was retained")
    below = np.searchsorted(retained, excluded, side="left") + np.searchsorted(retained, excluded, side="right")
    return float(below.mean() / (2 * len(retained)))


def _pearson(x: ForkValues, y: ForkValues) -> Figure:
    if len(x) < 3:
        return Undefined(f"a correlation needs at least three forks, and there are {len(x)}")
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return Undefined("one of the two does not vary over these forks")
    dx, dy = x - x.mean(), y - y.mean()
    size = np.sqrt(dx @ dx) * np.sqrt(dy @ dy)
    if size == 0:
        return Undefined("one of the two varies by too little to square")
    return float(np.clip(dx @ dy / size, -1, 1))
