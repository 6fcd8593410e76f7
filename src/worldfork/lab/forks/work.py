"""Pieces of a study that can run anywhere: plain data in, plain data out, no file touched.

An executor maps `perform` over pieces of work, here, in other processes or on other machines. A piece that fails
comes back as `Failed` and spares the rest; a rerun does it again.
"""

import dataclasses
import functools
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from worldfork.errors import WorldforkError
from worldfork.lab.agents import arrays
from worldfork.lab.forks.bench import Bench
from worldfork.lab.forks.labelling import Place, label
from worldfork.lab.stream import Recording, StreamLog, deploy
from worldfork.ledger.row import ForkRow
from worldfork.randomness import Purpose
from worldfork.registration import Cell, restore

__all__ = ["BlockWork", "Failed", "Forked", "StreamWork", "Streamed", "perform", "run_streams"]


@dataclasses.dataclass(frozen=True)
class StreamWork:
    """Cells of one arm and one task whose streams are run together."""

    registration: str  # canonical JSON
    checkpoints: Path
    cells: tuple[Cell, ...]


@dataclasses.dataclass(frozen=True)
class BlockWork:
    """A block of forks of one arm and one task."""

    registration: str
    checkpoints: Path
    places: tuple[Place, ...]


@dataclasses.dataclass(frozen=True)
class Streamed:
    """The streams of a `StreamWork`, in its order."""

    streams: list[tuple[StreamLog, Recording]]
    seconds: float


@dataclasses.dataclass(frozen=True)
class Forked:
    """The rows of a `BlockWork`, in its order, not yet chained."""

    rows: list[ForkRow]
    seconds: float
    spent: dict[str, float]  # of these on updates and on evaluations


@dataclasses.dataclass(frozen=True)
class Failed:
    """Why a piece of work could not be done."""

    reason: str
    details: str


def perform(work: StreamWork | BlockWork) -> Streamed | Forked | Failed:
    """Do one piece of work."""
    began = time.perf_counter()
    try:
        bench = _bench(work.registration, work.checkpoints)
        if isinstance(work, StreamWork):
            return Streamed(run_streams(bench, work.cells), time.perf_counter() - began)
        labelled = label(bench, work.places)
        return Forked(labelled.rows, time.perf_counter() - began, labelled.spent)
    except WorldforkError as error:
        return Failed(str(error), "")
    except Exception as error:  # whatever a simulator or an agent raises, the study survives it
        return Failed(f"{type(error).__name__}: {error}", traceback.format_exc())


@functools.lru_cache(maxsize=4)
def _bench(registration: str, checkpoints: Path) -> Bench:
    return Bench(restore(registration), checkpoints)


def run_streams(bench: Bench, cells: Sequence[Cell]) -> list[tuple[StreamLog, Recording]]:
    """The streams of these cells, in a batch that is padded to the registered size where the agent feels it."""
    arm, task = bench.registration.arm(cells[0].arm), cells[0].task
    agent = bench.agent(task)
    size = bench.registration.execution.streams_per_batch if agent.shape_sensitive else len(cells)
    full = [*cells, *[cells[-1]] * (size - len(cells))]
    streams = deploy(
        agent,
        bench.environment(task),
        arrays.concatenate([bench.checkpoint(task, cell.checkpoint).parameters for cell in full]),
        events=[cell.event(Purpose.INITIAL_STATE, bench.registration.seed) for cell in full],
        schedules=[bench.schedule(cell) for cell in full],
        decision_points=arm.stream.decision_points,
        action_noise=arm.stream.action_noise,
    )
    return streams[: len(cells)]
