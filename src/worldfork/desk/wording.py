"""Numbers as people read them; an undefined one is a dash."""

from typing import Any

__all__ = ["DASH", "digits_for", "number", "rate", "span", "with_span"]

DASH = "–"


def digits_for(effect: Any) -> int:
    """How many decimals an effect and its interval deserve: returns of one task run to 1,000, of another to 1."""
    known = [effect["mean"], *(effect["student_t"] or ())]
    size = max((abs(value) for value in known if value is not None), default=100.0)
    return 1 if size >= 10 else 2 if size >= 1 else 3


def number(value: Any, digits: int = 1) -> str:
    """A signed number: an effect has a direction.

    >>> number(-113.42), number(None), number(0.04)
    ('-113.4', '–', '+0.0')
    """
    return DASH if value is None else f"{value:+,.{digits}f}"


def rate(value: Any, digits: int = 3) -> str:
    """A number between 0 and 1.

    >>> rate(0.9187), rate(0.00004), rate(1.0)
    ('.919', '<.001', '1')
    """
    if value is None:
        return DASH
    smallest = 10**-digits
    if 0 < value < smallest:
        return f"<.{smallest:.{digits}f}".replace(".0.", ".")
    text = f"{value:.{digits}f}"
    return "1" if float(text) == 1 else text.replace("0.", ".", 1)


def span(interval: Any, digits: int = 1) -> str:
    """An interval.

    >>> span([-131.2, 90.14]), span(None)
    ('[-131.2, +90.1]', '–')
    """
    return DASH if interval is None else f"[{number(interval[0], digits)}, {number(interval[1], digits)}]"


def with_span(value: Any, interval: Any, digits: int = 1) -> str:
    """A number with its interval, where there is one.

    >>> with_span(-113.42, [-131.2, -90.14]), with_span(1.0, None)
    ('-113.4 [-131.2, -90.1]', '+1.0')
    """
    return number(value, digits) if interval is None else f"{number(value, digits)} {span(interval, digits)}"
