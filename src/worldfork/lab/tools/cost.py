"""The cost of a registration: counted exactly, and timed by running a few steps of it.

The paper's cost model for parallel episodes was calibrated to 30 episodes and used at 60. This one measures at the
block's own size, 2F x m episodes, and below it: a control step of n episodes takes `fixed + each * n` seconds.
"""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from worldfork.lab.agents import arrays
from worldfork.lab.agents.base import needs_full_blocks
from worldfork.lab.closed_loop.batches import deployment_batches
from worldfork.lab.episodes import Draws, roll_out
from worldfork.lab.forks.context import Context
from worldfork.lab.forks.plan import fork_blocks, stream_batches
from worldfork.lab.mechanisms.base import Origin
from worldfork.lab.stream import Recording
from worldfork.lab.stream import window as window_of
from worldfork.lab.tools.short_episode import short_episode
from worldfork.randomness import Event, Purpose, words
from worldfork.registration import Arm

STEPS = 4  # control steps that are timed
TRAINED = 10  # gradient steps that are timed


@dataclasses.dataclass(frozen=True)
class Count:
    """The amount of each kind of work of one arm on one task."""

    arm: str
    task: str
    streams: int  # batches of them
    blocks: int
    stream_steps: int  # control steps, all streams together
    batch_steps: int  # control steps of a batch, one after another: a stream's episodes run side by side
    updates: int
    gradient_steps: int
    evaluation_episodes: int
    evaluation_steps: int  # control steps, all episodes together


@dataclasses.dataclass(frozen=True)
class Timing:
    """Seconds per control step of n parallel episodes, per stream step, and per update of a block."""

    fixed: float
    each: float
    episodes: tuple[int, ...]  # where it was measured
    measured: tuple[float, ...]
    stream_step: float
    update: float

    def control_step(self, episodes: int) -> float:
        return self.fixed + self.each * episodes


def count(context: Context) -> list[Count]:
    """Return the work of every arm and task, shared streams and HOLD branches counted once."""
    registration = context.registration
    batches = stream_batches(registration)
    streams = [(batch[0].arm, batch[0].task) for batch in batches]
    cells_of = [(cell.arm, cell.task) for batch in batches for cell in batch]
    blocks = {
        shared: [
            (block[0][0].arm, block[0][0].task, [k for _, k in block])
            for block in fork_blocks(registration, shared=shared)
        ]
        for shared in (False, True)
    }
    counts = []
    for arm in registration.arms:
        for task in arm.tasks:
            steps = context.environment(task).episode_steps
            unshared, shared = (
                [points for name, of, points in blocks[kind] if (name, of) == (arm.name, task)]
                for kind in (False, True)
            )
            updates = [k for points in (*unshared, *shared) for k in points]
            episodes = (len(updates) + sum(map(len, unshared))) * arm.evaluation.episodes
            counts.append(
                Count(
                    arm=arm.name,
                    task=task,
                    streams=streams.count((arm.name, task)),
                    blocks=len(unshared) + len(shared),
                    stream_steps=steps * arm.stream.decision_points * cells_of.count((arm.name, task)),
                    batch_steps=steps,
                    updates=len(updates),
                    gradient_steps=sum(_dose(context, arm, task, k) for k in updates),
                    evaluation_episodes=episodes,
                    evaluation_steps=episodes * steps,
                )
            )
    return counts


@dataclasses.dataclass(frozen=True)
class DeploymentCount:
    """The amount of work of deploying every policy on one task; segments come one after another, sets side by
    side."""

    task: str
    policies: int
    cells: int
    batches: int
    sets: int  # parameter sets of a full batch: policies x cells
    segments: int  # of each batch
    own_episodes: int
    own_steps: int  # control steps, all deployments together
    evaluation_episodes: int
    most_updates: int  # if every policy but never fired at every decision point
    most_gradient_steps: int


def count_deployments(context: Context) -> list[DeploymentCount]:
    """Return the work of [deployment], task by task; updates at most, since how often a policy fires is the
    question."""
    registration = context.registration
    registered = registration.deployment
    if registered is None:
        return []
    counts = []
    batches = deployment_batches(registration)
    for task in dict.fromkeys(batch.task for batch in batches):
        of_task = [batch for batch in batches if batch.task == task]
        cells, policies = sum(len(batch.cells[0]) for batch in of_task), of_task[0].policies
        arms = {name: registration.arm(of_task[0].cells[place][0].arm) for place, name in enumerate(policies)}
        points = arms["never"].stream.decision_points
        episodes = len(policies) * cells * points
        updating = [arm for name, arm in arms.items() if name != "never"]
        counts.append(
            DeploymentCount(
                task=task,
                policies=len(policies),
                cells=cells,
                batches=len(of_task),
                sets=len(policies) * of_task[0].size,
                segments=points,
                own_episodes=episodes,
                own_steps=episodes * context.environment(task).episode_steps,
                evaluation_episodes=len(policies) * cells * len(registered.evaluate_at) * registered.episodes,
                most_updates=len(updating) * cells * points,
                most_gradient_steps=cells
                * sum(_dose(context, arm, task, k) for arm in updating for k in range(1, points + 1)),
            )
        )
    return counts


