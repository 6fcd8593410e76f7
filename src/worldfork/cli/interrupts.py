"""Ctrl-C that is always heard and always ends well."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from multiprocessing import util
from types import FrameType

__all__ = ["interruptible"]


@contextlib.contextmanager
def interruptible(message: str) -> Iterator[Callable[[], None]]:
    """At Ctrl-C say `message` and leave with 130. Yields a check to call now and then.

    Python loses an interrupt that strikes while an object is being finalised: the check raises it again. And it
    leaves at once, since threads of libraries that were stopped half-way can abort an orderly exit. That is safe
    where what is written is written whole or not at all.
    """
    heard = threading.Event()

    def listen(number: int, frame: FrameType | None) -> None:
        heard.set()
        raise KeyboardInterrupt

    def check() -> None:
        if heard.is_set():
            raise KeyboardInterrupt

    main = threading.current_thread() is threading.main_thread()  # no other may listen
    before = signal.signal(signal.SIGINT, listen) if main else None
    try:
        yield check
    except KeyboardInterrupt:
        print(f"worldfork: {message}", file=sys.stderr)
        util._run_finalizers(0)  # type: ignore[attr-defined]  # workers' semaphores: the system would keep them
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(130)
    finally:
        if main:
            signal.signal(signal.SIGINT, before)
