"""Durations of the stages of a long command, over all calls that it took, kept beside its output."""

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from worldfork.ledger import files


class Stages:
    """Measures stages by the wall clock and keeps them in a file: a call that carries on can add them up."""

    def __init__(self, path: Path, announce: Callable[[str], None]) -> None:
        self._path, self._announce = path, announce
        self._began = time.monotonic()
        self._now: list[dict[str, Any]] = []
        self._before: list[dict[str, Any]] = []
        if path.exists():
            files.cut_torn_line(path)  # of a call that was killed
            self._before = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure a stage. One that is interrupted is kept too, as not finished."""
        self._announce(f"\n{name}")
        began, finished = time.monotonic(), False
        try:
            yield
            finished = True
        finally:
            seconds = time.monotonic() - began
            self.keep(name, seconds, finished=finished)
            self._announce(f"{name}: {spoken(seconds)}" + ("" if finished else ", not finished"))

    def keep(self, name: str, seconds: float, *, finished: bool = True) -> None:
        """Note a stage that was measured elsewhere."""
        entry = {"stage": name, "seconds": round(seconds, 3), "finished": finished, "ended": time.time()}
        self._now.append(entry)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        files.append(self._path, (json.dumps(entry) + "\n").encode())

    def table(self) -> list[tuple[str, str, str]]:
        """Every stage in this call and in all calls together, and this call from its beginning to now."""
        entries = [*self._before, *self._now]
        names = list(dict.fromkeys(entry["stage"] for entry in entries))

        def total(chosen: list[dict[str, Any]], name: str) -> float:
            return float(sum(entry["seconds"] for entry in chosen if entry["stage"] == name))

        rows = [(name, spoken(total(self._now, name)), spoken(total(entries, name))) for name in names]
        of_all = sum(entry["seconds"] for entry in entries)
        rows.append(("sum of the stages", spoken(sum(entry["seconds"] for entry in self._now)), spoken(of_all)))
        return [*rows, ("this command, from its start", spoken(time.monotonic() - self._began), "")]


def spoken(seconds: float) -> str:
    """A duration as people say it.

    >>> spoken(0.04), spoken(59.6), spoken(161.0)
    ('0.0 s', '59.6 s', '2 min 41 s')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"
