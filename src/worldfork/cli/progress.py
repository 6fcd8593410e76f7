"""Progress bars with time left, on standard error so that standard output stays a program's to read."""

import contextlib
from collections.abc import Callable, Iterator

__all__ = ["bars"]


@contextlib.contextmanager
def bars(*, quiet: bool = False, transient: bool = False) -> Iterator[Callable[[str, int, int], None]]:
    """A function (what, done, total) that draws one bar per `what`; `transient` bars leave nothing behind.

    Nothing is written, not even a line end, before there is something to draw.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description:>8}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    progress = Progress(*columns, console=Console(stderr=True), disable=quiet, transient=transient)
    with contextlib.ExitStack() as shown:
        drawn: dict[str, object] = {}

        def report(what: str, done: int, total: int) -> None:
            if total and not drawn:
                shown.enter_context(progress)
            if total and what not in drawn:
                drawn[what] = progress.add_task(what, total=total)
            if total:
                progress.update(drawn[what], completed=done, total=total)  # type: ignore[arg-type]

        yield report
