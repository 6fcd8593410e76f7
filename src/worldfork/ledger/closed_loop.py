"""Closed-loop deployments on disk: one chain per policy and cell, one row per episode.

    deployments/thresholds.json                    thresholds, fitted beforehand on other checkpoints
    deployments/<policy>/<cell id>/cell.json       the settings and versions that determine the rows
    deployments/<policy>/<cell id>/episodes.jsonl  one line per episode, in order of k, append-only
    deployments/segments/<cell id>-k<k>.parquet    the log of episode k of every deployment of a batch
    deployments/segments/<cell id>-k<k>.npz        their transitions, which updates read

A row holds the content digests of its own part of the two files of its segment.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from worldfork.errors import WorldforkError
from worldfork.ledger import arrays, files
from worldfork.ledger.arrays import Columns
from worldfork.ledger.cell import ChainFolder
from worldfork.ledger.documents import ChainRecord
from worldfork.ledger.row import CellRow, Count, FitRecord, Number, Signals
from worldfork.registration import Cell, Registration
from worldfork.triggers import CellKey
from worldfork.triggers.policy import Policy, in_json, normal_threshold
from worldfork.validation import Record

THRESHOLDS = "deployments/thresholds.json"
Threshold = float | Literal["-inf", "inf"] | None


class TrialRecord(Record):
    """An episode in which an update was on trial, beside the model before it: its incumbent."""

    incumbent_return: Number  # in the same episode, under the same draws
    kept: bool | None  # at the trial's last episode: True if the update stays; None before


class DeploymentRow(CellRow):
    """Episode k of a deployment, the decision at its end, and the returns of the model after it."""

    version: ClassVar = "worldfork.deployment/1"
    subject: ClassVar = "episode"

    schema_: Literal["worldfork.deployment/1"] = Field(default="worldfork.deployment/1", alias="schema")
    policy: str
    step: Count  # control steps before the decision
    env_step: Count
    level: float  # drift level at the decision
    signals: Signals  # from this episode alone, as the model then was
    episode_return: Number  # of the episode that ends at the decision
    answer: bool | Number  # the trigger's; None where it gave none
    threshold: Threshold  # to which a numeric answer was compared; None for a trigger that raises alarms
    fired: bool
    fit: FitRecord | None  # of the update, where the policy fired
    gradient_steps: Count  # of that update
    evaluation: tuple[Number, ...] | None  # returns of the matched episodes, where the model was evaluated
    nonfinite_actions: Count  # in the episode
    unstable: bool  # the simulator warned of divergence in the episode
    draws: str  # digest of the random arrays that the episode received
    evaluation_draws: str | None
    # Of the update that lived the episode, if it was on trial.
    trial: TrialRecord | None = Field(default=None, exclude_if=lambda trial: trial is None)
    state: str  # digest of parameters and optimiser after the decision
    stream: str  # content digest of the episode's log
    window: str  # content digest of the episode's transitions


def is_kept(returns: Sequence[Number], incumbent: Sequence[Number]) -> bool:
    """Return True if an update returned more in the episodes of its trial, taken together, than its incumbent did.

    A return that is not finite counts as less than any other.

    >>> is_kept([1.0, 2.0], [2.0, 0.5]), is_kept([1.0], [1.0]), is_kept([1.0], [None]), is_kept([None], [None])
    (True, False, True, False)
    """
    return _total(returns) > _total(incumbent)


def _total(returns: Sequence[Number]) -> float:
    finite = [value for value in returns if value is not None]
    return sum(finite) if len(finite) == len(returns) else -math.inf


class DeployedRecord(ChainRecord):
    """cell.json of one policy on one cell."""

    schema_: Literal["worldfork.deployed/1"] = Field(alias="schema")
    policy: dict[str, Any]  # its name, and the registered record
    deployment: dict[str, Any]  # evaluate_at, episodes


class DeploymentFolder(ChainFolder[DeploymentRow]):
    """The folder of one policy on one cell."""

    lines = "episodes.jsonl"
    configured = DeployedRecord
    kind = DeploymentRow

    @property
    def policy(self) -> str:
        """Return the policy's name."""
        return self.path.parent.name

    @property
    def title(self) -> str:
        """Return the name for messages."""
        return titled(self.policy, self.id)


def titled(policy: str, cell: str) -> str:
    """Return the name of a deployment for messages."""
    return f"{cell} under `{policy}`"


class Origin(Record):
    """Name and root of the one-step ledger that thresholds were fitted on."""

    name: str
    root: str  # digest


