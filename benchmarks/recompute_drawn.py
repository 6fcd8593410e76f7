"""Part of `recompute.py`: figures for which the analysis draws patterns, since there are too many to list.

Its draws are not repeated. A share is computed exactly, or drawn by another generator, and an end of an interval of
draws is another interval: how far apart two such figures may lie follows from how many draws there were. Five
standard errors leave one false alarm in a million figures.
"""

import math

import numpy as np

WIDE = 5.0  # standard errors
RESAMPLES = 20_000  # of the analysis: of checkpoints, and orders of them
SIGN_PATTERNS = 100_000


class Near(float):
    """A figure whose printed counterpart was drawn, and lies between `low` and `high`."""

    def __new__(cls, value, low, high):
        figure = super().__new__(cls, value)
        figure.low, figure.high = low, high
        return figure


def near_share(share, draws, own=math.inf):
    """A share that analysis counted in so many draws; `own` is in how many it was counted here, if not in all."""
    # Of something that was never seen, three in so many draws are not excluded.
    likely = max(share * (1 - share), 3 / min(draws, own))
    error = WIDE * math.sqrt(likely * (1 / draws + 1 / own))
    return Near(share, share - error, share + error + 1 / draws)


def near_ends(values, draws):
    """The middle 95% of drawn values, where the analysis has that of so many other draws of the same."""
    values = np.sort(values)
    ends = []
    for level in (0.025, 0.975):
        error = WIDE * math.sqrt(level * (1 - level) * (1 / draws + 1 / len(values)))
        span = np.quantile(values, [max(0.0, level - error), min(1.0, level + error)])
        ends.append(Near(np.quantile(values, level), *span))
    return ends


def near_mean(mean, deviation, draws):
    """A mean that is known, where the analysis has that of so many draws."""
    error = WIDE * deviation / math.sqrt(draws) + 1e-9 * max(1.0, abs(mean))
    return Near(mean, mean - error, mean + error)


def chosen(count, times):
    """So many resamples of `count` checkpoints, by a generator of this program's own."""
    return np.random.default_rng(20_26).integers(0, count, (times, count))
