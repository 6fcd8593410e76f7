"""The cost of a registration: counted exactly, and timed by running a few steps of it.

The paper's cost model for parallel episodes was calibrated to 30 episodes and used at 60. This one measures at the
block's own size, 2F x m episodes.
"""

import dataclasses
import time
from collections.abc import Callable

import numpy as np

from worldfork.lab.agents import arrays
from worldfork.lab.agents.base import needs_full_blocks
from worldfork.lab.closed_loop.batches import deployment_batches
from worldfork.lab.episodes import Draws, roll_out
from worldfork.lab.forks.context import Context
from worldfork.lab.forks.plan import fork_blocks, stream_batches
from worldfork.lab.tools.short_episode import prepared_update, short_episode
from worldfork.randomness import Event, Purpose
from worldfork.registration import Arm

STEPS = 4  # control steps that are timed
QUICK_STEPS = 25  # of an agent that computes set by set
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
class Seconds:
    """Seconds that one arm would take on one task, on this machine."""

    arm: str
    task: str
    streams: float
    updates: float
    evaluations: float
    episodes: tuple[int, ...]  # in parallel, at which it was timed

    @property
    def total(self) -> float:
        return self.streams + self.updates + self.evaluations


def count(context: Context) -> list[Count]:
    """Return the work of every arm and task, shared streams and HOLD branches counted once."""
    registration = context.registration
    batches = stream_batches(registration)
    blocks = {shared: fork_blocks(registration, shared=shared) for shared in (False, True)}
    counts = []
    for arm in registration.arms:
        for task in arm.tasks:
            steps = context.environment(task).episode_steps
            streams = [batch for batch in batches if (batch[0].arm, batch[0].task) == (arm.name, task)]
            unshared, shared = (
                [block for block in blocks[kind] if (block[0][0].arm, block[0][0].task) == (arm.name, task)]
                for kind in (False, True)
            )
            updates = [k for block in (*unshared, *shared) for _, k in block]
            episodes = (len(updates) + sum(map(len, unshared))) * arm.evaluation.episodes
            counts.append(
                Count(
                    arm=arm.name,
                    task=task,
                    streams=len(streams),
                    blocks=len(unshared) + len(shared),
                    stream_steps=steps * arm.stream.decision_points * sum(map(len, streams)),
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
    tried_sets: int = 0  # of a full batch: those whose policy tries its updates, which have an incumbent
    most_trial_episodes: int = 0  # one in every episode after the first; incumbents play them too


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
        tried = sum(policy.trial > 0 for policy in registered.every().values())
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
                tried_sets=tried * of_task[0].size,
                most_trial_episodes=tried * cells * (points - 1),
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
    episode = _step(context, None, counted.task, counted.sets, 1)
    evaluated = _step(context, arm, counted.task, counted.sets, registered.episodes)
    beside = _step(context, None, counted.task, counted.tried_sets, 1) if counted.tried_sets else 0.0
    return {
        "streams": counted.batches * steps * (counted.segments * episode + (counted.segments - 1) * beside),
        "updates": blocks * _train(context, arm, counted.task, size),
        "evaluations": counted.batches * len(registered.evaluate_at) * steps * evaluated,
    }


def measure(context: Context, counted: Count) -> Seconds:
    """Estimate what this arm takes on this task, from a few control steps and gradient steps at its sizes.

    An agent that computes set by set takes as long for each: one of them is timed.
    """
    arm, task = context.registration.arm(counted.arm), counted.task
    forks = context.registration.forks_per_block(arm.name)
    if not needs_full_blocks(context.agent(task, arm)):  # else blocks are padded
        forks = min(forks, -(-counted.updates // counted.blocks))
    streams = context.registration.execution.streams_per_batch
    quick = is_quick(context, counted)
    timed, points = 1 if quick else forks, arm.stream.decision_points
    # One parameter set of `points` episodes stands for a stream, and two of them for a fork.
    seconds_per_step = _quick_step if quick else _step
    stream_step = seconds_per_step(context, None, task, 1 if quick else streams, points)
    step = seconds_per_step(context, arm, task, 2 * timed, arm.evaluation.episodes)
    return Seconds(
        arm.name,
        task,
        streams=stream_step * (counted.stream_steps / points if quick else counted.streams * counted.batch_steps),
        updates=counted.blocks * _train(context, arm, task, timed) * forks / timed,
        evaluations=counted.blocks * counted.batch_steps * step * forks / timed,
        episodes=(2 * timed * arm.evaluation.episodes,),
    )


def is_quick(context: Context, counted: Count) -> bool:
    """Return True if a few steps of one parameter set, which compile nothing, tell how long this arm takes."""
    agent = context.agent(counted.task, context.registration.arm(counted.arm))
    return bool(getattr(agent, "set_by_set", False))


def _step(context: Context, arm: Arm | None, task: str, sets: int, episodes: int) -> float:
    """Seconds for a control step."""
    return _roll(context, arm, task, sets, episodes, steps=STEPS) / STEPS


def _quick_step(context: Context, arm: Arm | None, task: str, sets: int, episodes: int) -> float:
    """Seconds for a control step, from two roll-outs: to begin an episode may take as long as many steps."""
    steps = min(QUICK_STEPS, context.environment(task).episode_steps)
    begun, longer = (_roll(context, arm, task, sets, episodes, steps=count) for count in (1, steps))
    return max(longer - begun, 0.0) / (steps - 1) if steps > 1 else begun


def _roll(context: Context, arm: Arm | None, task: str, sets: int, episodes: int, *, steps: int) -> float:
    """Seconds for so many control steps; a first pass is not timed, since it may compile."""
    agent, environment = context.agent(task, arm), context.environment(task)
    checkpoint = context.checkpoint(task, context.registration.grid.checkpoints[0])
    parameters = arrays.take(checkpoint.parameters, np.zeros(sets, np.int64))
    draws = Draws.of([Event(purpose=Purpose.INITIAL_STATE, task=task)] * sets, np.arange(episodes))
    halves = context.registration.execution.halves

    def go() -> None:
        roll_out(
            agent,
            environment,
            parameters,
            draws,
            levels=np.zeros((sets, steps)),
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
    points, trained = arm.stream.decision_points, min(TRAINED, longest)
    columns = short_episode(context, arm, task).stream.recording
    recording = {name: np.concatenate([values] * points) for name, values in columns.items()}
    go = prepared_update(context, arm, task, recording, points, steps=trained, sets=sets)
    return _second_time(go) * longest / trained


def _dose(context: Context, arm: Arm, task: str, k: int) -> int:
    """Gradient steps of an update at decision point k."""
    mechanism = context.mechanism(arm)
    seen = min(mechanism.window, k * context.environment(task).episode_steps)
    return mechanism.dose(context.agent(task, arm), seen)


def _second_time(go: Callable[[], object]) -> float:
    go()
    began = time.perf_counter()
    go()
    return time.perf_counter() - began
