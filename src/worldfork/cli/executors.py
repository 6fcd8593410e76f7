"""Options of verbs that choose an executor."""

import contextlib
import json
import logging
from collections.abc import Iterator, Sequence
from typing import Any

import typer

from worldfork.errors import WorldforkError


def settings_of(given: Sequence[str]) -> dict[str, Any]:
    """Return settings from NAME=VALUE: a value is a number, true, false, null, or else a text."""
    settings: dict[str, Any] = {}
    for entry in given:
        name, equals, value = entry.partition("=")
        if not name or not equals:
            raise WorldforkError(f"--set takes NAME=VALUE, such as deadline=600; got `{entry}`.")
        try:
            settings[name] = json.loads(value)
        except ValueError:
            settings[name] = value
    return settings


def as_typed(executor: str, workers: int | None, address: str | None, setting: Sequence[str]) -> str:
    """Return the options that choose an executor as they were typed, for a message."""
    typed = [("--executor", executor if executor != "local" else None), ("--workers", workers)]
    typed += [("--address", address), *(("--set", entry) for entry in setting)]
    return "".join(f" {name} {value}" for name, value in typed if value is not None)


@contextlib.contextmanager
def log_to_stderr() -> Iterator[None]:
    """Print what executors log about their workers on standard error."""

    class Echo(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            typer.echo(self.format(record), err=True)

    logger, handler = logging.getLogger("worldfork.executors"), Echo()
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
