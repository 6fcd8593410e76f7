"""The rule by which a study stops: a mean over checkpoints, looked at again after every further checkpoint.

A question is a mean over checkpoints: of dR, or of the difference of two arms. It is answered at the first look at
which its interval excludes 0. The intervals of all looks hold together: at the error rate of the question, none of
them misses the truth.

- `null = "mean"` tests that the mean is 0. Student's t, and the same t corrected for skewness by Hall's
  transformation, both have to pass a boundary. The boundaries spend the error rate over the looks: by a share t of
  the budget, t^2 of it. A quarter is held back, since with skewed means both exceed their level
  (docs/statistics.md has the simulation). Sources: Kim and DeMets, "Design and analysis of group sequential tests
  based on the type I error spending rate function", Biometrika 1987; Hall, "On the removal of skewness by
  transformation", Journal of the Royal Statistical Society B 1992; Jennison and Turnbull, "Interim analyses: the
  repeated confidence interval approach", Journal of the Royal Statistical Society B 1989.
- `null = "symmetry"` tests that means lie as likely above 0 as below it by the same amount. It bets on signs: the
  wealth has mean 1 at every look where the null is true, and passes 1 / (error rate) as rarely as the error rate
  says. Source: Ramdas, Ruf, Larsson and Koolen, "Admissible anytime-valid sequential inference must rely on
  nonnegative martingales", 2020.

Everything here is a function of the means in registered order, so that a ledger's looks can be calculated again.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Final, Literal

import numpy as np
from jaxtyping import Float
from scipy import special

Null = Literal["mean", "symmetry"]
Side = Literal["above", "below"]
Numbers = np.ndarray | np.float64  # one for each study, or of one study

HELD_BACK: Final = 0.25  # of the error rate, against skewness
BETS: Final = (0.5, 1.0, 2.0)  # in units of the root mean square of the means so far
ALIKE: Final = 1e-9  # means that differ by less, relative to the largest, show no spread
FARTHEST: Final = 10.0  # standard errors: a look that spends next to nothing of the error rate
NODES: Final = 128  # at which a density between two boundaries is known
LARGEST: Final = 700.0  # logarithm of a wealth that is shown
HALVINGS: Final = 80  # until an end of an interval is found
PLACES: Final = 512  # at which an end is looked for first


@dataclasses.dataclass(frozen=True)
class Plan:
    """The looks of a study in checkpoints, and the error rate of one question over all of them."""

    looks: tuple[int, ...]
    error_rate: float
    null: Null

    @property
    def budget(self) -> int:
        """The checkpoints of the last look."""
        return self.looks[-1]


@dataclasses.dataclass(frozen=True)
class Finding:
    """Figures of a question at a look. It is answered where `statistic` reaches `bound`."""

    mean: float
    statistic: (
        float | None
    )  # the smaller of both t where they have one sign, else 0; or the wealth. None: no spread
    bound: float
    low: float | None  # of the interval; None: it has no end
    high: float | None
    answer: Side | None  # the side of 0 on which all of the interval lies


def look(values: Float[np.ndarray, "checkpoints"], plan: Plan) -> Finding:
    """Return what the means of the first checkpoints say at a look of the plan.

    >>> plan = Plan((8, 9, 10, 11, 12), 0.05, "mean")
    >>> look(np.array([5.0, 4.0, 6.0, 5.0, 7.0, 5.5, 4.5, 6.0]), plan).answer
    'above'
    """
    mean = math.fsum(values.tolist()) / len(values)
    bound = critical_value(plan, len(values))
    if np.ptp(values) <= ALIKE * np.abs(values).max():
        return Finding(mean, None, bound, None, None, None)
    find = _mean_interval if plan.null == "mean" else _symmetry_interval
    statistic, low, high = find(values, bound)
    answer: Side | None = None
    if low is not None and low > 0:
        answer = "above"
    elif high is not None and high < 0:
        answer = "below"
    return Finding(mean, statistic, bound, low, high, answer)


def critical_value(plan: Plan, checkpoints: int) -> float:
    """Return the value that the statistic has to reach at a look of the plan."""
    if plan.null == "symmetry":
        return 1 / plan.error_rate
    at = plan.looks.index(checkpoints)
    spent = boundaries(plan.looks, (1 - HELD_BACK) * plan.error_rate)[at]
    # The tail of a normal variable as one of Student's t.
    return float(-special.stdtrit(checkpoints - 1, special.ndtr(-spent)))


def quadratic(share: float, error_rate: float) -> float:
    """Return the error rate that may be spent by a share of the budget."""
    return error_rate * share**2


@functools.lru_cache(maxsize=64)
def boundaries(
    looks: tuple[int, ...], error_rate: float, spend: Callable[[float, float], float] = quadratic
) -> tuple[float, ...]:
    """Return the boundary of each look in standard errors of a normal mean, two-sided.

    The chance to pass one of the first boundaries is what `spend` (share of the budget, error rate) allows there.
    Between the boundaries, the density of the statistic is carried from look to look by quadrature.

    >>> [round(bound, 2) for bound in boundaries((1, 2), 0.05)]
    [2.5, 2.02]
    """
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    places, mass = np.zeros(1), np.ones(1)  # at no checkpoint the statistic is 0
    bounds: list[float] = []
    used, before = 0.0, 0
    for count in looks:
        centres, spread = math.sqrt(before / count) * places, math.sqrt(1 - before / count)
        allowed = error_rate if count == looks[-1] else spend(count / looks[-1], error_rate)
        excess = functools.partial(_excess, centres=centres, mass=mass, spread=spread, allowed=allowed - used)
        bound = _bisected(lambda at, excess=excess: excess(at) > 0, 0.0, FARTHEST)  # type: ignore[misc]
        used = allowed + excess(bound)
        places = nodes * bound
        density = (
            np.exp(-(((places[:, None] - centres) / spread) ** 2) / 2) @ mass / (spread * math.sqrt(2 * math.pi))
        )
        mass = density * weights * bound
        bounds.append(bound)
        before = count
    return tuple(bounds)


def _excess(bound: float, *, centres: np.ndarray, mass: np.ndarray, spread: float, allowed: float) -> float:
    """Return by how much the chance to pass a bound now, and none before, exceeds what is allowed."""
    return float(2 * mass @ special.ndtr((centres - bound) / spread)) - allowed


def both_t(values: Float[np.ndarray, "*studies checkpoints"]) -> tuple[Numbers, Numbers]:
    """Return Student's t against 0, and the same corrected for skewness by Hall's transformation."""
    count = values.shape[-1]
    mean, deviation, skewness = _moments(values)
    ratio = mean / deviation
    corrected = ratio + skewness * ratio**2 / 3 + skewness**2 * ratio**3 / 27 + skewness / (6 * count)
    return math.sqrt(count) * ratio, math.sqrt(count) * corrected


def smaller_t(values: Float[np.ndarray, "*studies checkpoints"]) -> Numbers:
    """Return the one of both t that is nearer to 0; 0 where they differ in sign."""
    student, hall = both_t(values)
    agree = student * hall > 0
    return np.sign(student) * np.where(agree, np.minimum(np.abs(student), np.abs(hall)), 0.0)


def log_wealth(values: Float[np.ndarray, "*studies checkpoints"]) -> Numbers:
    """Return the logarithm of what equal bets on either sign have become, mixed over their sizes.

    A bet multiplies the wealth by exp(b z) / cosh(b z), z being a mean over the root mean square of those so far.
    Given its distance from 0, either sign of z is as likely under the null: the factor then has mean 1.
    """
    counts = np.arange(1, values.shape[-1] + 1)
    scale = np.sqrt(np.cumsum(values**2, axis=-1) / counts)
    moves = values / np.where(scale > 0, scale, 1.0)
    wealth = [(side * moves - _log_cosh(side * moves)).sum(axis=-1) for bet in BETS for side in (bet, -bet)]
    return special.logsumexp(np.array(wealth), axis=0) - math.log(len(wealth))


def _mean_interval(values: Float[np.ndarray, "checkpoints"], bound: float) -> tuple[float, float, float]:
    """Return the smaller t, and the ends of the means that one of both t does not reject."""
    count = len(values)
    mean, deviation, skewness = (float(moment) for moment in _moments(values))
    reach = bound / math.sqrt(count)
    ratios = [-reach, reach]
    for side in (-reach, reach):  # Hall's transformation, inverted
        shifted = side - skewness / (6 * count)
        inverse = (math.cbrt(1 + skewness * shifted) - 1) * 3 / skewness if abs(skewness) > ALIKE else shifted
        ratios.append(inverse)
    return float(smaller_t(values)), mean - deviation * max(ratios), mean - deviation * min(ratios)


def _symmetry_interval(
    values: Float[np.ndarray, "checkpoints"], bound: float
) -> tuple[float, float | None, float | None]:
    """Return the wealth, and the outermost centres that it does not reject; None where that may be any."""
    wealth = math.exp(min(float(log_wealth(values)), LARGEST))
    low, high = float(values.min()), float(values.max())
    reach = high - low
    places = np.linspace(low - reach, high + reach, PLACES)
    within = np.atleast_1d(log_wealth(values - places[:, None]) < math.log(bound))
    if within[0] or within[-1] or not within.any():
        return wealth, None, None
    first, last = int(within.argmax()), PLACES - 1 - int(within[::-1].argmax())

    def rejected(centre: float) -> bool:
        return float(log_wealth(values - centre)) >= math.log(bound)

    return (
        wealth,
        _bisected(rejected, float(places[first - 1]), float(places[first])),
        _bisected(lambda centre: not rejected(centre), float(places[last]), float(places[last + 1])),
    )


def _moments(values: Float[np.ndarray, "*studies checkpoints"]) -> tuple[Numbers, Numbers, Numbers]:
    """Return mean, standard deviation and skewness, the latter two adjusted for the number of values."""
    count = values.shape[-1]
    mean = values.mean(axis=-1)
    apart = values - mean[..., None]
    square, cube = (apart**2).mean(axis=-1), (apart**3).mean(axis=-1)
    skewness = math.sqrt(count * (count - 1)) / (count - 2) * cube / square**1.5
    return mean, np.sqrt(square * count / (count - 1)), skewness


def _log_cosh(values: np.ndarray) -> np.ndarray:
    return np.logaddexp(values, -values) - math.log(2)


def _bisected(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Return where a condition that holds at `low` ceases to hold; `high` where it does not."""
    if holds(high):
        return high
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return high
