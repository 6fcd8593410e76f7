"""Rolling out episodes: P parameter sets by E episodes, one agent call and one physics call per control step.

An episode batch is a generator that hands out its physics calls and is sent their results. Whoever drives it
decides where they run: `overlapped` steps one half of the episodes on a thread while the agent plans for the other
half. The results do not depend on it. A physics call waits for the actions it needs, so that an accelerator has the
next half's plan to compute before it is done with this one's. Between an observation and the call that plans on it
lies nothing but the filter: what else a control step leaves to do is done once the next plan is being computed.
"""

import dataclasses
import functools
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

import numpy as np
from jaxtyping import Bool, Float64, UInt32

from worldfork.lab.agents.base import Agent, Arrays, Decision
from worldfork.lab.environments.base import Environment
from worldfork.lab.environments.drift import noisy_action
from worldfork.lab.episodes.draws import Draws
from worldfork.lab.episodes.log import Log, Outcome, Rolled, Trace

__all__ = ["Record", "Rolled", "Trace", "roll_out"]

KEYS_AT_ONCE: Final = 4096  # of the planner: a small batch needs few at a step, and does not wait for them
Physics = Callable[[], Any]
# Told (which episodes, moment, their physics [P, E, S], what the step there earned [P, E]) as it happens; moment 0
# is the initial state. Nothing of it is kept here.
Record = Callable[[slice, int, np.ndarray, np.ndarray], None]


def roll_out(
    agent: Agent,
    environment: Environment,
    parameters: Arrays,
    draws: Draws,
    *,
    levels: Float64[np.ndarray, "P *each T"],
    action_noise: float,
    halves: int = 1,
    trace: bool = False,
    record: Record | None = None,
) -> Rolled:
    """Whole episodes of T control steps; `action_noise` is sigma_a.

    Parameter set p meets the drift `levels[p]`: the same in all its episodes, or one row for each.
    """
    sets, episodes = draws.seeds.shape
    each_level = np.broadcast_to(levels.reshape(sets, -1, levels.shape[-1]), (sets, episodes, levels.shape[-1]))
    cuts = [slice(part[0], part[-1] + 1) for part in np.array_split(np.arange(episodes), min(halves, episodes))]
    rolled = overlapped(
        [
            _episodes(
                agent,
                environment,
                parameters,
                draws[cut],
                levels=each_level[:, cut],
                action_noise=action_noise,
                trace=trace,
                record=functools.partial(record, cut) if record else None,
            )
            for cut in cuts
        ]
    )
    joined: Rolled = _joined(rolled)
    return joined


def overlapped(batches: Sequence[Generator[Physics, Any, Rolled]]) -> list[Rolled]:
    """Drive the batches in turn, physics on one thread: while it steps one batch, the agent plans for the next."""
    if len(batches) == 1:
        return [_alone(batches[0])]
    finished: list[Rolled | None] = [None] * len(batches)
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="physics") as pool:
        pending: list[tuple[int, Future[Any]]] = [(i, pool.submit(next(batch))) for i, batch in enumerate(batches)]
        while pending:
            index, physics = pending.pop(0)
            came = physics.result()  # a StopIteration of the world's own must not pass for the batch's end
            try:
                pending.append((index, pool.submit(batches[index].send(came))))
            except StopIteration as end:
                finished[index] = end.value
    return [rolled for rolled in finished if rolled is not None]


def _alone(batch: Generator[Physics, Any, Rolled]) -> Rolled:
    """Drive one batch here: there is nothing to overlap it with."""
    physics = next(batch)
    while True:
        came = physics()  # as above
        try:
            physics = batch.send(came)
        except StopIteration as end:
            rolled: Rolled = end.value
            return rolled


def _episodes(
    agent: Agent,
    environment: Environment,
    parameters: Arrays,
    draws: Draws,
    *,
    levels: Float64[np.ndarray, "P E T"],
    action_noise: float,
    trace: bool,
    record: Callable[[int, np.ndarray, np.ndarray], None] | None,
) -> Generator[Physics, Any, Rolled]:
    """The episodes themselves: reset, then plan, step and observe; every physics call is yielded, not made."""
    shape, size = draws.seeds.shape, environment.action_size
    by_world = levels.reshape(-1, levels.shape[-1])
    state = yield lambda: environment.reset(draws.seeds.reshape(-1), by_world[:, 0])
    observation = state.observation.reshape(*shape, -1)
    log = Log(state.physics.reshape(*shape, -1), trace=trace, record=record)
    parameters = ready(agent, parameters, shape)
    belief = agent.begin(parameters, observation)
    each_keys = _planning_keys(draws, levels.shape[-1])
    plan_keys, outcome = next(each_keys), None
    for step in range(levels.shape[-1]):
        decision = agent.act(parameters, belief, plan_keys)
        # An accelerator plans from here on, and waits for nothing that is done until the action is asked for.
        if outcome:
            log.add(outcome)
        normal = draws.noise(step, size) if action_noise else np.zeros((*shape, size))
        upcoming = next(each_keys, plan_keys)
        disturb = functools.partial(
            noisy_action, normal=normal, sigma_a=action_noise, bound=environment.action_bound
        )
        planned, finite, (state, seen, reward) = yield _step(
            environment, state, decision, disturb, by_world[:, step]
        )
        before, observation = observation, seen.reshape(*shape, -1)
        surprise = agent.observe(parameters, decision.belief, observation)
        belief = surprise.belief
        outcome = Outcome(plan_keys, normal, before, planned, finite, decision, state, reward, surprise)
        plan_keys = upcoming
    if outcome:
        log.add(outcome)
    return log.rolled(state, observation)


def _planning_keys(draws: Draws, steps: int) -> Iterator[UInt32[np.ndarray, "P E 2"]]:
    """The planner's keys, step by step."""
    ahead = max(1, KEYS_AT_ONCE // draws.seeds.size)
    for begin in range(0, steps, ahead):
        yield from draws.plannings(begin, min(begin + ahead, steps))


def ready(agent: Agent, parameters: Arrays, shape: tuple[int, ...]) -> Arrays:
    """The parameters as the agent would have them for a whole roll-out of this shape, if it cares."""
    frozen = getattr(agent, "frozen", None)
    return frozen(parameters, sets=shape[0], episodes=shape[1]) if frozen else parameters


def _step(
    environment: Environment, state: Any, decision: Decision, disturb: Callable[[Any], Any], level: Any
) -> Physics:
    def physics() -> Any:
        planned, finite = _finite(decision.action)  # waits, if it is still being computed
        executed = disturb(planned).reshape(-1, environment.action_size)
        return planned, finite, environment.step(state, executed, level)

    return physics


def _finite(action: Any) -> tuple[Float64[np.ndarray, "P E A"], Bool[np.ndarray, "P E"]]:
    """An agent should replace its non-finite actions itself; one that does not is not let through either."""
    planned = np.array(action, np.float64)
    finite = np.asarray(np.isfinite(planned).all(axis=2))
    if not finite.all():
        planned[~finite] = 0.0
    return planned, finite


def _joined(parts: Sequence[Any]) -> Any:
    """Records of the same parameter sets as one, along the episodes: arrays by their second axis."""
    first = parts[0]
    if first is None:
        return None
    if isinstance(first, np.ndarray):
        return np.concatenate(parts, axis=1)
    if isinstance(first, Mapping):
        return {name: _joined([part[name] for part in parts]) for name in first}
    names = [field.name for field in dataclasses.fields(first)]
    return type(first)(**{name: _joined([getattr(part, name) for part in parts]) for name in names})
