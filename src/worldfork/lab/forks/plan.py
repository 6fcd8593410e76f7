"""Batches of streams and blocks of forks, from the registration alone, so that a rerun makes the same; and the
streams of a ledger, read back."""

import dataclasses
import functools
from itertools import groupby
from typing import Final

from worldfork.blobs import Blob, blob_of, read_blob
from worldfork.lab.stream import Stream
from worldfork.ledger import arrays
from worldfork.ledger.arrays import Columns
from worldfork.ledger.store import Study
from worldfork.registration import Cell, Registration, hold_owner, stream_owner

KEPT: Final = 64  # streams that were read last
Block = tuple[tuple[Cell, int], ...]  # forks: a cell and a decision point each


def stream_batches(registration: Registration) -> list[tuple[Cell, ...]]:
    """Return the cells that run a stream of their own, one arm and one task at a time."""
    size = registration.execution.streams_per_batch
    running = _by_look(registration, [cell for cell, owner in stream_owner(registration).items() if cell == owner])
    groups = [
        list(group) for cells in running for _, group in groupby(cells, key=lambda cell: (cell.arm, cell.task))
    ]
    return [tuple(group[start : start + size]) for group in groups for start in range(0, len(group), size)]


def fork_blocks(registration: Registration, *, shared: bool) -> list[Block]:
    """Return the blocks of forks that evaluate their own HOLD, or, if `shared`, of those that take another arm's.

    The paper's arms differ mostly in UPDATE. Both kinds of block fill the same number of parameter sets.
    """
    owners = hold_owner(registration)
    blocks: list[Block] = []
    for together in _by_look(registration, [cell for cell, owner in owners.items() if (owner != cell) == shared]):
        points = {arm.name: arm.stream.decision_points for arm in registration.arms}
        forks = [(cell, k) for cell in together for k in range(1, points[cell.arm] + 1)]
        for (arm, _), group in groupby(forks, key=lambda fork: (fork[0].arm, fork[0].task)):
            block, size = list(group), registration.forks_per_block(arm) * (2 if shared else 1)
            blocks += [tuple(block[start : start + size]) for start in range(0, len(block), size)]
    return blocks


def _by_look(registration: Registration, cells: list[Cell]) -> list[list[Cell]]:
    """Return the cells that are computed before each look of [stopping], in their order; else all together.

    A batch shape may determine digits, so no batch has cells that are perhaps never computed.
    """
    if registration.stopping is None:
        return [cells]
    groups = registration.stopping.groups(registration.grid.checkpoints)
    return [[cell for cell in cells if cell.checkpoint in group] for group in groups]


@dataclasses.dataclass(frozen=True)
class StoredStream:
    """A finished stream named by the content of its files, as a task carries it: read where it is needed."""

    log_file: Blob
    recording_file: Blob

    @property
    def log(self) -> Columns:
        """The log at each control step."""
        return _read(self).log

    @property
    def recording(self) -> Columns:
        """All transitions."""
        return _read(self).recording

    @property
    def digests(self) -> tuple[str, str]:
        """The content digests of log and recording."""
        return _read(self).digests


def stored_stream(study: Study, cell: Cell) -> StoredStream:
    """Name the files of a finished stream by their content."""
    log, recording = study.cell(cell.id).stream_files()
    return StoredStream(blob_of(log), blob_of(recording))


# A worker that labels many forks of a stream reads it once.
@functools.lru_cache(KEPT)
def _read(stored: StoredStream) -> Stream:
    log, recording = stored.log_file, stored.recording_file
    return Stream(
        arrays.parquet_columns(read_blob(log), log.path),
        arrays.npz_arrays(read_blob(recording), recording.path),
    )
