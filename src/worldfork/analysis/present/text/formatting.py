"""Numbers as people read them, with every digit behind them; an undefined one is a dash with its reason."""

import re
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from worldfork.analysis.present.table import Cell
from worldfork.analysis.present.text.terms import TERMS
from worldfork.analysis.score.rankings import Ranking
from worldfork.analysis.score.undefined import Bounds, Figure, Interval, Undefined

WIDEST: Final = 1e10  # beyond it digits say nothing that an exponent does not
DASH: Final = "–"
T = typing.TypeVar("T")


def defined(figure: T | Undefined) -> T | None:
    """Return the figure, or None where it is undefined.

    >>> defined(1.5), defined(Undefined("one class only"))
    (1.5, None)
    """
    return None if isinstance(figure, Undefined) else figure


@typing.runtime_checkable
class Estimated(typing.Protocol):
    """A mean over checkpoints with its Student-t interval."""

    @property
    def mean(self) -> Figure: ...

    @property
    def student_t(self) -> Bounds: ...


def digits_for(effect: Estimated) -> int:
    """Return the decimals of a mean and its interval: returns run to 1,000 in one task, to 1 in another."""
    values = [defined(effect.mean), *(defined(effect.student_t) or ())]
    return decimals(max((abs(value) for value in values if value is not None), default=100.0))


def decimals(size: float) -> int:
    """Return how many decimals a number of this size deserves."""
    return 1 if size >= 10 or size == 0 else 2 if size >= 1 else 3


def signal_digits(value: float) -> int:
    """Return how many decimals show three digits of a signal: signals have scales of their own."""
    size, digits = abs(value), 2
    while 0 < size < 1 and digits < 9:
        size, digits = 10 * size, digits + 1
    return digits


def number(value: Figure | None, digits: int = 1) -> str:
    """Return a signed number: an effect has a direction.

    >>> number(-113.42), number(None), number(0.04), number(-2.7e33)
    ('-113.4', '–', '+0.0', '-2.7e+33')
    """
    if value is None or isinstance(value, Undefined):
        return _absent(value)
    return Cell(f"{value:+,.{digits}f}" if abs(value) < WIDEST else f"{value:+.1e}", values=(value,))


def _absent(value: Undefined | None) -> Cell:
    return Cell(DASH, note="" if value is None else value.why)


def unsigned(value: Figure | None, digits: int = 1) -> str:
    """Return a number without a plus sign: a return, an error, a share.

    >>> unsigned(1113.42), unsigned(-0.5, 2)
    ('1,113.4', '-0.50')
    """
    return without_plus(number(value, digits))


def without_plus(text: str) -> str:
    """Return a number, perhaps with its interval, without plus signs: prices and returns have no direction."""
    values, note = (text.values, text.note) if isinstance(text, Cell) else ((), "")
    return Cell(text.replace("+", ""), values=values, note=note)


def rate(value: Figure | None, digits: int = 3) -> str:
    """Return a number between 0 and 1.

    >>> rate(0.9187), rate(0.00004), rate(1.0)
    ('.919', '<.001', '1')
    """
    if value is None or isinstance(value, Undefined):
        return _absent(value)
    smallest, text = 10**-digits, f"{value:.{digits}f}"
    if 0 < value < smallest:
        text = f"<.{smallest:.{digits}f}".replace(".0.", ".")
    return Cell("1" if text == f"{1:.{digits}f}" else text.replace("0.", ".", 1), values=(value,))


def percent(share: float, *, signed: bool = True) -> str:
    """Return a share as a percentage; a small one keeps a digit.

    >>> percent(-0.5306), percent(0.004), percent(0.62, signed=False)
    ('-53%', '+0.4%', '62%')
    """
    digits = 1 if 0 < abs(100 * share) < 1 else 0
    return f"{100 * share:+.{digits}f}%" if signed else f"{100 * share:.{digits}f}%"


