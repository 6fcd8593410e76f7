"""Errors a user can act on; the command line prints them without a traceback."""

__all__ = ["WorldforkError", "printable"]


class WorldforkError(Exception):
    """Something the user can fix: the message says what was expected, what came, and what to do.

    It may quote what somebody else wrote, the name of a file for one: a terminal is given nothing to obey.
    """

    def __str__(self) -> str:
        return printable(super().__str__())


def printable(text: str) -> str:
    r"""The text with every character spelled out that a terminal would obey instead of showing.

    >>> printable("a name\x1b[2J")
    'a name\\x1b[2J'
    """
    return "".join(
        character if character.isprintable() or character in "\n\t" else ascii(character)[1:-1]
        for character in text
    )
