"""Progress of long work: one callback, bars for people, and a log for everything else that is worth a sentence."""

import contextlib
import functools
import logging
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, ParamSpec, TypeVar

Progress = Callable[[str, int, int], None]  # of what, how many are done, of how many
Notify = Callable[[str], None]  # one sentence

MINUTE: Final = 60.0  # seconds

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def silent(what: str, done: int, total: int) -> None:
    """Show no progress."""


def ignore(sentence: str) -> None:
    """Discard the message."""


def log(sentence: str) -> None:
    """Write the message to the log `worldfork`, at the level INFO."""
    logging.getLogger("worldfork").info(sentence)


def line_a_minute(write: Notify, *, clock: Callable[[], float] = time.monotonic) -> Progress:
    """Return a callback that writes how far the work is, at most once a minute."""
    last = clock()

    def report(what: str, done: int, total: int) -> None:
        nonlocal last
        if total and clock() - last >= MINUTE:
            last = clock()
            write(f"{what} {done:,}/{total:,}")

    return report


@contextlib.contextmanager
def bars(*, quiet: bool = False, transient: bool = False) -> Iterator[Progress]:
    """Yield a callback that draws one bar per `what`, with the time left; `transient` bars leave nothing behind.

    Bars are drawn on standard error where that is a terminal, and in a notebook. Elsewhere, as into a file, a line
    a minute is written there, unless they are `transient`.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as Bars

    console = Console(stderr=True)
    if quiet or not (console.is_terminal or console.is_jupyter):
        yield silent if quiet or transient else line_a_minute(lambda line: print(line, file=sys.stderr, flush=True))
        return
    columns = (
        TextColumn("{task.description:>8}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    drawn = Bars(*columns, console=console, transient=transient)
    with contextlib.ExitStack() as stack:
        tasks: dict[str, Any] = {}

        def report(what: str, done: int, total: int) -> None:
            if not total:
                return
            if not tasks:
                stack.enter_context(drawn)
            if what not in tasks:
                tasks[what] = drawn.add_task(what, total=total)
            drawn.update(tasks[what], completed=done, total=total)

        yield report


def shows_progress(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Return the function with bars drawn while it works, unless `progress` is given."""

    @functools.wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        if kwargs.get("progress") is not None:
            return function(*args, **kwargs)
        with bars(transient=True) as progress:
            kwargs["progress"] = progress
            return function(*args, **kwargs)

    return call
