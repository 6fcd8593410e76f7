"""A worker's side of any job: its name, and how what goes wrong in it becomes an answer that spares the rest."""

import errno
import os
import platform
import traceback
from collections.abc import Callable
from typing import Final, TypeVar

from worldfork.errors import Failed, WorldforkError

Result = TypeVar("Result")

# Messages of XLA for a full device, of the system for a file or a library, and of Python for a thread.
EXHAUSTED: Final = ("RESOURCE_EXHAUSTED", os.strerror(errno.ENOMEM), "failed to map segment", "start new thread")


class Unfit(WorldforkError):
    """This worker would make rows under another configuration than the study's."""


def attempted(work: Callable[[], Result]) -> Result | Failed:
    """Return what `work` returns, or how it failed.

    Whatever a simulator or an agent raises, the study survives it: also `sys.exit` and the panic of a compiled
    library, which are no `Exception`. Only Ctrl-C ends it.
    """
    try:
        return work()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        reason = str(error) if isinstance(error, WorldforkError) else _reason(error)
        unfit = isinstance(error, Unfit)
        return Failed(
            reason, traceback.format_exc(), unfit=unfit, exhausted=not unfit and _ran_out_of_memory(error)
        )


def worker_name() -> str:
    """Return this process's name for people: host and process id."""
    return f"{platform.node()}:{os.getpid()}"


def _reason(error: BaseException) -> str:
    """Describe the error; a generator hides a StopIteration that ended it in an error of its own."""
    raised = error.__cause__ if isinstance(error.__cause__, StopIteration) else error
    if isinstance(raised, SystemExit):
        return f"SystemExit: something called sys.exit({'' if raised.code is None else repr(raised.code)})"
    return f"{type(raised).__name__}: {raised}".removesuffix(": ")


def _ran_out_of_memory(error: BaseException | None) -> bool:
    """Return True if memory is at the root of an error: a file may look damaged for want of it."""
    while error is not None:
        if isinstance(error, MemoryError) or any(words in str(error) for words in EXHAUSTED):
            return True
        error = error.__cause__ or error.__context__
    return False
