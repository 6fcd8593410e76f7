"""Sentences on what would pay: where updates do, trying before keeping, and the price of an update."""

import itertools
from collections.abc import Sequence
from typing import Final

from worldfork.analysis.present.table import Cell
from worldfork.analysis.present.text.formatting import (
    defined,
    digits_for,
    estimate,
    minus,
    number,
    span,
    with_span,
    without_plus,
)
from worldfork.analysis.present.text.triggers import candidates
from worldfork.analysis.score.curves import Curve, CurvePoint
from worldfork.analysis.score.intervals import Skew
from worldfork.analysis.score.records import TaskScore
from worldfork.analysis.score.undefined import Interval, Undefined
from worldfork.analysis.score.value import BreakEven, PriceRange, Prices
from worldfork.fixed_policies import FIXED_POLICIES

CURVE_CAVEAT: Final = (
    "Some of a fork's episodes say how far the model had fallen and the others what updating was worth, so chance "
    "does not count for both."
)
CROSSING_CAVEAT: Final = (
    "The crossing was fitted to these very forks: a rule made of it has yet to be tested on others."
)


def curve_lead(score: TaskScore) -> str:
    """Return the words that introduce `curve_words`: do updates pay somewhere, cost somewhere, or both?"""
    _, runs = _telling(score)
    signs = {points[0].mean > 0 for points in runs if not isinstance(points[0].mean, Undefined)}
    if len(signs) == 2:
        return "It depends on how far the model has fallen:"
    return "" if not signs else "Where it pays:" if signs.pop() else "Where it costs:"


def curve_words(score: TaskScore) -> str:
    """Return where updates pay and where they cost, as far as the band excludes 0; empty where it nowhere does.

    Places are shares of the clean return that the frozen model still has, and drift levels where those say nothing.
    """
    by_share, runs = _telling(score)
    digits = digits_for(score.effect.all_attempted)
    if not runs:
        return ""
    if by_share:
        subjects = ("where the frozen model returns {} of its clean return", "where it returns {}")
        places = [place_words(points[0].low, points[-1].high) for points in runs]
        where = [subjects[index > 0].format(place) for index, place in enumerate(places)]
        if not places[0]:
            where = ["whatever the frozen model still returns"]
    else:
        where = [f"at drift {level_words(points[0].low, points[-1].high)}" for points in runs]
    clauses = [f"{_worth(points, digits)} {place}" for points, place in zip(runs, where, strict=True)]
    return f"Updating is worth {', and '.join(clauses)} (simultaneous 95% band)."


def _telling(score: TaskScore) -> tuple[bool, list[list[CurvePoint]]]:
    """Return whether places are shares of the clean return, and the neighbouring places told from 0 by one sign."""
    for by_share, curve in ((True, score.curves.hold_share), (False, score.curves.level)):
        if runs := _runs(curve):
            return by_share, runs
    return False, []


def _runs(curve: Curve | Undefined) -> list[list[CurvePoint]]:
    if isinstance(curve, Undefined):
        return []
    groups = itertools.groupby(curve.points, key=lambda point: _sign(point.band))
    return [list(points) for sign, points in groups if sign]


def _sign(band: Interval | Undefined) -> int:
    """Return the sign of all of a band; 0 where it contains 0 or there is none."""
    return 0 if isinstance(band, Undefined) else int(band.low > 0) - int(band.high < 0)


def _worth(points: Sequence[CurvePoint], digits: int) -> str:
    """Return the mean with its band of one place, or the range of the means of several."""
    if len(points) == 1:
        return with_span(points[0].mean, defined(points[0].band), digits)
    means = sorted(mean for point in points if (mean := defined(point.mean)) is not None)
    return f"{number(means[0], digits)} to {number(means[-1], digits)}"


def place_words(low: float | None, high: float | None) -> str:
    """Return a range of shares in per cent; empty where it has no end.

    >>> place_words(None, 0.5), place_words(0.5, 0.75), place_words(0.95, None)
    ('below 50%', '50% to 75%', '95% and more')
    """
    lower, upper = (None if end is None else f"{100 * end:g}%" for end in (low, high))
    if lower is None:
        return "" if upper is None else f"below {upper}"
    return f"{lower} and more" if upper is None else f"{lower} to {upper}"


def level_words(low: float | None, high: float | None) -> str:
    """Return a range of drift levels: 0 is the clean world, 1 the whole registered drift."""
    first, last = (f"{end:.2g}" for end in (low or 0.0, high or 0.0))
    return first if first == last else f"{first} to {last}"


