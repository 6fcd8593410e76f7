"""Pieces of a study as data: what an executor hands to a worker, and what comes back.

An executor maps `perform` over jobs, here, in other processes or on other machines. A job holds the registration,
the names of the blobs that it reads (files of checkpoints and of streams), and which cells or forks; it holds no
arrays. A job that fails comes back as `Failed` and spares the rest; a rerun does it again.

The driver computes nothing, and needs neither accelerator nor simulator. Which device, flags, versions and source
determine the rows is for the worker to say (`Describe`); every later job names what was found then (`identity`),
and a worker that is not the same refuses it.
"""

import abc
import dataclasses
import functools
import platform
import time
from collections.abc import Collection, Mapping
from typing import Any, Final

from worldfork.blobs import Blob
from worldfork.errors import Failed
from worldfork.lab.agents import arrays
from worldfork.lab.agents.base import needs_full_blocks
from worldfork.lab.determinism import as_recorded, flags, processor
from worldfork.lab.forks.context import Context, TaskCheckpoint
from worldfork.lab.forks.label import Fork, label
from worldfork.lab.forks.plan import StoredStream
from worldfork.lab.stream import Stream, deploy
from worldfork.lab.workers import Unfit, attempted, worker_name
from worldfork.ledger.provenance import sources, versions
from worldfork.ledger.row import ForkRow
from worldfork.randomness import Purpose
from worldfork.registration import (
    Cell,
    Registration,
    canonical,
    difference,
    digest,
    hold_owner,
    restore,
    stream_owner,
)

Identity = Mapping[str, Any]  # the worker's part of cell.json

# Fields of cell.json that are the worker's and not the registration's: the same for all cells of an arm and a task.
WORKERS: Final = ("device", "processor", "compiler_flags", "simulator", "packages", "code", "source")


@dataclasses.dataclass(frozen=True)
class Setting:
    """Input of a job: the registration in canonical JSON, and the files of the checkpoints that it reads."""

    registration: str
    checkpoints: tuple[tuple[TaskCheckpoint, tuple[Blob, ...]], ...]

    @classmethod
    def of(cls, registration: Registration, checkpoints: Mapping[TaskCheckpoint, tuple[Blob, ...]]) -> "Setting":
        """Return the setting of a registration and the files of its checkpoints."""
        in_json = canonical(registration.model_dump(mode="json", by_alias=True))
        return cls(in_json, tuple(checkpoints.items()))

    def only(self, cells: Collection[Cell]) -> "Setting":
        """Return the setting with the checkpoints of these cells alone."""
        needed = {(cell.task, cell.checkpoint) for cell in cells}
        return Setting(self.registration, tuple(entry for entry in self.checkpoints if entry[0] in needed))

    @property
    def blobs(self) -> tuple[Blob, ...]:
        return tuple(blob for _, files in self.checkpoints for blob in files)


@dataclasses.dataclass(frozen=True)
class Described:
    """Configurations in the order asked for, remarks on checkpoints, and every source file by its digest."""

    configurations: list[dict[str, Any]]
    remarks: list[str]
    sources: dict[str, dict[str, str]]  # digest of all -> module -> digest
    host: dict[str, str] = dataclasses.field(compare=False)  # which may differ between workers


@dataclasses.dataclass(frozen=True)
class Streamed:
    """Streams, in the order asked for."""

    streams: list[Stream]
    seconds: float = dataclasses.field(compare=False)
    worker: str = dataclasses.field(compare=False)


@dataclasses.dataclass(frozen=True)
class Labelled:
    """Rows of a block, in its order, not yet chained."""

    rows: list[ForkRow]
    seconds: float = dataclasses.field(compare=False)
    spent: dict[str, float] = dataclasses.field(compare=False)  # seconds of these on updates and on evaluations
    worker: str = dataclasses.field(compare=False)

    @property
    def doubtful(self) -> bool:
        """True if a branch came to nothing finite: an outcome, unless the worker is broken."""
        return any(None in (*row.hold, *row.update) or row.fit.non_finite > 0 for row in self.rows)


