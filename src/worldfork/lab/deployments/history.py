"""What the ledger has of a batch of deployments: thresholds, rows, and what happened in every segment so far."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from worldfork.errors import WorldforkError
from worldfork.lab.deployments.histories import extended
from worldfork.lab.deployments.plan import Batch
from worldfork.lab.stream import Recording, Stream, StreamLog
from worldfork.ledger.deployment import THRESHOLDS, DeploymentRow, Thresholds
from worldfork.ledger.records import check, read_json
from worldfork.ledger.segments import SEGMENTS, read_log_parts, read_window_parts
from worldfork.ledger.store import Deployed, Study

__all__ = ["History", "read_history", "read_thresholds"]


@dataclasses.dataclass(frozen=True)
class History:
    """As many rows of every set, and their streams as far."""

    streams: tuple[Stream, ...]
    rows: tuple[tuple[DeploymentRow, ...], ...]


def read_history(
    study: Path,
    batch: Batch,
    rows: Mapping[Deployed, Sequence[DeploymentRow]],
    *,
    done: int,
    filed: Batch | None = None,
) -> History:
    """The first `done` segments of a batch; `filed` is the one that its files are named after, if another."""
    named = (filed or batch).name
    wanted = {(policy, cell.id) for policy, cell in batch.sets}
    logs, windows = (
        {
            (part.policy, part.cell, k): part.columns
            for k in range(1, done + 1)
            for part in read(study / SEGMENTS / f"{named}-k{k}{suffix}")
            if (part.policy, part.cell) in wanted
        }
        for read, suffix in ((read_log_parts, ".parquet"), (read_window_parts, ".npz"))
    )
    streams = []
    for policy, cell in batch.sets:
        stream: Stream | None = None
        for k in range(1, done + 1):
            place = policy, cell.id, k
            if place not in logs or place not in windows:
                raise WorldforkError(
                    f"The segments of {cell.id} under `{policy}` are not where its rows are: `worldfork verify` "
                    "says what is missing."
                )
            stream = extended(stream, Stream(StreamLog.of(logs[place]), Recording(**windows[place])))
        assert stream is not None
        streams.append(stream)
    known = tuple(tuple(rows[policy, cell.id][:done]) for policy, cell in batch.sets)
    return History(tuple(streams), known)


def read_thresholds(study: Study) -> Thresholds:
    """The thresholds that a study keeps; none where its policies need none."""
    path = study.path / THRESHOLDS
    return check(read_json(path), Thresholds, where=f"`{path}`") if path.exists() else Thresholds()
