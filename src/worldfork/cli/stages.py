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
        self.announce = announce
        self._path, self._began = path, time.monotonic()
        self._now: list[dict[str, Any]] = []
        self._before: list[dict[str, Any]] = []
        if path.exists():
            files.cut_torn_line(path)  # of a call that was killed
            self._before = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure a stage. One that is interrupted is kept too, as not finished."""
        self.announce(f"\n{name}")
        began, finished = time.monotonic(), False
        try:
            yield
            finished = True
        finally:
            seconds = time.monotonic() - began
            entry = {"stage": name, "seconds": round(seconds, 3), "finished": finished, "ended": time.time()}
            self._now.append(entry)
            self._path.parent.mkdir(parents=True, exist_ok=True)
            files.append(self._path, (json.dumps(entry) + "\n").encode())
            self.announce(f"{name}: {format_duration(seconds)}" + ("" if finished else ", not finished"))

    def seconds(self) -> dict[str, float]:
        """Return the seconds of every stage in all calls together."""
        return _sums([*self._before, *self._now])

    def table(self) -> str:
        """Return every stage in this call and in all calls, and this call from its beginning to now, as text."""
        now, ever = _sums(self._now), self.seconds()
        rows = [("stage", "this call", "all calls")]
        rows += [(name, format_duration(now.get(name, 0.0)), format_duration(ever[name])) for name in ever]
        rows.append(("sum of the stages", format_duration(sum(now.values())), format_duration(sum(ever.values()))))
        rows.append(("this command, from its start", format_duration(time.monotonic() - self._began), ""))
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        return "\n".join(f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}".rstrip() for a, b, c in rows)


def _sums(entries: list[dict[str, Any]]) -> dict[str, float]:
    """Return the seconds of each stage, in the order of their first mention."""
    sums: dict[str, float] = {}
    for entry in entries:
        sums[entry["stage"]] = sums.get(entry["stage"], 0.0) + entry["seconds"]
    return sums


def format_duration(seconds: float) -> str:
    """Return a duration as people say it.

    >>> format_duration(0.04), format_duration(59.6), format_duration(161.0)
    ('0.0 s', '59.6 s', '2 min 41 s')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"
