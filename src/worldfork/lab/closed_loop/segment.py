"""A segment of a batch of deployments: an episode, a decision, the updates that fired, an evaluation.

While an update is on trial, the episode is also played by its incumbent, the model before the update.
Each part is one call for all parameter sets, at one shape. Initial states, planner keys and action noise are those
of the cell and the episode, whatever the policy: what two policies differ in is what they decided.
"""

import dataclasses
import time
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64

from worldfork.lab.agents import arrays
from worldfork.lab.agents.base import Arrays, needs_full_blocks
from worldfork.lab.closed_loop.batches import extended, segment_of
from worldfork.lab.closed_loop.state import Shape, State, decide, settle, update
from worldfork.lab.episode_log import Rolled
from worldfork.lab.episodes import Draws, Record, roll_out
from worldfork.lab.forks.label import Branch, Fork, branches_of, read_signals, roll_forks
from worldfork.lab.stream import Stream, cut, segment
from worldfork.ledger.closed_loop import DeploymentRow
from worldfork.randomness import Purpose
from worldfork.registration import Cell


@dataclasses.dataclass(frozen=True)
class Advanced:
    """Episode k of every set that is recorded: rows that are not yet chained, and the state to go on from."""

    rows: list[DeploymentRow]
    episodes: list[Stream]  # what happened, in the order of the rows
    state: State = dataclasses.field(compare=False)  # rows have its digests
    seconds: dict[str, float] = dataclasses.field(compare=False)  # by what was done


def advance(shape: Shape, state: State) -> Advanced:
    """Episode `state.k` + 1 of every deployment, and what follows from it."""
    context, k, clock = shape.context, state.k + 1, [time.perf_counter()]
    rolled = roll_episode(shape, state)
    assert rolled.trace is not None
    outcomes, beside = branches_of(rolled), roll_incumbents(shape, state)
    environment, noise = shape.environment, shape.arm.stream.action_noise
    repeat = environment.action_repeat
    schedules = [context.schedule(cell) for _, cell in shape.batch.sets]
    episodes = cut(rolled.trace, schedules, repeat=repeat, action_noise=noise, before=k - 1)
    streams = tuple(map(extended, state.streams, episodes) if state.streams else episodes)
    clock.append(time.perf_counter())
    losses = _validation_losses(shape, state, episodes)
    measured, segments = {}, {}
    for index in shape.real:
        cell = shape.batch.sets[index][1]
        level = float(schedules[index].level(k * environment.episode_steps * repeat))
        fork = Fork(cell, k, episodes[index])
        signals = read_signals(context, fork, level=level, validation_loss=float(losses[index]))
        measured[index] = level, signals
        segments[index] = segment_of(episodes[index], k, level=level, signals=signals)
    returns = {index: (outcomes[index].returns[0], other.returns[0]) for index, other in beside.items()}
    state, trials = settle(shape, dataclasses.replace(state, k=k, streams=streams), returns)
    state, decisions = decide(shape, state, segments)
    state, spent = update(shape, state, [index for index in shape.real if decisions[index].fired])
    clock.append(time.perf_counter())
    registered = context.registration.deployment
    assert registered is not None
    evaluated = evaluate(shape, state) if k in registered.evaluate_at else None
    clock.append(time.perf_counter())
    evaluations = None if evaluated is None else branches_of(evaluated)
    rows = []
    for index in shape.real:
        (policy, cell), (stream, recording) = shape.batch.sets[index], episodes[index].digests
        level, signals = measured[index]
        decision, outcome, (fit, steps) = decisions[index], outcomes[index], spent.get(index, (None, 0))
        evaluation = None if evaluations is None else evaluations[index]
        answer = decision.answer.item() if isinstance(decision.answer, np.generic) else decision.answer
        rows.append(
            DeploymentRow(
                policy=policy,
                cell=cell.id,
                k=k,
                step=k * environment.episode_steps,
                env_step=k * environment.episode_steps * repeat,
                level=level,
                signals=signals,
                episode_return=outcome.returns[0],
                answer=answer,
                threshold=shape.policies[index].threshold,
                fired=decision.fired,
                fit=fit,
                gradient_steps=steps,
                evaluation=None if evaluation is None else evaluation.returns,
                nonfinite_actions=outcome.replaced,
                unstable=bool(outcome.unstable),
                draws=outcome.draws,
                evaluation_draws=None if evaluation is None else evaluation.draws,
                trial=trials.get(index),
                state=state.models.digests[index],
                stream=stream,
                window=recording,
                prev="",
                digest="",
            )
        )
    names = ("streams", "updates", "evaluations")
    return Advanced(
        rows,
        [episodes[index] for index in shape.real],
        state,
        {name: clock[i + 1] - clock[i] for i, name in enumerate(names)},
    )


