"""Batches of deployments that run together, from the registration alone, and their history in the ledger."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np

from worldfork.errors import WorldforkError
from worldfork.lab.stream import Stream, episode_steps, logged
from worldfork.ledger.arrays import Columns
from worldfork.ledger.closed_loop import (
    SEGMENTS,
    THRESHOLDS,
    DeploymentRow,
    Thresholds,
    read_log_parts,
    read_recording_parts,
)
from worldfork.ledger.documents import check, read_json
from worldfork.ledger.row import Number
from worldfork.ledger.store import Deployed, Study
from worldfork.registration import Cell, Registration, deployments
from worldfork.triggers import Segment


@dataclasses.dataclass(frozen=True)
class Batch:
    """Cells that are deployed together, each under every policy; a parameter set is a policy on a cell."""

    policies: tuple[str, ...]
    cells: tuple[tuple[Cell, ...], ...]  # for each policy its cells: they differ in the arm that names them alone
    size: int  # cells in a full batch

    @property
    def task(self) -> str:
        return self.cells[0][0].task

    @property
    def name(self) -> str:
        """After its first cell."""
        return self.cells[0][0].id

    @functools.cached_property
    def sets(self) -> tuple[tuple[str, Cell], ...]:
        """The parameter sets in order: policy by policy, and within a policy cell by cell."""
        return tuple((policy, cell) for policy, of in zip(self.policies, self.cells, strict=True) for cell in of)

    def padded(self) -> "tuple[Batch, tuple[int, ...]]":
        """Return the batch filled up with its last cell (one shape, one set of digits), and which of the filled
        batch's sets are this one's."""
        count = len(self.cells[0])
        filled = tuple((*of, *[of[-1]] * (self.size - count)) for of in self.cells)
        real = tuple(number * self.size + index for number in range(len(self.policies)) for index in range(count))
        return dataclasses.replace(self, cells=filled), real


def deployment_batches(registration: Registration) -> list[Batch]:
    """Return all policies of `cells_per_batch` cells at a time, one task after the other."""
    if registration.deployment is None:
        return []
    by_policy: dict[str, list[Cell]] = {}
    for policy, cell in deployments(registration):
        by_policy.setdefault(policy, []).append(cell)
    first = next(iter(by_policy.values()))
    batches = []
    for _, group in groupby(range(len(first)), key=lambda index: first[index].task):
        places = list(group)
        size = min(registration.deployment.cells_per_batch or len(places), len(places))
        for start in range(0, len(places), size):
            chosen = places[start : start + size]
            cells = tuple(tuple(of[index] for index in chosen) for of in by_policy.values())
            batches.append(Batch(tuple(by_policy), cells, size))
    return batches


def extended(stream: Stream, episode: Stream) -> Stream:
    """Return the stream with one more episode."""
    return Stream(_joined(stream.log, episode.log), _joined(stream.recording, episode.recording))


def _joined(before: Columns, after: Columns) -> Columns:
    return {name: np.concatenate([before[name], after[name]]) for name in after}


def whole(stream: Stream, points: int) -> Stream:
    """Return the stream with transitions in arrays as long as the whole deployment: what is to come is empty there,
    so that an update is computed at one shape whenever it fires."""
    steps = episode_steps(stream.recording)

    def filled(values: np.ndarray, length: int) -> np.ndarray:
        return np.concatenate([values, np.zeros((length - len(values), *values.shape[1:]), values.dtype)])

    lengths = {name: points if name == "final" else points * steps for name in stream.recording}
    return Stream(stream.log, {name: filled(values, lengths[name]) for name, values in stream.recording.items()})


def segment_of(stream: Stream, k: int, *, level: float, signals: Mapping[str, Number]) -> Segment:
    """Return episode k as a trigger is shown it: copies, which it can not write to."""
    steps = {name: np.array(column, np.float64) for name, column in logged(stream.log, k).items()}
    for column in steps.values():
        column.setflags(write=False)
    numbers = {name: float("nan") if value is None else value for name, value in signals.items()}
    return Segment(k=k, level=level, steps=steps, signals=numbers)


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
    """Return the first `done` segments of a batch; `filed` is the one that its files are named after, if
    another."""
    named = (filed or batch).name
    wanted = {(policy, cell.id) for policy, cell in batch.sets}
    logs, recordings = (
        {
            (part.policy, part.cell, k): part.columns
            for k in range(1, done + 1)
            for part in read(study / SEGMENTS / f"{named}-k{k}{suffix}")
            if (part.policy, part.cell) in wanted
        }
        for read, suffix in ((read_log_parts, ".parquet"), (read_recording_parts, ".npz"))
    )
    streams = []
    for policy, cell in batch.sets:
        places = [(policy, cell.id, k) for k in range(1, done + 1)]
        if any(place not in logs or place not in recordings for place in places):
            raise WorldforkError(
                f"The segments of {cell.id} under `{policy}` are not where its rows are: `worldfork verify` "
                "says what is missing."
            )
        streams.append(functools.reduce(extended, [Stream(logs[place], recordings[place]) for place in places]))
    so_far = tuple(tuple(rows[policy, cell.id][:done]) for policy, cell in batch.sets)
    return History(tuple(streams), so_far)


def read_thresholds(study: Study) -> Thresholds:
    """Return the thresholds that a study keeps; none where its policies need none."""
    path = study.path / THRESHOLDS
    return check(read_json(path), Thresholds, where=f"`{path}`") if path.exists() else Thresholds()
