"""Clocks of workers are wrong: nothing that is chained may depend on what time they think it is.

A worker reads clocks to say how long something took (timings.jsonl, which no digest covers) and never to say when.
"""

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kill_and_resume import DEPLOYMENT, REGISTRATION, chained

from worldfork.lab.run import run
from worldfork.ledger.verify import verify

FORTY_YEARS = 40 * 365 * 86400.0


class Skewed:
    """This process, whose clocks are wrong while it does a job: forty years ahead, and running backwards."""

    def __init__(self) -> None:
        self.asked = 0

    def map(self, function: Callable[[Any], Any], jobs: Iterable[Any], /) -> Iterator[tuple[int, Any]]:
        for index, job in enumerate(jobs):
            yield index, self._skewed(function, job)

    def _skewed(self, function: Callable[[Any], Any], job: Any) -> Any:
        real, backwards = time.time, itertools.count(1e6, -1.0)

        def stopwatch() -> float:
            self.asked += 1
            return next(backwards)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(time, "time", lambda: real() + FORTY_YEARS)
            patch.setattr(time, "time_ns", lambda: int(1e9 * (real() + FORTY_YEARS)))
            patch.setattr(time, "perf_counter", stopwatch)
            patch.setattr(time, "monotonic", stopwatch)
            return function(job)


def test_a_worker_whose_clock_is_wrong_changes_no_byte(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(REGISTRATION + DEPLOYMENT)
    workers = Skewed()
    run(path, tmp_path / "right")
    run(path, tmp_path / "wrong", executor=workers)
    assert workers.asked > 0
    assert chained(tmp_path / "wrong") == chained(tmp_path / "right")
    assert verify(tmp_path / "wrong").complete
    first = next((tmp_path / "wrong" / "cells").rglob("timings.jsonl")).read_text().splitlines()[0]
    assert '"seconds":-' in first.replace(" ", ""), "the stopwatch was not the one that runs backwards"
