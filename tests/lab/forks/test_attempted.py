"""A task that fails says why: whoever hands it out must know whether another worker may do it."""

import errno
import os
import sys
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from worldfork.errors import Failed, WorldforkError
from worldfork.lab.workers import attempted


def directly() -> None:
    np.zeros(1 << 60, np.uint8)


def from_a_device() -> None:
    raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9 bytes")


def from_the_system() -> None:
    raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))


def behind_another_error() -> None:
    try:
        directly()
    except MemoryError as error:
        raise WorldforkError("`stream.parquet` is damaged") from error


def on_the_way_out() -> None:
    try:
        directly()
    except MemoryError:
        raise KeyError("left half done")  # noqa: B904


@pytest.mark.parametrize("work", [directly, from_a_device, from_the_system, behind_another_error, on_the_way_out])
def test_a_want_of_memory_is_known_as_one(work: Callable[[], None]) -> None:
    failed = attempted(work)
    assert isinstance(failed, Failed)
    assert failed.exhausted
    assert not failed.unfit


def in_a_generator() -> None:
    def steps() -> Iterator[int]:
        raise StopIteration("there is no more")
        yield 0

    list(steps())


class Panic(BaseException):
    """As compiled libraries raise it."""


def raising(error: BaseException) -> Callable[[], None]:
    def work() -> None:
        raise error

    return work


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        (sys.exit, "SystemExit: something called sys.exit()"),
        (raising(SystemExit(0)), "SystemExit: something called sys.exit(0)"),
        (raising(SystemExit(3)), "SystemExit: something called sys.exit(3)"),
        (raising(SystemExit("no licence")), "SystemExit: something called sys.exit('no licence')"),
        (raising(StopIteration("there is no more")), "StopIteration: there is no more"),
        (in_a_generator, "StopIteration: there is no more"),
        (raising(StopIteration()), "StopIteration"),
        (raising(Panic("out of bounds")), "Panic: out of bounds"),
    ],
)
def test_what_is_no_exception_of_python_is_a_failure_too(work: Callable[[], None], reason: str) -> None:
    failed = attempted(work)
    assert isinstance(failed, Failed)
    assert failed.reason == reason
    assert "Traceback" in failed.details


def test_ctrl_c_ends_whoever_works() -> None:
    with pytest.raises(KeyboardInterrupt):
        attempted(raising(KeyboardInterrupt()))


def test_what_fails_otherwise_is_not() -> None:
    failed = attempted(lambda: {}["nothing"])
    assert isinstance(failed, Failed)
    assert not failed.exhausted
    assert "KeyError" in failed.reason
