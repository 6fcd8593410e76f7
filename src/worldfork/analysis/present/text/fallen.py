"""The value of updating by how far the frozen model has fallen, in sentences."""

from worldfork.analysis.present.text.formatting import digits_for, known, with_span
from worldfork.analysis.score.judgement import FreshSeverity, Severity
from worldfork.analysis.score.records import TaskScore
from worldfork.analysis.score.undefined import Interval

__all__ = ["CROSSING_CAVEAT", "SEVERITY_CAVEAT", "crossing_words", "severity_words", "share_of_clean"]

SEVERITY_CAVEAT = (
    "Some of a fork's episodes say how far the model had fallen and the others what updating was worth, so chance "
    "does not count for both; the intervals are not corrected."
)
CROSSING_CAVEAT = "The crossing was fitted to these very forks: a rule made of it has yet to be tested on others."


def severity_words(score: TaskScore) -> str:
    """Return a sentence about the most and the least fallen models; empty where neither has an effect.

    Both means are of fresh episodes: those that did not say how far the model had fallen.
    """
    bands = [
        (band, fresh, ends)
        for band in known(score.severity) or ()
        if (fresh := known(band.fresh)) is not None and (ends := known(fresh.student_t)) is not None
    ]
    if len(bands) < 2 or all(_contains_zero(ends) for _, _, ends in (bands[0], bands[-1])):
        return ""
    digits = digits_for(score.effect.all_attempted)
    most, least = (_worth(band, fresh, digits) for band, fresh, _ in (bands[0], bands[-1]))
    return f"Updating is worth {most} of its clean return, and {least}."


def _contains_zero(ends: Interval) -> bool:
    return ends.low <= 0 <= ends.high


def _worth(band: Severity, fresh: FreshSeverity, digits: int) -> str:
    return f"{with_span(fresh.mean, fresh.student_t, digits)} where the frozen model returns {share_of_clean(band)}"


def share_of_clean(band: Severity) -> str:
    """Return a band in per cent of the clean return, as in "50% to 75%"."""
    low, high = (None if end is None else f"{100 * end:g}%" for end in (band.low, band.high))
    if low is None:
        return f"below {high}"
    return f"{low} and more" if high is None else f"{low} to {high}"


def crossing_words(score: TaskScore) -> str:
    """Return where the returns of both branches are equal; empty where the slope can not be told from 1."""
    fit = score.contraction
    slope, crossing, ends = known(fit.slope_interval), known(fit.crossing), known(fit.crossing_interval)
    if slope is None or slope.high >= 1 or crossing is None or ends is None:
        return ""
    digits = max(0, digits_for(score.effect.all_attempted) - 1)
    where = with_span(crossing, ends, digits).replace("+", "")
    return f"On average an update gains where the frozen model returns less than {where}, and loses above."
