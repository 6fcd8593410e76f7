"""Is an effect small enough to be called none? Absence of evidence does not say so; two one-sided tests can.

Schuirmann, "A comparison of the two one-sided tests procedure and the power approach for assessing the
equivalence of average bioavailability", Journal of Pharmacokinetics and Biopharmaceutics 1987. The margin is
registered.
"""

import math
from typing import Final

import numpy as np
from jaxtyping import Float
from scipy import stats

from worldfork.desk.scoring.few_clusters import SIGNIFICANT
from worldfork.desk.scoring.judgement import Equivalence
from worldfork.desk.scoring.undefined import Figure, Interval, Undefined
from worldfork.errors import WorldforkError

__all__ = ["equivalence"]

CONFIDENCE: Final = 1 - 2 * SIGNIFICANT


def equivalence(values: Float[np.ndarray, "clusters"], *, margin: float) -> Equivalence:
    """Equivalent where |mean| < margin by both tests at 5%; different where the 90% interval lies outside the
    margin altogether; else not shown."""
    if not margin > 0:
        raise WorldforkError(f"An equivalence margin is above 0; got {margin:g}. Register how much would matter.")
    if len(values) < 2:
        why = Undefined(f"two one-sided tests need at least two checkpoints, and there are {len(values)}")
        mean: Figure = float(values.mean()) if len(values) else why
        return Equivalence(
            margin=margin,
            mean=mean,
            interval=why,
            p=why,
            least_margin=why,
            clusters=len(values),
            answer="not shown",
        )
    centre, error, freedom = (
        float(values.mean()),
        float(values.std(ddof=1)) / math.sqrt(len(values)),
        len(values) - 1,
    )
    half = float(stats.t.ppf(1 - SIGNIFICANT, freedom)) * error
    low, high = centre - half, centre + half
    if error > 0:
        p = float(stats.t.sf((margin - abs(centre)) / error, freedom))
    else:
        p = 0.0 if abs(centre) < margin else 1.0
    outside = low > margin or high < -margin
    return Equivalence(
        margin=margin,
        mean=centre,
        interval=Interval(low, high),
        p=p,
        least_margin=max(abs(low), abs(high)),
        clusters=len(values),
        answer="equivalent" if p < SIGNIFICANT else "different" if outside else "not shown",
    )
