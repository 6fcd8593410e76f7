"""Filters of the templates: numbers with a true minus sign, and a word with its reason where there is none."""

import dataclasses
from collections.abc import Callable
from typing import Final

from markupsafe import Markup, escape

from worldfork.analysis.present import render
from worldfork.analysis.present.page.view import Bar, Part, curve_strip, rule_strip
from worldfork.analysis.present.table import Table
from worldfork.analysis.present.text import formatting as wording
from worldfork.analysis.present.text import value as value_words
from worldfork.analysis.present.text.answers import predicted_digits
from worldfork.analysis.present.text.deployments import forecast_words
from worldfork.analysis.score.undefined import Figure, Interval, Undefined


def is_figure(value: object) -> bool:
    """Return whether there is anything to print."""
    return value is not None and not isinstance(value, Undefined)


def number(value: Figure, digits: int = 1) -> str:
    """Return a signed number."""
    return _reason(value) if isinstance(value, Undefined) else _data(value, wording.number(value, digits))


def unsigned(value: Figure, digits: int = 1) -> str:
    """Return a number that has no direction."""
    if isinstance(value, Undefined):
        return _reason(value)
    return _data(value, wording.number(value, digits).removeprefix("+"))


def bound(value: float) -> str:
    """Return a bound with the digits that it was registered with; 0 has no sign."""
    return wording.minus(f"{value:+,.10g}") if value else "0"


def span(value: Interval | Undefined, digits: int = 1) -> str:
    """Return an interval."""
    if isinstance(value, Undefined):
        return _reason(value)
    return Markup('<data value="{}">{}</data>').format(list(value), wording.minus(wording.span(value, digits)))


def with_span(value: Figure, interval: Interval | Undefined, digits: int = 1) -> Markup:
    """Return a number with its interval below it."""
    return Markup('{} <div class="small">{}</div>').format(number(value, digits), span(interval, digits))


def rate(value: Figure) -> str:
    """Return a number between 0 and 1."""
    return _reason(value) if isinstance(value, Undefined) else _data(value, wording.rate(value))


def percent(value: Figure) -> str:
    """Return a share in per cent, signed."""
    return _reason(value) if isinstance(value, Undefined) else _data(value, wording.percent(value))


def count(value: int | Undefined) -> str:
    """Return a count."""
    if isinstance(value, Undefined):
        return _reason(value)
    return Markup('<data value="{}">{}</data>').format(value, f"{value:,}")


def tick(value: float) -> str:
    """Return the label of a tick."""
    return wording.minus(f"{value:,.10g}")


def bar_row(bar: Bar) -> list[float | int]:
    """Return a bar of a histogram for its CSV file."""
    return [bar.low, bar.high, bar.forks]


def forks_of(part: Part, side: str) -> int:
    """Return how many forks of a part are scored."""
    return part.forks(side)


def as_html(table: Table) -> Markup:
    """Return a table without its caption, which stands above it."""
    return Markup(render.html(dataclasses.replace(table, caption="")))  # noqa: S704 - render.html escapes every cell


def ticked(text: str) -> Markup:
    """Return a sentence with what stands between backticks as code."""
    pieces = [
        Markup("<code>{}</code>").format(piece) if place % 2 else escape(piece)
        for place, piece in enumerate(text.split("`"))
    ]
    return Markup("").join(pieces)


def _data(value: float, text: str) -> Markup:
    """Return the number as it is read, with every digit of it for the CSV file."""
    return Markup('<data value="{}">{}</data>').format(repr(float(value)), wording.minus(text))


def _reason(value: Undefined) -> Markup:
    return Markup('<abbr class="undefined" title="{}">undefined</abbr>').format(value.why)


FILTERS: Final[dict[str, Callable[..., object]]] = {
    "auc_rests_on": wording.auc_rests_on,
    "bar_row": bar_row,
    "number": number,
    "unsigned": unsigned,
    "bound": bound,
    "span": span,
    "with_span": with_span,
    "rate": rate,
    "curve_strip": curve_strip,
    "rule_strip": rule_strip,
    "as_html": as_html,
    "crossing_words": value_words.crossing_words,
    "curve_lead": value_words.curve_lead,
    "curve_words": value_words.curve_words,
    "trial_words": value_words.trial_words,
    "price_words": value_words.price_words,
    "skew_words": value_words.skew_words,
    "place_words": value_words.place_words,
    "level_words": value_words.level_words,
    "percent": percent,
    "count": count,
    "tick": tick,
    "forecast_words": forecast_words,
    "listed": wording.listed,
    "forks_of": forks_of,
    "minus": wording.minus,
    "predicted_digits": predicted_digits,
    "ticked": ticked,
}
