"""Which streams and forks are computed together: from the registration alone, so that a rerun makes the same."""

from collections.abc import Mapping, Sequence
from itertools import groupby

from worldfork.lab.forks.labelling import Place
from worldfork.lab.stream import Recording, StreamLog
from worldfork.ledger.arrays import content_digest
from worldfork.ledger.row import ForkRow
from worldfork.ledger.store import Study
from worldfork.registration import Cell, Registration, cells, hold_owner, stream_owner

__all__ = ["Block", "fork_blocks", "places", "stream_batches"]

Block = tuple[tuple[Cell, int], ...]  # forks: a cell and a decision point each


def stream_batches(registration: Registration) -> list[tuple[Cell, ...]]:
    """The cells that run a stream of their own, one arm and one task at a time."""
    size = registration.execution.streams_per_batch
    own = [cell for cell, owner in stream_owner(registration).items() if cell == owner]
    groups = [list(group) for _, group in groupby(own, key=lambda cell: (cell.arm, cell.task))]
    return [tuple(group[start : start + size]) for group in groups for start in range(0, len(group), size)]


def fork_blocks(registration: Registration, *, shared: bool) -> list[Block]:
    """The forks whose HOLD branch is evaluated with them, or those that share it with another arm (paper's arms
    differ mostly in UPDATE). Both kinds fill the same number of parameter sets."""
    owners = hold_owner(registration)
    size = registration.execution.forks_per_block * (2 if shared else 1)
    forks = [
        (cell, k)
        for cell in cells(registration)
        if (owners[cell] != cell) == shared
        for k in range(1, registration.arm(cell.arm).stream.decision_points + 1)
    ]
    groups = [list(group) for _, group in groupby(forks, key=lambda fork: (fork[0].arm, fork[0].task))]
    return [tuple(group[start : start + size]) for group in groups for start in range(0, len(group), size)]


def places(
    study: Study, block: Block, *, rows: Mapping[Cell, Sequence[ForkRow]], owners: Mapping[Cell, Cell]
) -> tuple[Place, ...]:
    """The forks of a block with their streams, read back from the ledger."""
    streams = {}
    for cell in dict.fromkeys(cell for cell, _ in block):
        log, recording = study.cell(cell.id).read_stream()
        streams[cell] = (StreamLog(**log), Recording(**recording), (content_digest(log), content_digest(recording)))
    return tuple(
        Place(cell, k, *streams[cell], held=rows[owners[cell]][k - 1] if owners[cell] != cell else None)
        for cell, k in block
    )