@dataclasses.dataclass(frozen=True)
class Job(abc.ABC):
    """A piece of a study, which reads the files of its setting."""

    setting: Setting

    @property
    def blobs(self) -> tuple[Blob, ...]:
        """The files that the job reads."""
        return self.setting.blobs

    @abc.abstractmethod
    def perform(self, context: Context) -> Any:
        """Do it here."""


def perform(job: Job) -> Any | Failed:
    """Return the job's result, or how it failed."""
    return attempted(lambda: job.perform(context_of_setting(job.setting)))


@dataclasses.dataclass(frozen=True)
class Describe(Job):
    """Describe what will determine the rows of these cells: cell.json of each."""

    cells: tuple[Cell, ...]

    def __str__(self) -> str:
        return "the study's set-up"

    def perform(self, context: Context) -> Described:
        return describe(context, self.cells)


@dataclasses.dataclass(frozen=True)
class RunStreams(Job):
    """Run the streams of these cells, of one arm and one task, together."""

    cells: tuple[Cell, ...]
    identity: Identity

    def __str__(self) -> str:
        return f"{self.cells[0].id} and its batch"

    def perform(self, context: Context) -> Streamed:
        began = time.perf_counter()
        require_identity(self.identity, context, self.cells[0], _modules(context, self.cells[0]))
        return Streamed(run_streams(context, self.cells), time.perf_counter() - began, worker_name())


@dataclasses.dataclass(frozen=True)
class Label(Job):
    """Label a block of forks of one arm and one task, whose streams are named by their files."""

    forks: tuple[Fork, ...]
    identity: Identity

    @property
    def blobs(self) -> tuple[Blob, ...]:
        stored = [fork.stream for fork in self.forks if isinstance(fork.stream, StoredStream)]
        streams = (blob for stream in stored for blob in (stream.log_file, stream.recording_file))
        return tuple(dict.fromkeys((*self.setting.blobs, *streams)))

    def __str__(self) -> str:
        return f"{self.forks[0].cell.id} from fork {self.forks[0].k} on"

    def perform(self, context: Context) -> Labelled:
        began = time.perf_counter()
        cell = self.forks[0].cell
        require_identity(self.identity, context, cell, _modules(context, cell))
        rows, spent = label(context, self.forks)
        return Labelled(rows, time.perf_counter() - began, spent, worker_name())


def require_identity(expected: Identity, context: Context, cell: Cell, modules: dict[str, str]) -> None:
    """Raise an error if the rows that `modules` compute here for this cell would not be the study's."""
    here = identity_of({**_of_worker(context, cell), "source": digest(modules)})
    if dict(expected) != (found := as_recorded(here, expected)):
        changes = "\n  ".join(difference(dict(expected), found))
        raise Unfit(
            f"The worker {worker_name()} is not of the kind that this study began with:\n  {changes}\n"
            "Rows of two kinds are never mixed: give the study workers of one kind."
        )


def identity_of(described: Mapping[str, Any]) -> Identity:
    """Return the worker's part of a cell's configuration: device, flags, packages, source."""
    return {name: described[name] for name in WORKERS}


def context_of_setting(setting: Setting) -> Context:
    """Return the context of a setting, built once for all jobs of a study."""
    context = _context(setting.registration)
    context.checkpoints.update(setting.checkpoints)
    return context


@functools.lru_cache(maxsize=4)
def _context(registration: str) -> Context:
    return Context(restore(registration), {})


def run_streams(context: Context, cells: tuple[Cell, ...]) -> list[Stream]:
    """Run the streams of these cells, in a batch that is padded to the registered size where the agent needs it."""
    arm, task = context.registration.arm(cells[0].arm), cells[0].task
    agent = context.agent(task)
    size = context.registration.execution.streams_per_batch if needs_full_blocks(agent) else len(cells)
    full = [*cells, *[cells[-1]] * (size - len(cells))]
    streams = deploy(
        agent,
        context.environment(task),
        arrays.concatenate([context.checkpoint(task, cell.checkpoint).parameters for cell in full]),
        events=[cell.event(Purpose.INITIAL_STATE, context.registration.seed) for cell in full],
        schedules=[context.schedule(cell) for cell in full],
        decision_points=arm.stream.decision_points,
        action_noise=arm.stream.action_noise,
        after_end=context.after_end(task) or "reset",
    )
    return streams[: len(cells)]


