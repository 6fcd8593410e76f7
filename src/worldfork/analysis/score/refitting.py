"""Gains of a trigger with everything that is fitted, fitted anew: the delete-one jackknife of the whole pipeline.

A Student-t interval over checkpoints takes thresholds and the position table as given. Both are fitted on the other
checkpoints, so that one checkpoint moves the decisions on all others. Here each checkpoint is left out in turn, and
thresholds, table and the better of never and always are chosen again by what is left (MacKinnon, Nielsen and Webb,
"Fast and reliable jackknife and bootstrap methods for cluster-robust inference", Journal of Applied Econometrics
2023). It is conservative where a threshold jumps.
"""

import math
from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import stats

from worldfork.analysis.read.outcomes import Forks
from worldfork.analysis.score.clusters import partition
from worldfork.analysis.score.decisions import fit_threshold
from worldfork.analysis.score.policy_returns import ROUNDING, strata
from worldfork.analysis.score.undefined import Bounds, Interval, Undefined

Totals = Float[np.ndarray, "left checkpoints"]  # of each checkpoint, with another one left out; NaN of that one


def refitted_gains(
    forks: Forks, policies: Mapping[str, Float[np.ndarray, "forks"] | Bool[np.ndarray, "forks"]]
) -> dict[str, dict[str, Bounds]]:
    """Return the interval of each policy's gain over each baseline, with everything fitted anew.

    Args:
        forks: those that are scored.
        policies: by trigger, its signal, or where it alarms: then there is no threshold to fit.
    """
    parts, delta = partition(forks.prefork), forks.delta
    present, checkpoint = np.unique(parts.checkpoint, return_inverse=True)
    count = len(present)
    if count < 4:
        few = Undefined(f"fitting anew without a checkpoint needs at least four of them, and there are {count}")
        return {name: dict.fromkeys(_NAMES, few) for name in policies}
    forks_of = [checkpoint == index for index in range(count)]
    always = np.array([float(delta[mine].sum()) for mine in forks_of])
    baselines = _baselines(always, _table(forks, checkpoint, count))
    whole = _baselines_of_all(always, _table_of_all(forks, checkpoint, count))
    found = {}
    for name, values in policies.items():
        totals, of_all = _policy(values, delta, forks_of)
        found[name] = {
            baseline: _interval(
                np.nanmean(totals - baselines[baseline], axis=1), float((of_all - whole[baseline]).mean())
            )
            for baseline in _NAMES
        }
    return found


_NAMES = ("never", "always", "better_of_both", "position_table")


def _policy(
    values: Float[np.ndarray, "forks"] | Bool[np.ndarray, "forks"],
    delta: Float[np.ndarray, "forks"],
    forks_of: list[Bool[np.ndarray, "forks"]],
) -> tuple[Totals, Float[np.ndarray, "checkpoints"]]:
    """Return the totals of a policy, with each checkpoint left out and with none."""
    count = len(forks_of)
    if values.dtype == bool:
        fixed = np.array([float(delta[mine & values].sum()) for mine in forks_of])
        totals = np.tile(fixed, (count, 1))
        np.fill_diagonal(totals, np.nan)
        return totals, fixed
    totals, of_all = np.full((count, count), np.nan), np.empty(count)
    for first in range(count):
        rest = ~forks_of[first]
        of_all[first] = delta[forks_of[first] & (values >= fit_threshold(values[rest], delta[rest]))].sum()
        for second in range(first):  # the threshold without both serves either, where the other is left out
            rest = ~(forks_of[first] | forks_of[second])
            fired = values >= fit_threshold(values[rest], delta[rest])
            totals[second, first] = delta[forks_of[first] & fired].sum()
            totals[first, second] = delta[forks_of[second] & fired].sum()
    return totals, of_all


def _table(forks: Forks, checkpoint: Int[np.ndarray, "forks"], count: int) -> Totals:
    """Return the totals of the position table, fitted without a checkpoint's own forks and those left out."""
    sums, sizes, place, delta = _sums(forks, checkpoint, count)
    totals = np.full((count, count), np.nan)
    for left in range(count):
        rest = sums.sum(axis=0) - sums[left] - sums  # by checkpoint and place
        fires = rest > ROUNDING * sizes
        totals[left] = np.bincount(
            checkpoint, weights=np.where(fires[checkpoint, place], delta, 0.0), minlength=count
        )
        totals[left, left] = np.nan
    return totals


def _table_of_all(
    forks: Forks, checkpoint: Int[np.ndarray, "forks"], count: int
) -> Float[np.ndarray, "checkpoints"]:
    sums, sizes, place, delta = _sums(forks, checkpoint, count)
    fires = sums.sum(axis=0) - sums > ROUNDING * sizes
    earned = np.where(fires[checkpoint, place], delta, 0.0)
    return np.bincount(checkpoint, weights=earned, minlength=count).astype(np.float64)


def _sums(
    forks: Forks, checkpoint: Int[np.ndarray, "forks"], count: int
) -> tuple[
    Float[np.ndarray, "checkpoints places"],
    Float[np.ndarray, "places"],
    Int[np.ndarray, "forks"],
    Float[np.ndarray, "forks"],
]:
    """Return dR summed by checkpoint and (direction, k), its size by place, and the place of each fork."""
    place = strata(partition(forks.prefork).direction, forks.prefork.k)
    places, delta = int(place.max()) + 1, forks.delta
    sums = np.bincount(checkpoint * places + place, weights=delta, minlength=count * places).reshape(count, places)
    return sums, np.bincount(place, weights=np.abs(delta), minlength=places), place, delta


def _baselines(always: Float[np.ndarray, "checkpoints"], table: Totals) -> dict[str, Totals]:
    never = np.zeros((len(always), len(always)))
    each = np.tile(always, (len(always), 1))
    better = np.where((always.sum() - always > 0)[:, None], each, never)
    return dict(zip(_NAMES, (never, each, better, table), strict=True))


def _baselines_of_all(
    always: Float[np.ndarray, "checkpoints"], table: Float[np.ndarray, "checkpoints"]
) -> dict[str, Float[np.ndarray, "checkpoints"]]:
    never = np.zeros(len(always))
    return dict(zip(_NAMES, (never, always, always if always.sum() > 0 else never, table), strict=True))


def _interval(left_out: Float[np.ndarray, "checkpoints"], gain: float) -> Bounds:
    """Return the gain with Student's t and the delete-one jackknife's standard error."""
    count = len(left_out)
    error = math.sqrt((count - 1) / count * float(((left_out - left_out.mean()) ** 2).sum()))
    half = float(stats.t.ppf(0.975, count - 1)) * error
    return Interval(gain - half, gain + half)
