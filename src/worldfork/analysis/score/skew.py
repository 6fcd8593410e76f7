"""Intervals of a mean over few checkpoints that are skewed.

Student's interval is symmetric, and with n skewed means it holds the true one less often than it says: by about .25
g^2 / n, for skewness g (benchmarks/inference.py has the simulation). Johnson's modified t moves the interval by
what the third moment says (Johnson, "Modified t tests and confidence intervals for asymmetrical populations",
Journal of the American Statistical Association 1978). Sign flips assume symmetry, and so does Hodges and Lehmann's
estimate: neither is a remedy.
"""

from typing import Final

import numpy as np
from jaxtyping import Float
from scipy import stats

from worldfork.analysis.score.intervals import no_spread, student_t
from worldfork.analysis.score.judgement import Skew
from worldfork.analysis.score.undefined import Interval, Undefined

NOTICED: Final = 0.02  # of coverage: a smaller shortfall is not worth a sentence


def skew(values: Float[np.ndarray, "clusters"]) -> Skew | Undefined:
    """Return the skewness of cluster means, what it takes from the coverage of Student's t, and Johnson's interval.

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
        words=_words(skewness, shortfall, count) if shortfall > NOTICED else "",
    )


def _words(skewness: float, shortfall: float, count: int) -> str:
    return (
        f"The means of {count} checkpoints are skewed ({skewness:+.1f}): a nominal 95% interval covers about "
        f"{100 * max(0.0, 0.95 - shortfall):.0f}%."
    )