def trial_words(score: TaskScore) -> str:
    """Return what trying each update on one episode comes to; empty where forks have no episodes."""
    tried = defined(score.trials)
    if tried is None or "1" not in tried.by_episodes:
        return ""
    trial, digits = tried.by_episodes["1"], digits_for(score.effect.all_attempted)
    margin = f" by more than {tried.margin:g}" if tried.margin else ""
    words = (
        f"Evaluating each update on one episode and keeping it only if it won there{margin} is worth "
        f"{estimate(trial, digits)} where always updating is worth {number(tried.always, digits)}; the trial "
        "episode is not counted."
    )
    better, always = defined(trial.over_better.student_t), defined(tried.always)
    if better is None or always is None:
        return words
    if better.low > 0:
        return f"{words} A trial may cost up to {price(trial.break_even, digits)}."
    baseline = "always" if always > 0 else "never"
    than = f"less than {baseline} updating" if better.high < 0 else f"not shown to differ from {baseline} updating"
    difference = f" ({estimate(trial.over_better, digits)})" if always > 0 else ""
    return f"{words} It is {than}{difference}."


def price(even: BreakEven, digits: int) -> str:
    """Return a break-even price with its interval, without plus signs: prices have no direction."""
    return without_plus(with_span(even.price, defined(even.interval), digits))


DOES_NOT_PAY: Final = "does not pay"


def price_from_0(even: BreakEven, digits: int, *, below: str) -> str:
    """Return a break-even price with its interval; where it lies below 0 the words `below`, and the figure as their
    explanation."""
    shown, value = price(even, digits), defined(even.price)
    if value is None or value >= 0:
        return shown
    return Cell(below, note=f"The two are worth the same at {minus(shown)}.")


def price_words(score: TaskScore) -> str:
    """Return which policy is worth the most at which total price of an update, and at the registered one."""
    prices, digits = score.prices, digits_for(score.effect.all_attempted)
    cost, fitted = prices.update_cost, ""
    if prices.triggers:
        fitted = f", with thresholds fitted {fitted_at(cost)} (worldfork score --update-cost fits them at another)"
    ranges = [part for part in prices.best if defined(part.below) is None or part.below != part.above]
    only_fixed = all(part.policy in FIXED_POLICIES for part in ranges)
    if not ranges or not (cost or only_fixed or candidates(score).passing):
        return ""  # what is best in hindsight among triggers that do not beat chance says nothing
    if len(ranges) == 1:
        return f"{_policy(ranges[0].policy).capitalize()} is best at any price of an update{fitted}."
    clauses = []
    for part, following in itertools.pairwise(ranges):
        clauses.append(f"{_policy(part.policy)} up to {price(_until(prices, part, following.policy), digits)}")
    at_cost = f" At the registered {cost:g} it is {_policy(prices.best_at_cost)}." if cost else ""
    last = _policy(ranges[-1].policy)
    return (
        f"Best by the total price of an update, in hindsight{fitted}: {', '.join(clauses)}, {last} above.{at_cost}"
    )


def fitted_at(cost: float) -> str:
    """Return at which price thresholds are fitted.

    >>> fitted_at(0.0), fitted_at(12.0)
    ('at no price', 'at the registered price of 12')
    """
    return f"at the registered price of {cost:g}" if cost else "at no price"


def _policy(name: str) -> str:
    return f"{name} updating" if name in FIXED_POLICIES else name


def _until(prices: Prices, part: PriceRange, following: str) -> BreakEven:
    """Return the price at which one policy gives way to another; between two triggers it has no interval."""
    if following == "never":
        return prices.always if part.policy == "always" else prices.triggers[part.policy].over_never
    if part.policy == "always":
        return prices.triggers[following].over_always
    end = defined(part.below)
    assert end is not None  # another policy follows
    return BreakEven(price=end, interval=Undefined("two triggers are not compared"))


def skew_words(skew: Skew | Undefined, digits: int) -> str:
    """Return what skewed checkpoints take from an interval, and the corrected one; empty where that is little."""
    if isinstance(skew, Undefined) or not skew.words:
        return ""
    return f"{skew.words} Corrected for skewness (Johnson): {span(defined(skew.johnson), digits)}."


def crossing_words(score: TaskScore) -> str:
    """Return below which return updating gains; empty where the slope may be 1, or no forks lie on both sides."""
    fit = score.contraction
    slope, crossing, ends = defined(fit.slope_interval), defined(fit.crossing), defined(fit.crossing_interval)
    means = [mean for part in defined(fit.bins) or () if (mean := defined(part.mean)) is not None]
    seen = bool(means) and means[0] > 0 > means[-1]  # else the line is followed to where nothing was forked
    if slope is None or slope.high >= 1 or crossing is None or ends is None or not seen:
        return ""
    digits = max(0, digits_for(score.effect.all_attempted) - 1)
    where = with_span(crossing, ends, digits).replace("+", "")
    return f"On average an update gains where the frozen model returns less than {where}, and loses above."