def span(interval: Interval | Undefined | None, digits: int = 1) -> str:
    """Return an interval.

    >>> span(Interval(-131.2, 90.14)), span(None)
    ('[-131.2, +90.1]', '–')
    """
    if interval is None or isinstance(interval, Undefined):
        return _absent(interval)
    return Cell(f"[{number(interval.low, digits)}, {number(interval.high, digits)}]", values=tuple(interval))


def with_span(value: Figure | None, interval: Interval | Undefined | None, digits: int = 1) -> str:
    """Return a number with its interval, where there is one.

    >>> with_span(-113.42, Interval(-131.2, -90.14)), with_span(1.0, None)
    ('-113.4 [-131.2, -90.1]', '+1.0')
    """
    mean = number(value, digits)
    if value is None or isinstance(value, Undefined) or interval is None or isinstance(interval, Undefined):
        return mean
    return Cell(f"{mean} {span(interval, digits)}", values=(value, *interval))


def estimate(estimated: Estimated | Undefined | None, digits: int | None = None) -> str:
    """Return a mean with its Student-t interval; a dash where there is none."""
    return text_of(
        estimated, lambda mean: with_span(mean.mean, mean.student_t, digits_for(mean) if digits is None else digits)
    )


def word(value: str | int | Undefined | None) -> str:
    """Return a word or a count.

    >>> word("resolved"), word(12), word(Undefined("one checkpoint"))
    ('resolved', '12', '–')
    """
    return text_of(value, str)


def graded(grade: str | Undefined | None) -> str:
    """Return a grade of evidence with its definition."""
    return Cell(grade, "badge", note=TERMS.get(grade, "")) if isinstance(grade, str) else _absent(grade)


def text_of(record: T | Undefined | None, show: Callable[[T], str]) -> str:
    """Return what is shown of a record; a dash with the reason where it is undefined.

    >>> text_of(0.5, rate), text_of(Undefined("one checkpoint"), rate)
    ('.500', '–')
    """
    return _absent(record) if record is None or isinstance(record, Undefined) else show(record)


def listed(names: Sequence[str], *, last: str = "and") -> str:
    """Return a list in words.

    >>> listed(["a", "b", "c"]), listed(["0", "1"], last="or"), listed(["a"])
    ('a, b and c', '0 or 1', 'a')
    """
    return f" {last} ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def minus(text: str) -> str:
    """Return the text with true minus signs before numbers; hyphens inside words stay.

    >>> minus("Student-t [-113.4, -.5]")
    'Student-t [−113.4, −.5]'
    """
    return re.sub(r"(?<!\w)-(?=[\d.])", "\N{MINUS SIGN}", text)


AUC_RESTS_ON: Final = (
    "An AUC is the mean over the checkpoints that have forks both with dR > 0 and without; in brackets, how many "
    "checkpoints these are, where not all are."
)


def auc_with_checkpoints(ranking: Ranking, interval: str = "") -> str:
    """Return an AUC with the number of checkpoints that it rests on, `.825 (2 of 5)`; a dash where undefined."""
    rests = auc_rests_on(ranking)
    return " ".join(filter(None, (rate(ranking.auc), interval, f"({rests})" if rests else "")))


def auc_rests_on(ranking: Ranking) -> str:
    """Return `2 of 5` where two of five checkpoints have an AUC; nothing where all or none have."""
    checkpoints = ranking.auc_by_checkpoint
    every = len(checkpoints) if isinstance(checkpoints, Mapping) else 0
    return f"{ranking.auc_clusters} of {every}" if 0 < ranking.auc_clusters < every else ""


def auc_note(rankings: Mapping[str, Ranking]) -> str:
    """Return what `auc_rests_on` says of all signals in one sentence; empty where all checkpoints count."""
    ranked = {name: ranking for name, ranking in rankings.items() if not isinstance(ranking.auc, Undefined)}
    names: dict[str, list[str]] = {}
    for name, ranking in ranked.items():
        names.setdefault(auc_rests_on(ranking), []).append(name)
    parts = [
        f"{rests} checkpoints" + ("" if len(named) == len(ranked) else f" ({', '.join(named)})")
        for rests, named in names.items()
        if rests
    ]
    return f"AUC over {listed(parts)}: those with forks both with dR > 0 and without." if parts else ""
