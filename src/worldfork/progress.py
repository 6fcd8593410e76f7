"""How long work tells what it has done: one callback for progress, one for what a person should know."""

from collections.abc import Callable

__all__ = ["Notify", "Progress", "ignore", "silent"]

Progress = Callable[[str, int, int], None]  # of what, how many are done, of how many
Notify = Callable[[str], None]  # one sentence


def silent(what: str, done: int, total: int) -> None:
    """Progress that nobody watches."""


def ignore(sentence: str) -> None:
    """A remark that nobody reads."""