def describe(context: Context, cells: tuple[Cell, ...]) -> Described:
    """Describe what determines the rows of each cell here, as resolved, and nothing else."""
    streams, holds = stream_owner(context.registration), hold_owner(context.registration)
    files: dict[str, dict[str, str]] = {}
    configurations = []
    for cell in cells:
        shares = {
            "stream": streams[cell].id if streams[cell] != cell else None,
            "hold": holds[cell].id if holds[cell] != cell else None,
        }
        modules = _modules(context, cell)
        files.setdefault(source := digest(modules), modules)
        configurations.append({**configuration(context, cell), "shares": shares, "source": source})
    checkpoints = dict.fromkeys((cell.task, cell.checkpoint) for cell in cells)
    remarks = [remark for task, index in checkpoints if (remark := context.checkpoint(task, index).remark)]
    maker, model = processor()
    host = {"host": platform.node(), "machine": platform.machine(), "python": platform.python_version()}
    return Described(configurations, remarks, files, {**host, "processor": f"{maker} {model}".strip()})


def _modules(context: Context, cell: Cell) -> dict[str, str]:
    named = [located.module for located in context.code(cell).values()]
    return module_sources(("worldfork.lab.forks.jobs", *named))


@functools.cache
def module_sources(modules: tuple[str, ...]) -> dict[str, str]:
    """Return the digest of the source of these modules and of what they import, module by module."""
    return sources(modules)


def configuration(context: Context, cell: Cell) -> dict[str, Any]:
    """Return what determines the rows of a cell here, but for what it shares and for its source."""
    registration = context.registration
    arm, task = registration.arm(cell.arm), registration.tasks[cell.task]
    agent, environment = context.agent(cell.task, arm), context.environment(cell.task)
    checkpoint = context.checkpoint(cell.task, cell.checkpoint)
    mechanism = context.accepted(arm, cell.task)
    context.require_replay(arm, cell.task, cell.checkpoint)
    after_end = context.after_end(cell.task)
    return {
        "schema": "worldfork.cell/2",
        "cell": cell.id,
        "registration": registration.digest,
        "seed": registration.seed,
        "coordinates": cell.coordinates,
        "arm": arm.decisive(),
        "task": task.model_dump(mode="json"),
        "signals": list(registration.signals),
        "units": {"episode_steps": environment.episode_steps, "action_repeat": environment.action_repeat},
        **({"after_end": after_end} if after_end else {}),
        "checkpoint": {
            "digest": checkpoint.digest,
            "clean_return": checkpoint.clean_return,
            **({"replay": checkpoint.replay_digest} if mechanism.reads_replay else {}),
        },
        "block": registration.execution.model_dump(mode="json") if agent.shape_sensitive else None,
        "precision": context.precision(cell.task, arm),
        **_of_worker(context, cell),
    }


def _of_worker(context: Context, cell: Cell) -> dict[str, Any]:
    """Return device, compiler flags, simulator and versions with which this worker computes the cell."""
    arm = context.registration.arm(cell.arm)
    agent, environment = context.agent(cell.task, arm), context.environment(cell.task)
    plugins = (context.agent_plugin(cell.task, arm), context.accepted(arm, cell.task), *context.signals.values())
    packages = ("numpy", *(name for plugin in plugins for name in plugin.packages))
    return {
        "device": agent.device,
        # Another maker's processor may round otherwise; where an accelerator computes, the host does not matter.
        "processor": processor()[0] if agent.device == "cpu" else None,
        "compiler_flags": flags(),
        "simulator": environment.simulator,
        "packages": versions(packages),
        "code": {
            role: {"target": located.target, "distribution": located.distribution, "version": located.version}
            for role, located in context.code(cell).items()
            if not located.ours
        },
    }
