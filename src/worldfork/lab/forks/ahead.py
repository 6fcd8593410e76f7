"""The programs of a study's blocks are compiled while its streams run, or while its checkpoints are pretrained.

What a block calls is known from the registration: its update and its validation loss on windows of the stream's
length, and its plans for so many parameter sets and episodes. All of it is rehearsed on zeros
(`worldfork.lab.ahead`) in the process that will call it. Agents say that their programs can be rehearsed
(`rehearsable`); mechanisms must be worldfork's own, for another's code is not called where nobody asked for it.
"""

import dataclasses
import functools
import weakref

import numpy as np

from worldfork import registry
from worldfork.blobs import Blob
from worldfork.lab.agents.base import Checkpoint
from worldfork.lab.agents.training import Trainable
from worldfork.lab.ahead import Ahead
from worldfork.lab.environments.base import Environment
from worldfork.lab.episodes.warm_up import rehearse_control_step
from worldfork.lab.forks import label
from worldfork.lab.forks.context import Context
from worldfork.lab.stream import Recording, Stream, StreamLog
from worldfork.registration import Arm, Cell, Registration, canonical, cells

_aheads: weakref.WeakKeyDictionary[Context, Ahead] = weakref.WeakKeyDictionary()


def compile_ahead(context: Context, cell: Cell) -> None:
    """Begin to compile the programs of every arm's blocks of this cell's task."""
    ahead = _aheads.setdefault(context, Ahead())
    begun = set()
    for arm in context.registration.arms:
        if cell.task not in arm.tasks or not _can_be_rehearsed(context, arm, cell):
            continue
        programs = _programs(arm, cell.task)
        if programs not in begun:
            begun.add(programs)
            for rehearsal in _rehearsals(context, arm, dataclasses.replace(cell, arm=arm.name)):
                ahead.add(programs, rehearsal)


def wait_until_compiled(context: Context, cell: Cell) -> None:
    """Return once nothing that this cell's blocks call is being compiled elsewhere: it would be done twice."""
    if (ahead := _aheads.get(context)) is not None:
        ahead.ready(_programs(context.registration.arm(cell.arm), cell.task))


def compile_without_checkpoints(registration: Registration, task: str) -> None:
    """Compile what this task's streams and blocks will call, and return when that is done. Its checkpoints need not
    be there; arms that read what those were pretrained on are left out."""
    context = _Untrained(registration, {})
    if not getattr(context.agent(task), "rehearsable", False) or not isinstance(context.agent(task), Trainable):
        return
    cell = next(cell for cell in cells(registration) if cell.task == task)
    compile_ahead(context, cell)
    ahead = _aheads[context]
    ahead.add("streams", functools.partial(_stream, context, cell))
    ahead.finish()


class _Untrained(Context):
    """A registration's context with models before any training where its checkpoints will be."""

    def _checkpoint(self, task: str, index: int, files: tuple[Blob, ...]) -> Checkpoint:
        agent = self.agent(task)
        assert isinstance(agent, Trainable)
        parameters, optimiser = agent.fresh({}, np.zeros((1, 2), np.uint32))
        return Checkpoint(parameters, optimiser, clean_return=0.0, digest="")


def _can_be_rehearsed(context: Context, arm: Arm, cell: Cell) -> bool:
    return (
        getattr(context.agent(cell.task, arm), "rehearsable", False)
        and registry.locate("mechanisms", arm.mechanism.name).ours
        and not (
            context.mechanism(arm).reads_replay and context.checkpoint(cell.task, cell.checkpoint).replay is None
        )
    )


def _programs(arm: Arm, task: str) -> str:
    """What the programs of an arm depend on: everything but names, draws and numbers that are data."""
    mechanism = arm.mechanism
    settings = {name: value for name, value in mechanism.settings.items() if name != "rate"}
    data = {"name", "label", "tasks", "stream_seeds", "update_seeds", "stream", "mechanism"}
    parts = [arm.model_dump(exclude=data), mechanism.name, mechanism.scope, mechanism.steps == 0]
    return canonical([task, *parts, settings, arm.stream.decision_points])


def _rehearsals(context: Context, arm: Arm, cell: Cell) -> list[functools.partial[None]]:
    """The parts of a block, longest first. What they need is built here, where nothing runs beside it."""
    agent, environment = context.agent(cell.task, arm), context.environment(cell.task)
    frozen = context.checkpoint(cell.task, cell.checkpoint).parameters
    fork = label.Fork(cell, arm.stream.decision_points, _blank_stream(environment, arm.stream.decision_points))
    size = context.registration.forks_per_block(arm.name)
    forks = [fork] * size
    halves = min(context.registration.execution.halves, arm.evaluation.episodes)
    episodes = sorted({len(part) for part in np.array_split(np.arange(arm.evaluation.episodes), halves)})
    plan = functools.partial(rehearse_control_step, agent, environment, frozen, sets=2 * size)
    return [
        functools.partial(_update, context, forks),
        *(functools.partial(plan, episodes=count) for count in episodes),
        functools.partial(_validate, context, forks),
    ]


def _stream(context: Context, cell: Cell) -> None:
    rehearse_control_step(
        context.agent(cell.task),
        context.environment(cell.task),
        context.checkpoint(cell.task, cell.checkpoint).parameters,
        sets=context.registration.execution.streams_per_batch,
        episodes=context.registration.arm(cell.arm).stream.decision_points,
    )


def _update(context: Context, forks: list[label.Fork]) -> None:
    label.update_forks(context, forks)


def _validate(context: Context, forks: list[label.Fork]) -> None:
    label.validation_losses(context, forks)


def _blank_stream(environment: Environment, decision_points: int) -> Stream:
    """A stream of the right length, of which only the transitions are looked at."""
    steps = decision_points * environment.episode_steps
    recording = Recording(
        observation=np.zeros((steps, environment.observation_size)),
        action=np.zeros((steps, environment.action_size)),
        reward=np.zeros(steps),
        first=np.arange(steps) % environment.episode_steps == 0,
        final=np.zeros((decision_points, environment.observation_size)),
    )
    counted, unknown = np.zeros(0, np.int64), np.zeros(0)
    log = StreamLog(counted, counted, counted, unknown, unknown, unknown, unknown, signals={})
    return Stream(log, recording)
