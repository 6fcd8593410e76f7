"""Numbers as people read them; an undefined one is a dash."""

import re
import typing
from collections.abc import Mapping, Sequence
from typing import Final

from worldfork.analysis.score.records import Ranking
from worldfork.analysis.score.undefined import Bounds, Figure, Interval, Undefined

WIDEST = 1e10  # beyond it digits say nothing that an exponent does not
DASH = "–"
T = typing.TypeVar("T")


def known(figure: T | Undefined) -> T | None:
    """The figure, or None where it is undefined.

    >>> known(1.5), known(Undefined("one class only"))
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
    """How many decimals an effect and its interval deserve: returns of one task run to 1,000, of another to 1."""
    values = [known(effect.mean), *(known(effect.student_t) or ())]
    size = max((abs(value) for value in values if value is not None), default=100.0)
    return 1 if size >= 10 or size == 0 else 2 if size >= 1 else 3


def number(value: Figure | None, digits: int = 1) -> str:
    """A signed number: an effect has a direction.

    >>> number(-113.42), number(None), number(0.04), number(-2.7e33)
    ('-113.4', '–', '+0.0', '-2.7e+33')
    """
    if value is None or isinstance(value, Undefined):
        return DASH
    return f"{value:+,.{digits}f}" if abs(value) < WIDEST else f"{value:+.1e}"


def rate(value: Figure | None, digits: int = 3) -> str:
    """A number between 0 and 1.

    >>> rate(0.9187), rate(0.00004), rate(1.0)
    ('.919', '<.001', '1')
    """
    if value is None or isinstance(value, Undefined):
        return DASH
    smallest = 10**-digits
    if 0 < value < smallest:
        return f"<.{smallest:.{digits}f}".replace(".0.", ".")
    text = f"{value:.{digits}f}"
    return "1" if float(text) == 1 else text.replace("0.", ".", 1)


def percent(share: float, *, signed: bool = True) -> str:
    """A share as a percentage; a small one keeps a digit.

    >>> percent(-0.5306), percent(0.004), percent(0.62, signed=False)
    ('-53%', '+0.4%', '62%')
    """
    digits = 1 if 0 < abs(100 * share) < 1 else 0
    return f"{100 * share:+.{digits}f}%" if signed else f"{100 * share:.{digits}f}%"


def span(interval: Interval | Undefined | None, digits: int = 1) -> str:
    """An interval.

    >>> span(Interval(-131.2, 90.14)), span(None)
    ('[-131.2, +90.1]', '–')
    """
    if interval is None or isinstance(interval, Undefined):
        return DASH
    return f"[{number(interval.low, digits)}, {number(interval.high, digits)}]"


def with_span(value: Figure | None, interval: Interval | Undefined | None, digits: int = 1) -> str:
    """A number with its interval, where there is one.

    >>> with_span(-113.42, Interval(-131.2, -90.14)), with_span(1.0, None)
    ('-113.4 [-131.2, -90.1]', '+1.0')
    """
    if interval is None or isinstance(interval, Undefined):
        return number(value, digits)
    return f"{number(value, digits)} {span(interval, digits)}"


def listed(names: Sequence[str], *, last: str = "and") -> str:
    """A list in words.

    >>> listed(["a", "b", "c"]), listed(["0", "1"], last="or"), listed(["a"])
    ('a, b and c', '0 or 1', 'a')
    """
    return f" {last} ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def minus(text: str) -> str:
    """Hyphens before numbers as minus signs; those inside words stay.

    >>> minus("Student-t [-113.4, -.5]")
    'Student-t [−113.4, −.5]'
    """
    return re.sub(r"(?<!\w)-(?=[\d.])", "\N{MINUS SIGN}", text)


AUC_RESTS_ON: Final = (
    "An AUC is the mean over the checkpoints that have forks both with dR > 0 and without; in brackets, how many "
    "checkpoints these are, where not all are."
)


def auc_with_checkpoints(ranking: Ranking) -> str:
    """An AUC with the checkpoints that it rests on, `.825 (2 of 5)`; a dash where it is undefined."""
    rests = auc_rests_on(ranking)
    return f"{rate(ranking.auc)} ({rests})" if rests else rate(ranking.auc)


def auc_rests_on(ranking: Ranking) -> str:
    """`2 of 5` where two of five checkpoints have an AUC; nothing where all or none have."""
    checkpoints = ranking.auc_by_checkpoint
    every = len(checkpoints) if isinstance(checkpoints, Mapping) else 0
    return f"{ranking.auc_clusters} of {every}" if 0 < ranking.auc_clusters < every else ""


def auc_note(rankings: Mapping[str, Ranking]) -> str:
    """The same for all signals of a table in one sentence, where a column has no room for it; or nothing."""
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
