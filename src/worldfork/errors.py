"""Errors a user can act on, which the command line prints without a traceback; and failures as data."""

import dataclasses
import difflib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

# Control characters but for line end and tab, halves of characters, and marks of direction (Unicode, UAX #9).
OBEYED: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")

_called: dict[str, str] = {}  # a temporary folder -> the file that was unpacked into it


def nearest(name: str, names: Iterable[str]) -> str:
    """Return " Did you mean X?" for the closest name, or "" where none is close.

    >>> nearest("dmeo", ["corrected", "demo"])
    ' Did you mean demo?'
    """
    near = closest(name, names)
    return f" Did you mean {near}?" if near else ""


def closest(name: str, names: Iterable[str]) -> str:
    """Return the closest of the names, or "" where none is close."""
    return next(iter(difflib.get_close_matches(name, list(names), n=1)), "")


class WorldforkError(Exception):
    """An error that the user can fix: its message says what was expected, what came, and what to do.

    What it quotes may come from a stranger, so characters that control a terminal are escaped.
    """

    def __str__(self) -> str:
        message = super().__str__()
        for folder, name in _called.items():
            message = message.replace(folder, name)
        return printable(message)


def call(folder: Path, name: Path) -> None:
    """Let errors name `name` in place of `folder`, into which it was unpacked."""
    _called[str(folder)] = str(name)


@dataclasses.dataclass(frozen=True)
class Failed:
    """Reason why a task could not be done: it comes back in place of the result."""

    reason: str
    details: str  # the traceback
    unfit: bool = False  # whether the worker is of another kind than the study needs
    exhausted: bool = False  # whether the worker ran out of memory


def obeyed(text: str) -> str:
    r"""Return the characters of the text that control a terminal: all but line end and tab, and marks of direction.

    >>> obeyed("two\nlines, \x1b[2J, \u202e and e\u0301")
    '\x1b\u202e'
    """
    return "".join(OBEYED.findall(text))


def printable(text: str) -> str:
    r"""Return the text with every character escaped that a terminal would obey instead of showing.

    >>> printable("a name\x1b[2J")
    'a name\\x1b[2J'
    """
    return "".join(
        character if character.isprintable() or character in "\n\t" else ascii(character)[1:-1]
        for character in text
    )
