"""Errors a user can act on, which the command line prints without a traceback; and failures as data."""

import dataclasses
import difflib
import unicodedata
from collections.abc import Iterable
from pathlib import Path

__all__ = ["Failed", "WorldforkError", "call", "nearest", "obeyed", "printable"]

TURNS = ("LRE", "LRO", "RLE", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")  # Unicode, UAX #9

_called: dict[str, str] = {}  # a folder that nobody named -> what people call it


def nearest(name: str, names: Iterable[str]) -> str:
    """A question to whoever misspelt a name; empty where nothing comes near.

    >>> nearest("dmeo", ["corrected", "demo"])
    ' Did you mean demo?'
    """
    near = difflib.get_close_matches(name, list(names), n=1)
    return f" Did you mean {near[0]}?" if near else ""


class WorldforkError(Exception):
    """Something the user can fix: the message says what was expected, what came, and what to do.

    It may quote what somebody else wrote, the name of a file for one: a terminal is given nothing to obey.
    """

    def __str__(self) -> str:
        message = super().__str__()
        for folder, name in _called.items():
            message = message.replace(folder, name)
        return printable(message)


def call(folder: Path, name: Path) -> None:
    """From now on errors call `folder` by `name`: what a file was unpacked into, by the file."""
    _called[str(folder)] = str(name)


@dataclasses.dataclass(frozen=True)
class Failed:
    """Why a task could not be done: what comes back in place of its result."""

    reason: str
    details: str  # the traceback, for whoever wrote the code that failed
    unfit: bool = False  # whether it is the worker that can not do it, and another may
    exhausted: bool = False  # whether the worker ran out of memory, and a fresh one may not


def obeyed(text: str) -> str:
    r"""Return the characters of the text that a terminal obeys: controls but line end and tab, and turns of
    direction.

    >>> obeyed("two\nlines, \x1b[2J, \u202e and e\u0301")
    '\x1b\u202e'
    """
    return "".join(
        character
        for character in text
        if (unicodedata.category(character) in ("Cc", "Cs") and character not in "\n\t")
        or unicodedata.bidirectional(character) in TURNS
    )


def printable(text: str) -> str:
    r"""The text with every character spelled out that a terminal would obey instead of showing.

    >>> printable("a name\x1b[2J")
    'a name\\x1b[2J'
    """
    return "".join(
        character if character.isprintable() or character in "\n\t" else ascii(character)[1:-1]
        for character in text
    )
