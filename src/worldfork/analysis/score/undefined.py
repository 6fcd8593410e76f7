"""Figures that do not exist stay undefined, with the reason, and never become zero.

A scoring function returns a number or an `Undefined`. `settle` turns records of both into plain JSON values, null
where undefined, and the list of what is undefined and why.
"""

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar, cast

import numpy as np

from worldfork.errors import WorldforkError

Json = None | bool | int | float | str | list[object] | dict[str, object]
T = TypeVar("T")

OVERFLOW: Final = "the arithmetic overflowed: the returns are too large to square"
INTERNAL: Final = {"json": "left out"}  # metadata of a record's field that is no figure and is not written
# Metadata of a field that holds both estimands and is written as two: the retained under the field's own name, and
# all attempted as `<name>_all_attempted`. Published scores have these keys.
TWO_KEYS: Final = {"json": "two keys"}


@dataclasses.dataclass(frozen=True)
class Undefined:
    """A figure that does not exist, and why."""

    why: str


class Interval(NamedTuple):
    """Both ends of an interval; in JSON a list of two numbers."""

    low: float
    high: float


Figure = float | Undefined
Bounds = Interval | Undefined


def undefined(record: type[T], why: Undefined, **defined: Any) -> T:
    """Return a record whose figures are all undefined for one reason, but for those that are `defined`."""
    fields: Iterable[dataclasses.Field[Any]] = dataclasses.fields(record)  # type: ignore[arg-type]
    needed = [field.name for field in fields if field.default is dataclasses.MISSING]
    return record(**dict.fromkeys(needed, why) | defined)


def divide(value: Figure, by: int | float) -> Figure:
    """Return a figure divided by a number; undefined stays undefined."""
    return value if isinstance(value, Undefined) else value / by


def divide_bounds(interval: Bounds, by: int | float) -> Bounds:
    """Return an interval divided by a positive number; undefined stays undefined."""
    return interval if isinstance(interval, Undefined) else Interval(interval.low / by, interval.high / by)


def written_fields(record: Any) -> dict[str, object]:
    """Return the fields of a record by the keys under which they are written."""
    entries: dict[str, object] = {}
    for field in dataclasses.fields(record):
        entry = getattr(record, field.name)
        if field.metadata == TWO_KEYS:
            entries |= {field.name: entry.retained, f"{field.name}_all_attempted": entry.all_attempted}
        elif field.metadata != INTERNAL:
            entries[field.name] = entry
    return entries


def settle(value: object) -> tuple[Json, list[dict[str, str]]]:
    """Return plain values and the reasons for the nulls among them.

    >>> settle({"a": 1.0, "b": {"c": Undefined("one class only")}})
    ({'a': 1.0, 'b': {'c': None}}, [{'figure': 'b.c', 'why': 'one class only'}])
    """
    reasons: list[dict[str, str]] = []

    def plain(tree: object, where: str) -> Json:
        match tree:
            case Undefined(why):
                reasons.append({"figure": where, "why": why})
                return None
            case np.generic():
                return plain(tree.item(), where)
            case float() if not math.isfinite(tree):
                return plain(Undefined(OVERFLOW), where)
            case None | bool() | int() | float() | str():
                return tree
            case list() | tuple():
                return [plain(entry, f"{where}[{index}]") for index, entry in enumerate(tree)]
            case _ if isinstance(tree, Mapping) or dataclasses.is_dataclass(tree):
                entries = tree if isinstance(tree, Mapping) else written_fields(tree)
                return {str(key): plain(of, f"{where}.{key}" if where else str(key)) for key, of in entries.items()}
            case _:
                raise TypeError(f"{where}: no JSON value for {type(tree).__name__}")

    return plain(value, ""), reasons


def finite(value: T) -> T:
    """Return the same records, with a figure that overflowed undefined; an interval has both ends or is none.

    >>> finite({"mean": math.inf, "interval": Interval(-math.inf, 1.0)})["interval"].why[:24]
    'the arithmetic overflowe'
    """
    checked: Any = value
    match value:
        case float():
            checked = value if math.isfinite(value) else Undefined(OVERFLOW)
        case Interval():
            checked = value if all(map(math.isfinite, value)) else Undefined(OVERFLOW)
        case Mapping():
            checked = {key: finite(entry) for key, entry in value.items()}
        case tuple():
            checked = tuple(finite(entry) for entry in value)
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type | Undefined):
            names = [field.name for field in dataclasses.fields(value) if field.metadata != INTERNAL]
            checked = dataclasses.replace(value, **{name: finite(getattr(value, name)) for name in names})
    return cast(T, checked)


Entry = TypeVar("Entry")


class Named(dict[str, Entry]):
    """A dictionary for people who type its keys.

    >>> Named({"never": 0, "always": 1}, "policy")["alway"]
    Traceback (most recent call last):
    worldfork.errors.WorldforkError: There is no policy 'alway'. There are never, always.
    """

    def __init__(self, entries: Mapping[str, Entry] | Iterable[tuple[str, Entry]], kind: str = "entry") -> None:
        super().__init__(entries)
        self._kind = kind

    def __missing__(self, name: str) -> Entry:
        listed = f"There are {', '.join(map(str, self))}." if self else f"This score has no {self._kind} at all."
        raise WorldforkError(f"There is no {self._kind} {name!r}. {listed}")


Estimand = Literal["all_attempted", "retained"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Estimands(Generic[T]):
    """A figure on all attempted forks, and on those that the divergence rule retains."""

    all_attempted: T
    retained: T

    def __getitem__(self, estimand: str) -> T:
        assert estimand in ("all_attempted", "retained"), estimand
        return self.retained if estimand == "retained" else self.all_attempted

    def items(self) -> Iterator[tuple[str, T]]:
        """Yield both, by name."""
        yield "all_attempted", self.all_attempted
        yield "retained", self.retained
