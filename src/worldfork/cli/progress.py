"""Progress bars with time left, on standard error so that standard output stays a program's to read."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from multiprocessing import util
from types import FrameType
from typing import Final


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


# What a run is ended with, in words: by a person; and by SLURM, Kubernetes, systemd or `timeout`.
SIGNALS: Final = {signal.SIGINT: "interrupted", signal.SIGTERM: "ended by SIGTERM"}


@contextlib.contextmanager
def interruptible(message: str) -> Iterator[Callable[[], None]]:
    """At Ctrl-C or SIGTERM say so and `message`, and leave with 130 or 143. Yields a check to call now and then.

    Python loses an interrupt that strikes while an object is being finalised: the check raises it again. And it
    leaves at once, since threads of libraries that were stopped half-way can abort an orderly exit. That is safe
    where what is written is written whole or not at all.
    """
    heard: list[int] = []

    def listen(number: int, frame: FrameType | None) -> None:
        heard.append(number)
        raise KeyboardInterrupt

    def check() -> None:
        if heard:
            raise KeyboardInterrupt

    main = threading.current_thread() is threading.main_thread()  # no other may listen
    before = {number: signal.signal(number, listen) for number in SIGNALS} if main else {}
    try:
        yield check
    except KeyboardInterrupt:
        number = signal.Signals((heard or [signal.SIGINT])[0])
        for also in before:
            signal.signal(also, signal.SIG_IGN)  # it is leaving already
        print(f"worldfork: {SIGNALS[number]}; {message}", file=sys.stderr)
        util._run_finalizers(0)  # type: ignore[attr-defined]  # ends the worker processes
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(128 + number)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
