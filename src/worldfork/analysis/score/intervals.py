"""Intervals on a handful of clusters (paper, "Measurement error, plasticity, and the dose interval").

The percentile bootstrap is the paper's interval, Student-t the one to believe: with five clusters the former covers
about 84% (docs/scoring.md has the simulation).
"""

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from jaxtyping import Float, Int
from scipy import special, stats

from worldfork.analysis.score.clusters import ClusterMeans
from worldfork.analysis.score.undefined import Bounds, Figure, Interval, Undefined
from worldfork.randomness import Event, Purpose, generator
from worldfork.triggers import CellKey

ENUMERATED = 6  # up to so many clusters all n**n resamples are listed: exact, no seed
RESAMPLES = 20_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class MeanOf:
    """A mean over checkpoints and its Student-t interval."""

    mean: Figure
    student_t: Bounds


@dataclasses.dataclass(frozen=True, kw_only=True)
class Intervals:
    """Both 95% intervals of a mean over checkpoints."""

    bootstrap: Bounds
    student_t: Bounds


@dataclasses.dataclass(frozen=True, kw_only=True)
class Skew:
    """Skewness of cluster means, and an interval of their mean that is corrected for it."""

    skewness: Figure
    shortfall: Figure  # of coverage: how far a nominal 95% Student-t interval falls short, about
    johnson: Bounds  # by Johnson's modified t
    words: str  # the shortfall in a sentence; empty where it is too small to matter


NOT_COMPUTED: Final = Undefined("it was not computed")


@dataclasses.dataclass(frozen=True, kw_only=True)
class MeanEstimate(Intervals):
    """A mean over checkpoints, its intervals, its minimum detectable effect, and p of there being none."""

    mean: Figure
    mde: Figure
    p_student_t: Figure
    p_sign_flip: Figure
    skew: Skew | Undefined = NOT_COMPUTED


@dataclasses.dataclass(frozen=True, kw_only=True)
class MeanByCheckpoint(MeanEstimate):
    """A mean over checkpoints with the mean of each."""

    by_checkpoint: Mapping[str, Figure]

    @property
    def means(self) -> ClusterMeans:
        """The means of the checkpoints that have one."""
        return np.array([mean for mean in self.by_checkpoint.values() if not isinstance(mean, Undefined)])


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClusterMean:
    """A mean over few clusters; below three of them the interval is their range, and `kind` is "min-max"."""

    value: Figure
    interval: Bounds
    kind: str
    student_t: Bounds
    clusters: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class LeaveOneOut:
    """The range of the end of the Student-t interval that is nearer to 0 when one checkpoint is left out."""

    low: Figure
    high: Figure
    crosses: tuple[str, ...]  # the checkpoints without which the interval reaches 0


# One number per figure that resamples. Figures never share draws, so leaving one out changes no other.
FIGURES = {"clusters": 1, "contraction": 2, "control": 3, "signs": 4, "wild": 5, "swap": 6, "thresholds": 7}
ROUNDING: Final = 1e-9  # relative: what is nearer than this is equal


def figure_draws(figure: str, *, seed: int, task: str, cell: CellKey | None = None) -> np.random.Generator:
    """Return the draws of a figure on a whole task, or in one cell."""
    where = {} if cell is None else vars(cell)
    return generator(Event(purpose=Purpose.RESAMPLING, seed=seed, task=task, step=FIGURES[figure], **where))


def middle_95(values: Float[np.ndarray, "*some draws"]) -> Float[np.ndarray, "2 *some"]:
    """Return both ends of the middle 95% of draws."""
    return np.quantile(values, [0.025, 0.975], axis=-1)


def bootstrap(values: ClusterMeans, *, seed: int, task: str) -> Bounds:
    """Return the 95% percentile interval of the mean over resampled clusters."""
    if len(values) < 2:
        return Undefined(_too_few(len(values)))
    means = times_drawn(len(values), seed, task) @ values / len(values)
    return Interval(*middle_95(means).tolist())


def student_t(values: ClusterMeans) -> Bounds:
    """Return the 95% interval of the mean with n - 1 degrees of freedom."""
    if len(values) < 2:
        return Undefined(_too_few(len(values)))
    return around(values, float(special.stdtrit(len(values) - 1, 0.975)))


