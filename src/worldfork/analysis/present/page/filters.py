"""How the template spells a number: a true minus sign, and a word with its reason where there is none."""

import math
from collections.abc import Callable
from typing import Final

from markupsafe import Markup, escape

from worldfork.analysis.present import text as wording
from worldfork.analysis.present.page.view import Bar, Part
from worldfork.analysis.score.undefined import Figure, Interval, Undefined

__all__ = ["FILTERS", "count", "is_figure", "number", "rate", "rate_with_span", "unsigned", "with_span"]


def is_figure(value: object) -> bool:
    """Whether there is anything to print."""
    return value is not None and not isinstance(value, Undefined)


def number(value: Figure, digits: int = 1) -> str:
    """A signed number."""
    return _reason(value) if isinstance(value, Undefined) else _data(value, wording.number(value, digits))


def unsigned(value: Figure, digits: int = 1) -> str:
    """A number that has no direction."""
    if isinstance(value, Undefined):
        return _reason(value)
    return _data(value, wording.number(value, digits).removeprefix("+"))


def bound(value: float) -> str:
    """A bound as it was registered, with no more digits than that; 0 has no sign."""
    return wording.minus(f"{value:+,.10g}") if value else "0"


def span(value: Interval | Undefined, digits: int = 1) -> str:
    """An interval."""
    if isinstance(value, Undefined):
        return _reason(value)
    return Markup('<data value="{}">{}</data>').format(list(value), wording.minus(wording.span(value, digits)))


def with_span(value: Figure, interval: Interval | Undefined, digits: int = 1) -> Markup:
    """A number, and its interval below it."""
    return Markup('{} <div class="small">{}</div>').format(number(value, digits), span(interval, digits))


def rate(value: Figure) -> str:
    """A number between 0 and 1."""
    return _reason(value) if isinstance(value, Undefined) else _data(value, wording.rate(value))


def rate_with_span(value: Figure, interval: Interval) -> Markup:
    """A number between 0 and 1, and its interval below it."""
    ends = f"[{wording.rate(interval.low)}, {wording.rate(interval.high)}]"
    return Markup('{} <div class="small"><data value="{}">{}</data></div>').format(
        rate(value), list(interval), ends
    )


def percent(value: Figure) -> str:
    """A share, signed."""
    return _reason(value) if isinstance(value, Undefined) else _data(value, wording.percent(value))


def count(value: int | Undefined) -> str:
    """How many."""
    if isinstance(value, Undefined):
        return _reason(value)
    return Markup('<data value="{}">{}</data>').format(value, f"{value:,}")


def tick(value: float) -> str:
    """A number at an axis."""
    return wording.minus(f"{value:,.10g}")


def spread(variance: Figure) -> str:
    """A standard deviation; an estimated variance below zero has none."""
    if isinstance(variance, Undefined):
        return _reason(variance)
    return "none" if variance < 0 else f"{math.sqrt(variance):,.1f}"


def bar_row(bar: Bar) -> list[float | int]:
    """A bar of a histogram, for who exports it."""
    return [bar.low, bar.high, bar.forks]


def forks_of(part: Part, side: str) -> int:
    """How many forks of a part are scored."""
    return part.forks(side)


def ticked(text: str) -> Markup:
    """A sentence with what stands between backticks as code."""
    pieces = [
        Markup("<code>{}</code>").format(piece) if place % 2 else escape(piece)
        for place, piece in enumerate(text.split("`"))
    ]
    return Markup("").join(pieces)


def words(name: str) -> str:
    """A field's name as words."""
    return name.replace("_", " ")


def _data(value: float, text: str) -> Markup:
    """The number as it is read, with every digit of it for who exports the table."""
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
    "percent": percent,
    "count": count,
    "tick": tick,
    "spread": spread,
    "listed": wording.listed,
    "forks_of": forks_of,
    "minus": wording.minus,
    "predicted_digits": wording.predicted_digits,
    "words": words,
    "ticked": ticked,
}
