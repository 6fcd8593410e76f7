"""Pieces of a study as data: what an executor hands to a worker, and what comes back.

An executor maps `perform` over tasks, here, in other processes or on other machines. A task that fails comes back
as `Failed` and spares the rest; a rerun does it again. The driver computes nothing: which device, flags, versions
and source determine the rows is for the worker to say (`Describe`).
"""

import dataclasses
import functools
import time
import traceback
from pathlib import Path
from typing import Any

from worldfork.errors import WorldforkError
from worldfork.lab.agents import arrays
from worldfork.lab.determinism import flags, processor
from worldfork.lab.forks.context import Context
from worldfork.lab.forks.label import Fork, label
from worldfork.lab.stream import Stream, deploy
from worldfork.ledger.provenance import source_digest, sources, versions
from worldfork.ledger.row import ForkRow
from worldfork.randomness import Purpose
from worldfork.registration import Cell, hold_owner, restore, stream_owner

__all__ = [
    "Describe",
    "Described",
    "Failed",
    "Label",
    "Labelled",
    "RunStreams",
    "Setting",
    "Streamed",
    "Task",
    "configuration",
    "context_of_setting",
    "module_sources",
    "perform",
]


@dataclasses.dataclass(frozen=True)
class Setting:
    """What every task of a study begins from."""

    registration: str  # canonical JSON
    checkpoints: tuple[tuple[tuple[str, int], Path], ...]  # (task, index) -> the first of its files


@dataclasses.dataclass(frozen=True)
class Describe:
    """Say what will determine the rows of these cells: cell.json of each."""

    setting: Setting
    cells: tuple[Cell, ...]


@dataclasses.dataclass(frozen=True)
class RunStreams:
    """Run the streams of these cells, of one arm and one task, together."""

    setting: Setting
    cells: tuple[Cell, ...]


@dataclasses.dataclass(frozen=True)
class Label:
    """Label a block of forks of one arm and one task."""

    setting: Setting
    forks: tuple[Fork, ...]


@dataclasses.dataclass(frozen=True)
class Described:
    """The configurations, in the order asked for; remarks on checkpoints; and every source file by its digest."""

    configurations: list[dict[str, Any]]
    remarks: list[str]
    sources: dict[str, dict[str, str]]  # digest of all -> module -> digest


@dataclasses.dataclass(frozen=True)
class Streamed:
    """The streams, in the order asked for."""

    streams: list[Stream]
    seconds: float


@dataclasses.dataclass(frozen=True)
class Labelled:
    """The rows of a block, in its order, not yet chained."""

    rows: list[ForkRow]
    seconds: float
    spent: dict[str, float]  # of these on updates and on evaluations


@dataclasses.dataclass(frozen=True)
class Failed:
    """Why a task could not be done."""

    reason: str
    details: str  # the traceback, for whoever wrote the code that failed


Task = Describe | RunStreams | Label


def perform(task: Task) -> Described | Streamed | Labelled | Failed:
    """Do one task."""
    began = time.perf_counter()
    try:
        context = context_of_setting(task.setting)
        match task:
            case Describe():
                return describe(context, task.cells)
            case RunStreams():
                return Streamed(run_streams(context, task.cells), time.perf_counter() - began)
            case Label():
                block = label(context, task.forks)
                return Labelled(block.rows, time.perf_counter() - began, block.seconds)
    except WorldforkError as error:
        return Failed(str(error), traceback.format_exc())
    except Exception as error:  # whatever a simulator or an agent raises, the study survives it
        return Failed(f"{type(error).__name__}: {error}", traceback.format_exc())


@functools.lru_cache(maxsize=4)
def context_of_setting(setting: Setting) -> Context:
    """What a task begins from, built once for all tasks of a study."""
    return Context(restore(setting.registration), dict(setting.checkpoints))


def run_streams(context: Context, cells: tuple[Cell, ...]) -> list[Stream]:
    """The streams of these cells, in a batch that is padded to the registered size where the agent needs it."""
    arm, task = context.registration.arm(cells[0].arm), cells[0].task
    agent = context.agent(task)
    size = context.registration.execution.streams_per_batch if agent.shape_sensitive else len(cells)
    full = [*cells, *[cells[-1]] * (size - len(cells))]
    streams = deploy(
        agent,
        context.environment(task),
        arrays.concatenate([context.checkpoint(task, cell.checkpoint).parameters for cell in full]),
        events=[cell.event(Purpose.INITIAL_STATE, context.registration.seed) for cell in full],
        schedules=[context.schedule(cell) for cell in full],
        decision_points=arm.stream.decision_points,
        action_noise=arm.stream.action_noise,
    )
    return streams[: len(cells)]


def describe(context: Context, cells: tuple[Cell, ...]) -> Described:
    """What determines the rows of each cell here, as resolved, and nothing else."""
    streams, holds = stream_owner(context.registration), hold_owner(context.registration)
    files: dict[str, dict[str, str]] = {}
    configurations = []
    for cell in cells:
        shares = {
            "stream": streams[cell].id if streams[cell] != cell else None,
            "hold": holds[cell].id if holds[cell] != cell else None,
        }
        modules = _modules(context, cell)
        files.setdefault(source := source_digest(modules), modules)
        configurations.append({**configuration(context, cell), "shares": shares, "source": source})
    places = dict.fromkeys((cell.task, cell.checkpoint) for cell in cells)
    remarks = [remark for place in places if (remark := context.checkpoint(*place).remark)]
    return Described(configurations, remarks, files)


def _modules(context: Context, cell: Cell) -> dict[str, str]:
    named = [located.module for located in context.code(cell).values()]
    return module_sources(("worldfork.lab.forks.tasks", *named))


@functools.cache
def module_sources(modules: tuple[str, ...]) -> dict[str, str]:
    """The source of these modules and of what they import, module by module."""
    return sources(modules)


def configuration(context: Context, cell: Cell) -> dict[str, Any]:
    """What determines the rows of a cell here, but for what it shares and for its source."""
    registration = context.registration
    arm, task = registration.arm(cell.arm), registration.tasks[cell.task]
    agent, environment = context.agent(cell.task, arm), context.environment(cell.task)
    checkpoint, code = context.checkpoint(cell.task, cell.checkpoint), context.code(cell)
    mechanism = context.accepted(arm, cell.task)
    context.require_replay(arm, cell.task, cell.checkpoint)
    plugins = (context.agent_plugin(cell.task, arm), mechanism, *context.signals.values())
    packages = ("numpy", *(name for plugin in plugins for name in plugin.packages))
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
        "checkpoint": {
            "digest": checkpoint.digest,
            "clean_return": checkpoint.clean_return,
            **({"replay": checkpoint.replay_digest} if mechanism.reads_replay else {}),
        },
        "block": registration.execution.model_dump(mode="json") if agent.shape_sensitive else None,
        "precision": context.precision(cell.task, arm),
        "device": agent.device,
        # Another maker's processor may round otherwise; where an accelerator computes, the host does not matter.
        "processor": processor()[0] if agent.device == "cpu" else None,
        "compiler_flags": flags(),
        "simulator": environment.simulator,
        "packages": versions(packages),
        "code": {
            role: {"target": found.target, "distribution": found.distribution, "version": found.version}
            for role, found in code.items()
            if not found.ours
        },
    }
