"""Verbs that can be interrupted: one sentence on how to carry on, and no worker left behind."""

import contextlib
import logging
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from multiprocessing import util
from types import FrameType
from typing import Final

from worldfork.progress import Progress, bars

# Signals that end a run, in words: from a person; and from SLURM, Kubernetes, systemd or `timeout`.
SIGNALS: Final = {signal.SIGINT: "interrupted", signal.SIGTERM: "ended by SIGTERM"}


@contextlib.contextmanager
def interruptible(message: str) -> Iterator[Callable[[], None]]:
    """Yield a check to call now and then; at Ctrl-C or SIGTERM print `message` and leave with 130 or 143.

    Python loses an interrupt that strikes while an object is being finalised: the check raises it again. And it
    leaves at once, since threads of libraries that were stopped half-way can abort an orderly exit. That is safe
    where what is written is written whole or not at all.
    """
    received: list[int] = []

    def listen(number: int, frame: FrameType | None) -> None:
        received.append(number)
        raise KeyboardInterrupt

    def check() -> None:
        if received:
            raise KeyboardInterrupt

    main = threading.current_thread() is threading.main_thread()  # no other may listen
    before = {number: signal.signal(number, listen) for number in SIGNALS} if main else {}
    try:
        yield check
    except KeyboardInterrupt:
        number = signal.Signals((received or [signal.SIGINT])[0])
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


@contextlib.contextmanager
def interruptible_bars(kept: str, *, quiet: bool) -> Iterator[Progress]:
    """Yield a callback that draws bars and can be interrupted; print what executors log on standard error.

    An interrupt says what is `kept`, and that the command which was typed carries on.
    """
    message = f"{kept} is kept. To carry on: {shlex.join(['worldfork', *sys.argv[1:]])}"
    handler = logging.StreamHandler()
    logger = logging.getLogger("worldfork.executors")
    level = logger.level
    with interruptible(message) as check, bars(quiet=quiet) as draw:

        def progress(what: str, done: int, total: int) -> None:
            check()
            draw(what, done, total)

        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        try:
            yield progress
        finally:
            logger.removeHandler(handler)
            logger.setLevel(level)
