"""Records by name, where a name that is not there is answered with those that are."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from worldfork.errors import WorldforkError

__all__ = ["Named"]

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
        known = f"There are {', '.join(map(str, self))}." if self else f"This score has no {self._kind} at all."
        raise WorldforkError(f"There is no {self._kind} {name!r}. {known}")