class Thresholds(Record):
    """thresholds.json: each policy's threshold for each checkpoint, fitted on the other checkpoints."""

    schema_: Literal["worldfork.thresholds/1"] = Field(default="worldfork.thresholds/1", alias="schema")
    ledger: Origin | None = None
    policies: dict[str, dict[str, dict[str, Threshold]]] = {}  # policy -> task -> checkpoint

    def of(self, policy: str, task: str, checkpoint: int | str) -> Threshold:
        """Return the threshold of a policy on one checkpoint; None if it has none."""
        return self.policies.get(policy, {}).get(task, {}).get(str(checkpoint))


def cell_key(cell: Cell) -> CellKey:
    """Return the deployment that a cell is of, whatever its arm and the draw of its updates."""
    return CellKey(str(cell.checkpoint), cell.direction, cell.stream_seed)


def policy_of(registration: Registration, name: str, *, threshold: Threshold) -> Policy:
    """Return a registered policy, ready to be fed; `threshold` is the fitted one, for policies that need one."""
    assert registration.deployment is not None
    registered = registration.deployment.every()[name]
    rate: float | None = None
    if registered.needs_ledger:
        if threshold is None:
            raise WorldforkError(f"The policy `{name}` needs a threshold from a one-step ledger, and has none.")
    elif registered.threshold == "running":
        rate = registered.rate or registration.scoring.running_quantile_rate
    elif registered.trigger == "random" and registered.rate is not None:
        threshold = in_json(normal_threshold(registered.rate))
    elif isinstance(registered.threshold, float):
        threshold = registered.threshold
    return Policy(
        trigger=registered.trigger,
        settings=registered.settings,
        recorded=registered.trigger in recorded_signals(registration),
        threshold=threshold,
        rate=rate,
    )


def recorded_signals(registration: Registration) -> list[str]:
    """Return the names that the registered signals have in a row."""
    return [name.rpartition(":")[2].rpartition(".")[2] if ":" in name else name for name in registration.signals]


SEGMENTS = "deployments/segments"
NAMES = ("policy", "cell")


@dataclasses.dataclass(frozen=True)
class Part:
    """The columns of one deployment in a segment."""

    policy: str
    cell: str
    columns: Columns


def write_segment(study: Path, name: str, k: int, logs: Sequence[Part], recordings: Sequence[Part]) -> None:
    """Write the logs and the transitions of a batch's episode k, each file whole."""
    place = study / SEGMENTS / f"{name}-k{k}.npz"
    files.make_folders(place.parent)
    arrays.write_npz(place, {**_named(recordings), **_joined(recordings, np.stack)})
    lengths = [len(next(iter(part.columns.values()))) for part in logs]
    named = {key: np.repeat(values, lengths) for key, values in _named(logs).items()}
    arrays.write_parquet(place.with_suffix(".parquet"), {**named, **_joined(logs, np.concatenate)})


def segment_files(study: Path, *, suffix: str) -> list[tuple[int, Path]]:
    """Return every segment file with that suffix, with its decision point."""
    found = []
    for path in sorted((study / SEGMENTS).glob(f"*{suffix}")):
        _, _, number = path.stem.rpartition("-k")
        if not number.isdecimal():
            raise WorldforkError(f"`{path}` is not a file of a segment: it was renamed, or does not belong here.")
        found.append((int(number), path))
    return found


def read_log_parts(path: Path) -> Iterator[Part]:
    """Yield the log of each deployment in a segment."""
    columns, policy, cell = _named_columns(arrays.read_parquet(path), path)
    starts = [0, *(np.flatnonzero((policy[1:] != policy[:-1]) | (cell[1:] != cell[:-1])) + 1), len(policy)]
    for start, stop in itertools.pairwise(starts):
        part = {key: values[start:stop] for key, values in columns.items()}
        yield Part(str(policy[start]), str(cell[start]), part)


def read_recording_parts(path: Path) -> Iterator[Part]:
    """Yield the transitions of each deployment in a segment."""
    columns, policies, cells = _named_columns(arrays.read_npz(path), path)
    for index, (policy, cell) in enumerate(zip(policies, cells, strict=True)):
        yield Part(str(policy), str(cell), {key: values[index] for key, values in columns.items()})


def _named(parts: Sequence[Part]) -> dict[str, np.ndarray]:
    return {key: np.array([getattr(part, key) for part in parts]) for key in NAMES}


def _joined(parts: Sequence[Part], join: Callable[[list[np.ndarray]], np.ndarray]) -> dict[str, np.ndarray]:
    return {key: join([part.columns[key] for part in parts]) for key in parts[0].columns}


def _named_columns(columns: dict[str, Any], path: Path) -> tuple[dict[str, Any], np.ndarray, np.ndarray]:
    """Return the columns without the names of policies and cells, and these names."""
    if missing := [key for key in NAMES if key not in columns]:
        raise WorldforkError(f"`{path}` does not say whose segment it is: it has no `{missing[0]}`.")
    policies, cells = (np.asarray(columns.pop(key)) for key in NAMES)
    return columns, policies, cells