def around(values: ClusterMeans, errors: float) -> Interval:
    """Return the mean less and plus so many standard errors."""
    centre, half = float(values.mean()), errors * float(values.std(ddof=1)) / math.sqrt(len(values))
    return Interval(centre - half, centre + half)


def no_spread(values: ClusterMeans) -> Undefined | None:
    """Return why an effect has neither interval nor p where every cluster has the same one; None where they differ.

    A spread of 0 says that the measure is too coarse to show one, or that the clusters are copies, and not that the
    effect is known exactly. No effect anywhere is what it is: 0.
    """
    if len(values) < 2 or not values.any() or not np.ptp(values) <= ROUNDING * np.abs(values).max():
        return None
    return Undefined(
        f"all {len(values)} checkpoints have the same mean, and without a spread there is no interval: are they "
        "copies of one, or is the return too coarse to tell them apart?"
    )


def difference_t(values: ClusterMeans) -> Bounds:
    """Return the 95% interval of a mean that is 0 where there is no effect; undefined without a spread."""
    return no_spread(values) or student_t(values)


def detectable(values: ClusterMeans) -> Figure:
    """Return the minimum detectable effect at 80% power: (t_{.975, n-1} + z_{.80}) s / sqrt(n)."""
    if len(values) < 2:
        return Undefined(_too_few(len(values)))
    error = float(values.std(ddof=1)) / math.sqrt(len(values))
    return float(special.stdtrit(len(values) - 1, 0.975) + stats.norm.ppf(0.80)) * error


def cluster_interval(values: ClusterMeans, *, seed: int, task: str) -> ClusterMean:
    """Return the mean over clusters with its bootstrap interval; below three clusters their range, and it says
    so."""
    if not len(values):
        raise ValueError("no clusters: say why before coming here")
    few = len(values) < 3
    spread = Interval(float(values.min()), float(values.max()))
    return ClusterMean(
        value=float(values.mean()),
        interval=spread if few else bootstrap(values, seed=seed, task=task),
        kind="min-max" if few else "bootstrap",
        student_t=student_t(values),
        clusters=len(values),
    )


def jackknife(value: float, off: Float[np.ndarray, "left_out"]) -> Interval:
    """Return the 95% interval of the delete-one jackknife, from how far estimates without one cluster lie off."""
    count = len(off)
    error = math.sqrt((count - 1) / count * float((off**2).sum()))
    half = float(stats.t.ppf(0.975, count - 1)) * error
    return Interval(value - half, value + half)


def fieller(leading: float, middle: float, last: float) -> Interval | None:
    """Return every x at which a + b x is not distinguishable from 0; None where b is not, so that x may be any.

    With s the covariance of a and b times the squared quantile, these x solve leading x^2 - 2 middle x + last <= 0,
    of b^2 - s_bb, s_ab - a b and a^2 - s_aa (Fieller, "Some problems in interval estimation", Journal of the Royal
    Statistical Society B 1954).
    """
    if leading <= 0:
        return None
    root = math.sqrt(max(middle * middle - leading * last, 0.0))
    return Interval(float((middle - root) / leading), float((middle + root) / leading))


def _too_few(count: int) -> str:
    return f"an interval over checkpoints needs at least two of them, and there {'is one' if count else 'are none'}"


def leave_one_out(values: ClusterMeans, names: Sequence[str]) -> LeaveOneOut | Undefined:
    """Return the range, over checkpoints left out, of the interval's end that is nearer to 0: the lower end of a
    mean above 0, the upper end of one below."""
    if len(values) < 3:
        return Undefined(f"leaving a checkpoint out needs at least three of them, and there are {len(values)}")
    if alike := no_spread(values):
        return alike
    upward = values.mean() > 0
    ends = []
    for index in range(len(values)):
        interval = student_t(np.delete(values, index))
        assert not isinstance(interval, Undefined)
        ends.append(interval[0] if upward else interval[1])
    crosses = tuple(name for name, end in zip(names, ends, strict=True) if (end <= 0 if upward else end >= 0))
    return LeaveOneOut(low=float(min(ends)), high=float(max(ends)), crosses=crosses)


