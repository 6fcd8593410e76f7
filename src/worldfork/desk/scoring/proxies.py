"""Is an ordering a proxy for something else (paper, "A ranking score is not policy utility")?"""

import numpy as np
from jaxtyping import Bool, Float
from scipy import stats

from worldfork.desk.reading.outcomes import Forks
from worldfork.desk.scoring.partition import partition
from worldfork.desk.scoring.undefined import Figure, Undefined

__all__ = ["cells_with_both_signs", "correlation", "excluded_quantile", "partial_correlation", "spearman"]


def correlation(x: Float[np.ndarray, "forks"], y: Float[np.ndarray, "forks"]) -> Figure:
    """Pearson's correlation, over the forks where x is there."""
    known = ~np.isnan(x)
    return _pearson(x[known], y[known])


def partial_correlation(
    x: Float[np.ndarray, "forks"], y: Float[np.ndarray, "forks"], given: Float[np.ndarray, "forks"]
) -> Figure:
    """The correlation of x and y with `given` held fixed."""
    known = ~np.isnan(x)
    pairs = [_pearson(x[known], y[known]), _pearson(x[known], given[known]), _pearson(y[known], given[known])]
    for pair in pairs:
        if isinstance(pair, Undefined):
            return pair
    xy, xz, yz = (float(pair) for pair in pairs if not isinstance(pair, Undefined))
    left = (1 - xz**2) * (1 - yz**2)
    if left < 1e-12:
        return Undefined("one of the two is a function of what is held fixed: nothing is left to correlate")
    return float(np.clip((xy - xz * yz) / np.sqrt(left), -1, 1))


def spearman(x: Float[np.ndarray, "forks"], y: Float[np.ndarray, "forks"]) -> Figure:
    """Spearman's rank correlation, over the forks where x is there."""
    known = ~np.isnan(x)
    return _pearson(stats.rankdata(x[known]), stats.rankdata(y[known]))


def cells_with_both_signs(forks: Forks) -> Figure:
    """The share of cells in which updating helps at one fork and hurts at another."""
    parts = partition(forks.prefork)
    cells = len(parts.cell_checkpoint)
    there, helped, hurt = (
        np.bincount(parts.cell[mask], minlength=cells) > 0
        for mask in (np.ones(len(forks), bool), forks.delta > 0, forks.delta < 0)
    )
    if not there.any():
        return Undefined("there are no forks")
    return float((helped & hurt).sum() / there.sum())


def excluded_quantile(signal: Float[np.ndarray, "forks"], dropped: Bool[np.ndarray, "forks"]) -> Figure:
    """The mean quantile, within the retained forks' signals, of the signal on the excluded forks.

    A value's quantile is the share of retained signals below it, and half of those equal to it.
    """
    known = ~np.isnan(signal)
    retained, excluded = np.sort(signal[known & ~dropped]), signal[known & dropped]
    if not len(excluded):
        return Undefined("no fork with this signal was excluded")
    if not len(retained):
        return Undefined("no fork with this signal was retained")
    below = np.searchsorted(retained, excluded, side="left") + np.searchsorted(retained, excluded, side="right")
    return float(below.mean() / (2 * len(retained)))


def _pearson(x: Float[np.ndarray, "forks"], y: Float[np.ndarray, "forks"]) -> Figure:
    if len(x) < 3:
        return Undefined(f"a correlation needs at least three forks, and there are {len(x)}")
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return Undefined("one of the two does not vary over these forks")
    dx, dy = x - x.mean(), y - y.mean()
    size = np.sqrt(dx @ dx) * np.sqrt(dy @ dy)
    if size == 0:
        return Undefined("one of the two varies by too little to square")
    return float(np.clip(dx @ dy / size, -1, 1))
