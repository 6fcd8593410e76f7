"""What happened in a segment of deployments, for all that ran together: one file of logs, one of transitions.

    deployments/segments/<first cell of the batch>-k<k>.parquet   one row per control step: policy, cell, the log
    deployments/segments/<first cell of the batch>-k<k>.npz       what UPDATE needs, a leading axis per deployment

Files are renamed into place before any row of the segment is written, and each row holds the content digests of its
own part. What a row does not point to is left over from a run that was killed, and replaced by the next.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from worldfork.errors import WorldforkError
from worldfork.ledger import arrays, files
from worldfork.ledger.arrays import Columns

__all__ = ["SEGMENTS", "Part", "read_log_parts", "read_window_parts", "segment_files", "write_segment"]

SEGMENTS = "deployments/segments"
NAMES = ("policy", "cell")


@dataclasses.dataclass(frozen=True)
class Part:
    """One deployment's share of a segment."""

    policy: str
    cell: str
    columns: Columns


def write_segment(study: Path, name: str, k: int, logs: Sequence[Part], windows: Sequence[Part]) -> None:
    """Put the segment of a batch on disk, each file whole."""
    place = files.confined(study / SEGMENTS / f"{name}-k{k}.npz", within=study)
    files.make_folders(place.parent)
    arrays.write_npz(place, {**_named(windows), **_joined(windows, np.stack)})
    lengths = [len(next(iter(part.columns.values()))) for part in logs]
    named = {key: np.repeat(values, lengths) for key, values in _named(logs).items()}
    arrays.write_parquet(place.with_suffix(".parquet"), {**named, **_joined(logs, np.concatenate)})


def segment_files(study: Path, *, suffix: str) -> list[tuple[int, Path]]:
    """Every file of segments with that ending, with its decision point."""
    found = []
    for path in sorted((study / SEGMENTS).glob(f"*{suffix}")):
        _, _, number = path.stem.rpartition("-k")
        if not number.isdecimal():
            raise WorldforkError(f"`{path}` is not a file of a segment: it was renamed, or does not belong here.")
        found.append((int(number), path))
    return found


def read_log_parts(path: Path) -> Iterator[Part]:
    """What was logged, deployment by deployment."""
    columns = arrays.read_parquet(path)
    policy, cell = (_texts(columns, key, path) for key in NAMES)
    starts = [0, *(np.flatnonzero((policy[1:] != policy[:-1]) | (cell[1:] != cell[:-1])) + 1), len(policy)]
    for start, stop in itertools.pairwise(starts):
        rest = {key: values[start:stop] for key, values in columns.items() if key not in NAMES}
        yield Part(str(policy[start]), str(cell[start]), rest)


def read_window_parts(path: Path) -> Iterator[Part]:
    """What UPDATE needs, deployment by deployment."""
    columns = arrays.read_npz(path)
    policy, cell = (_texts(columns, key, path) for key in NAMES)
    for index in range(len(policy)):
        rest = {key: values[index] for key, values in columns.items() if key not in NAMES}
        yield Part(str(policy[index]), str(cell[index]), rest)


def _named(parts: Sequence[Part]) -> dict[str, np.ndarray]:
    return {key: np.array([getattr(part, key) for part in parts]) for key in NAMES}


def _joined(parts: Sequence[Part], join: Callable[[list[np.ndarray]], np.ndarray]) -> dict[str, np.ndarray]:
    return {key: join([part.columns[key] for part in parts]) for key in parts[0].columns}


def _texts(columns: Mapping[str, np.ndarray], key: str, path: Path) -> np.ndarray:
    if key not in columns:
        raise WorldforkError(f"`{path}` does not say whose segment it is: it has no `{key}`.")
    return np.asarray(columns[key])