@functools.lru_cache(maxsize=2)
def resamples(count: int, seed: int, task: str) -> Int[np.ndarray, "resamples {count}"]:
    """Return every resample of so many clusters, or 20,000 that are drawn."""
    if count <= ENUMERATED:
        return np.indices((count,) * count).reshape(count, -1).T
    return figure_draws("clusters", seed=seed, task=task).integers(0, count, (RESAMPLES, count))


@functools.lru_cache(maxsize=2)
def times_drawn(count: int, seed: int, task: str) -> Float[np.ndarray, "resamples {count}"]:
    """Return how often each resample has each cluster."""
    chosen = resamples(count, seed, task)
    offset = chosen + count * np.arange(len(chosen))[:, None]
    return np.bincount(offset.ravel(), minlength=chosen.size).reshape(chosen.shape).astype(np.float64)


ALPHA: Final = 0.05
FEWEST: Final = 8  # checkpoints; with fewer the interval is too wide to be of use
SCALE: Final = 1.0  # standard deviation of the mixture over mean / deviation


def anytime_interval(values: ClusterMeans) -> Bounds:
    """Return the 95% interval of the mean, valid at every number of checkpoints at once."""
    if len(values) < FEWEST:
        return Undefined(
            f"an anytime-valid interval is shown from {FEWEST} checkpoints on, and there "
            f"{'is' if len(values) == 1 else 'are'} {len(values)}: with fewer it is too wide to be of use"
        )
    return no_spread(values) or around(values, half_width(len(values)))


def half_width(count: int, *, alpha: float = ALPHA) -> float:
    """Return how many standard errors the interval reaches to each side; infinite where no number would do.

    With q = t^2 / (n - 1) and r = 1 + n scale^2 the mixture is sqrt(1 / r) ((1 + q) / (1 + q / r))^(n / 2). It
    stays below 1 / alpha for q up to (K - 1) / (1 - K / r), K = (r / alpha^2)^(1 / n).

    >>> [round(half_width(n), 2) for n in (5, 15, 100)]
    [8.45, 3.54, 3.35]
    """
    ratio = 1 + count * SCALE**2
    bound = (ratio / alpha**2) ** (1 / count)
    if count < 2 or bound >= ratio:
        return math.inf
    return math.sqrt((count - 1) * (bound - 1) / (1 - bound / ratio))


SIGNIFICANT: Final = 0.05
NOTICED: Final = 0.02  # of coverage: a smaller shortfall is not worth a sentence


def skew(values: ClusterMeans) -> Skew | Undefined:
    """Return the skewness of cluster means, what it takes from the coverage of Student's t, and Johnson's interval.

    Student's interval is symmetric, and with n skewed means it holds the true one less often than it says: by
    about .25 g^2 / n, for skewness g (benchmarks/inference.py has the simulation). Johnson's modified t moves the
    interval by what the third moment says (Johnson, "Modified t tests and confidence intervals for asymmetrical
    populations", Journal of the American Statistical Association 1978). Sign flips assume symmetry, and so does
    Hodges and Lehmann's estimate: neither is a remedy.

    >>> round(skew(np.array([1.0, 2.0, 3.0, 10.0])).skewness, 2)
    1.76
    """
    count = len(values)
    if count < 3:
        return Undefined(f"skewness needs at least three checkpoints, and there are {count}")
    interval = no_spread(values) or student_t(values)
    if isinstance(interval, Undefined) or not np.ptp(values):
        return Undefined("skewness needs checkpoints that differ")
    deviations = values - values.mean()
    third = float((deviations**3).sum()) * count / ((count - 1) * (count - 2))
    shift = third / (6 * float(values.var(ddof=1)) * count)
    skewness = float(stats.skew(values, bias=False))
    shortfall = 0.25 * skewness**2 / count
    return Skew(
        skewness=skewness,
        shortfall=shortfall,
        johnson=Interval(interval.low + shift, interval.high + shift),
        words=""
        if shortfall <= NOTICED
        else f"The means of {count} checkpoints are skewed ({skewness:+.1f}): a nominal 95% interval covers less, "
        f"about {100 * max(0.0, 0.95 - shortfall):.0f}% by a formula for many checkpoints.",
    )