def measure_deployments(context: Context, counted: DeploymentCount) -> dict[str, float]:
    """Return the time of each kind of work of [deployment] here, in seconds, if every policy but never fired
    always."""
    registered = context.registration.deployment
    assert registered is not None
    arm = context.registration.arm(registered.arm or context.registration.arms[0].name)
    size, steps = context.registration.forks_per_block(arm.name), context.environment(counted.task).episode_steps
    updated = counted.sets * (counted.policies - 1) // counted.policies
    if not needs_full_blocks(context.agent(counted.task, arm)):
        size = min(size, updated)
    blocks = counted.batches * counted.segments * -(-updated // size)
    episode = _roll(context, None, counted.task, counted.sets, 1) / STEPS
    evaluated = _roll(context, arm, counted.task, counted.sets, registered.episodes) / STEPS
    return {
        "streams": counted.batches * counted.segments * steps * episode,
        "updates": blocks * _train(context, arm, counted.task, size),
        "evaluations": counted.batches * len(registered.evaluate_at) * steps * evaluated,
    }


def forks_together(context: Context, arm: Arm, counted: Count) -> int:
    """Return the forks of a block of this arm and task: on average, or where it is padded always."""
    size = context.registration.forks_per_block(arm.name)
    if needs_full_blocks(context.agent(counted.task, arm)):
        return size
    return min(size, -(-counted.updates // counted.blocks))


def measure(context: Context, arm: Arm, task: str, *, forks: int) -> Timing:
    """Run a few control steps at several numbers of parallel episodes, and a few gradient steps of `forks`."""
    streams = context.registration.execution.streams_per_batch
    sets, m = 2 * forks, arm.evaluation.episodes
    sizes = sorted({1, -(-m // 2), m})
    times = [_roll(context, arm, task, sets, size) / STEPS for size in sizes]
    parallel = np.array([sets * size for size in sizes], dtype=float)
    each, fixed = np.polyfit(parallel, times, 1) if len(sizes) > 1 else (times[0] / parallel[0], 0.0)
    return Timing(
        fixed=max(float(fixed), 0.0),
        each=max(float(each), 0.0),
        episodes=tuple(int(n) for n in parallel),
        measured=tuple(times),
        stream_step=_roll(context, None, task, streams, arm.stream.decision_points) / STEPS,
        update=_train(context, arm, task, forks),
    )


def seconds(counted: Count, timing: Timing, *, episodes_per_block: int, episode_steps: int) -> dict[str, float]:
    """Return the time of each kind of work, in seconds."""
    return {
        "streams": counted.streams * counted.batch_steps * timing.stream_step,
        "updates": counted.blocks * timing.update,
        "evaluations": counted.blocks * episode_steps * timing.control_step(episodes_per_block),
    }


def _roll(context: Context, arm: Arm | None, task: str, sets: int, episodes: int) -> float:
    """Seconds for `STEPS` control steps; a first pass is not timed, since it may compile."""
    agent, environment = context.agent(task, arm), context.environment(task)
    parameters = _repeated(context.checkpoint(task, context.registration.grid.checkpoints[0]).parameters, sets)
    draws = Draws.of([Event(purpose=Purpose.INITIAL_STATE, task=task)] * sets, np.arange(episodes))
    halves = context.registration.execution.halves

    def go() -> None:
        roll_out(
            agent,
            environment,
            parameters,
            draws,
            levels=np.zeros((sets, STEPS)),
            action_noise=0.0,
            halves=halves,
            after_end=context.after_end(task) or "reset",
        )

    return _second_time(go)


def _train(context: Context, arm: Arm, task: str, sets: int) -> float:
    """Seconds for one block's updates, from a few gradient steps on an episode over and over. A block lasts as long
    as the longest of its updates."""
    if (longest := _dose(context, arm, task, arm.stream.decision_points)) == 0:
        return 0.0
    agent, points = context.agent(task, arm), arm.stream.decision_points
    checkpoint = context.checkpoint(task, context.registration.grid.checkpoints[0])
    columns = short_episode(context, arm, task).stream.recording.columns()
    recording = Recording(**{name: np.concatenate([values] * points) for name, values in columns.items()})
    trained = min(TRAINED, longest)
    mechanism = context.mechanism(arm)
    fixed = {"passes": None} if "passes" in type(mechanism).model_fields else {}
    mechanism = mechanism.model_copy(update={"steps": trained, **fixed})
    keys = np.stack([words(Event(purpose=Purpose.UPDATE_BATCH, fork=index)) for index in range(sets)])
    window = window_of([recording] * sets, [points] * sets)
    origin = Origin.of([checkpoint], replay=mechanism.reads_replay).take(np.zeros(sets, np.int64))

    def go() -> None:
        mechanism.update(
            agent, origin.parameters, optimiser=origin.optimiser, origin=origin, window=window, batch_keys=keys
        )

    return _second_time(go) * longest / trained


def _dose(context: Context, arm: Arm, task: str, k: int) -> int:
    """Gradient steps of an update at decision point k."""
    mechanism = context.mechanism(arm)
    seen = min(mechanism.window, k * context.environment(task).episode_steps)
    return mechanism.dose(context.agent(task, arm), seen)


def _repeated(group: Any, times: int) -> dict[str, Any]:
    return arrays.take(group, np.zeros(times, np.int64))


def _second_time(go: Callable[[], None]) -> float:
    go()
    began = time.perf_counter()
    go()
    return time.perf_counter() - began
