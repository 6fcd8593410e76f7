"""Which streams and forks are computed together: from the registration alone, so that a rerun makes the same."""

import functools
from itertools import groupby
from typing import Final

from worldfork.blobs import Blob, blob_of, read_blob
from worldfork.lab.stream import Recording, Stream, StreamLog
from worldfork.ledger import arrays
from worldfork.ledger.store import Study
from worldfork.registration import Cell, Registration, cells, hold_owner, stream_owner

__all__ = [
    "Block",
    "StreamFiles",
    "fork_blocks",
    "named_stream",
    "read_stream",
    "stored_stream",
    "stream_batches",
]

KEPT: Final = 64  # streams that were read last
StreamFiles = tuple[Blob, Blob]  # what was logged, and the recording
Block = tuple[tuple[Cell, int], ...]  # forks: a cell and a decision point each


def stream_batches(registration: Registration) -> list[tuple[Cell, ...]]:
    """The cells that run a stream of their own, one arm and one task at a time."""
    size = registration.execution.streams_per_batch
    running = [cell for cell, owner in stream_owner(registration).items() if cell == owner]
    groups = [list(group) for _, group in groupby(running, key=lambda cell: (cell.arm, cell.task))]
    return [tuple(group[start : start + size]) for group in groups for start in range(0, len(group), size)]


def fork_blocks(registration: Registration, *, shared: bool) -> list[Block]:
    """The forks whose HOLD branch is evaluated with them, or those that share it with another arm (the paper's arms
    differ mostly in UPDATE). Both kinds fill the same number of parameter sets."""
    owners = hold_owner(registration)
    forks = [
        (cell, k)
        for cell in cells(registration)
        if (owners[cell] != cell) == shared
        for k in range(1, registration.arm(cell.arm).stream.decision_points + 1)
    ]
    blocks: list[Block] = []
    for (arm, _), group in groupby(forks, key=lambda fork: (fork[0].arm, fork[0].task)):
        together, size = list(group), registration.forks_per_block(arm) * (2 if shared else 1)
        blocks += [tuple(together[start : start + size]) for start in range(0, len(together), size)]
    return blocks


def read_stream(study: Study, cell: Cell) -> Stream:
    """A finished stream, back from the ledger."""
    log, recording = study.cell(cell.id).read_stream()
    return Stream(StreamLog.of(log), Recording(**recording))


def named_stream(study: Study, cell: Cell) -> StreamFiles:
    """The files of a finished stream by their content, as tasks name them."""
    log, recording = study.cell(cell.id).stream_files()
    return blob_of(log), blob_of(recording)


@functools.lru_cache(KEPT)
def stored_stream(files: StreamFiles) -> Stream:
    """The stream that these files hold, wherever they are: a worker that labels many of its forks reads it once."""
    log, recording = files
    return Stream(
        StreamLog.of(arrays.parquet_columns(read_blob(log), log.path)),
        Recording(**arrays.npz_arrays(read_blob(recording), recording.path)),
    )