def roll_episode(shape: Shape, state: State, *, record: Record | None = None) -> Rolled:
    """Return the deployment's own next episode, of every set."""
    cells = [cell for _, cell in shape.batch.sets]
    return _next_episode(shape, cells, state.models.parameters, k=state.k, trace=True, record=record)


def roll_incumbents(shape: Shape, state: State) -> dict[int, Branch]:
    """Return the outcome of the same episode under the incumbent of every trial under way, by set.

    All incumbents play, at one shape; none does while no trial is under way.
    """
    if state.incumbents is None:
        return {}
    cells = [shape.batch.sets[index][1] for index in shape.tried]
    rolled = _next_episode(shape, cells, state.incumbents.parameters, k=state.k)
    outcomes = dict(zip(shape.tried, branches_of(rolled), strict=True))
    return {index: outcomes[index] for index in state.under_trial}


def _next_episode(
    shape: Shape,
    cells: Sequence[Cell],
    parameters: Arrays,
    *,
    k: int,
    trace: bool = False,
    record: Record | None = None,
) -> Rolled:
    """Return episode `k` + 1 of deployments of these cells. What it draws is a matter of cell and episode."""
    context, steps = shape.context, shape.environment.episode_steps
    env_steps = (k * steps + np.arange(steps)) * shape.environment.action_repeat
    schedules = [context.schedule(cell) for cell in cells]
    seed = context.registration.seed
    return roll_out(
        context.agent(shape.batch.task),
        shape.environment,
        parameters,
        Draws.of([cell.event(Purpose.INITIAL_STATE, seed) for cell in cells], np.array([k])),
        levels=np.stack([schedule.felt(schedule.level(env_steps)) for schedule in schedules]),
        action_noise=shape.arm.stream.action_noise,
        trace=trace,
        record=record,
        after_end=context.after_end(shape.batch.task) or "reset",
    )


def evaluate(shape: Shape, state: State) -> Rolled:
    """Return the models as they are after decision `state.k`, on the episodes of fork k: those that its HOLD and
    its UPDATE met in the one-step ledger."""
    registered = shape.context.registration.deployment
    assert registered is not None
    sets = zip(shape.batch.sets, state.streams, strict=True)
    forks = [Fork(cell, state.k, stream) for (_, cell), stream in sets]
    return roll_forks(shape.context, forks, state.models.parameters, episodes=np.arange(registered.episodes))


def _validation_losses(shape: Shape, state: State, episodes: Sequence[Stream]) -> Float64[np.ndarray, " P"]:
    """Return the training loss of each set's current model on the episode that has just ended, all of it held
    out."""
    agent = shape.context.agent(shape.batch.task, shape.arm)
    size = shape.context.registration.forks_per_block(shape.arm.name)
    losses = []
    for start in range(0, len(episodes), size):
        stop = start + size if needs_full_blocks(agent) else min(start + size, len(episodes))
        part = np.minimum(np.arange(start, stop), len(episodes) - 1)
        seen = segment([episodes[index].recording for index in part], [1] * len(part))
        losses.append(np.asarray(agent.loss(arrays.take(state.models.parameters, part), seen), np.float64))
    return np.concatenate(losses)[: len(episodes)]
