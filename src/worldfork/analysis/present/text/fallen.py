"""The value of updating by how far the frozen model has fallen, in sentences."""

from worldfork.analysis.present.text.formatting import defined, digits_for, with_span
from worldfork.analysis.score.judgement import FreshSeverity, Severity
from worldfork.analysis.score.records import TaskScore
from worldfork.analysis.score.undefined import Interval

__all__ = [
    "CROSSING_CAVEAT",
    "SEVERITY_CAVEAT",
    "crossing_words",
    "fallen_lead",
    "severity_words",
    "share_of_clean",
]

SEVERITY_CAVEAT = (
    "Some of a fork's episodes say how far the model had fallen and the others what updating was worth, so chance "
    "does not count for both; the intervals are not corrected."
)
CROSSING_CAVEAT = "The crossing was fitted to these very forks: a rule made of it has yet to be tested on others."


Class = tuple[Severity, FreshSeverity, Interval]


def fallen_lead(score: TaskScore) -> str:
    """Return the words that introduce the two sentences below: strong ones where most and least fallen differ."""
    ends = _ends(score)
    if ends and (ends[0][2].low > ends[1][2].high or ends[0][2].high < ends[1][2].low):
        return "It depends on how far the model has fallen."
    return "By how far the model has fallen:"


def severity_words(score: TaskScore) -> str:
    """Return a sentence about the most and the least fallen models; empty where neither has an effect.

    Both means are of fresh episodes: those that did not say how far the model had fallen.
    """
    ends = _ends(score)
    if ends is None or all(interval.low <= 0 <= interval.high for _, _, interval in ends):
        return ""
    digits = digits_for(score.effect.all_attempted)
    most, least = (
        f"{with_span(fresh.mean, interval, digits)} where the frozen model returns {share_of_clean(band)}"
        for band, fresh, interval in ends
    )
    return f"Updating is worth {most} of its clean return, and {least}."


def _ends(score: TaskScore) -> tuple[Class, Class] | None:
    """Return the most and the least severe class that have a fresh mean with its interval."""
    classes = [
        (band, fresh, interval)
        for band in defined(score.severity) or ()
        if (fresh := defined(band.fresh)) is not None and (interval := defined(fresh.student_t)) is not None
    ]
    return (classes[0], classes[-1]) if len(classes) > 1 else None


def share_of_clean(band: Severity) -> str:
    """Return a band in per cent of the clean return, as in "50% to 75%"."""
    low, high = (None if end is None else f"{100 * end:g}%" for end in (band.low, band.high))
    if low is None:
        return f"below {high}"
    return f"{low} and more" if high is None else f"{low} to {high}"


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
