"""Rolling out episodes: P parameter sets by E episodes, one agent call and one physics call per control step.

An episode batch is a generator that hands out its physics calls and is sent their results. Whoever drives it
decides where they run: `overlapped` steps one half of the episodes on a thread while the agent plans for the other
half. The results do not depend on it. A physics call waits for the actions it needs, so that an accelerator has the
next half's plan to compute before it is done with this one's.
"""

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

import numpy as np
from jaxtyping import Bool, Float64, Int64, UInt32

from worldfork.lab.agents.base import Agent, Arrays, Decision
from worldfork.lab.environments.base import Environment
from worldfork.lab.environments.drift import noisy_action
from worldfork.lab.episodes.draws import Draws

__all__ = ["Record", "Rolled", "Trace", "roll_out"]

KEYS_AT_ONCE: Final = 4096  # of the planner: a small batch needs few at a step, and does not wait for them
Physics = Callable[[], Any]
# Told (which episodes, moment, their physics [P, E, S], what the step there earned [P, E]) as it happens; moment 0
# is the initial state. Nothing of it is kept here.
Record = Callable[[slice, int, np.ndarray, np.ndarray], None]


@dataclasses.dataclass(frozen=True)
class Trace:
    """What happened at every control step; kept only where it is asked for."""

    observation: Float64[np.ndarray, "P E T O"]  # that the action was planned on
    action: Float64[np.ndarray, "P E T A"]  # as planned: the model never sees the noise
    reward: Float64[np.ndarray, "P E T"]
    signals: Mapping[str, Float64[np.ndarray, "P E T"]]  # whatever the agent measures, by name
    final: Float64[np.ndarray, "P E O"]  # the observation after the last action


@dataclasses.dataclass(frozen=True)
class Received:
    """Every random array that reached the agent or the world, as it reached them."""

    start: Float64[np.ndarray, "P E S"]  # the initial states, which the seeds became
    plan_keys: UInt32[np.ndarray, "P E T 2"]
    noise: Float64[np.ndarray, "P E T A"]  # standard normals; zero where sigma_a is

    def digests(self) -> list[str]:
        """One SHA-256 per parameter set."""
        fields = [getattr(self, field.name) for field in dataclasses.fields(self)]
        return [
            hashlib.sha256(b"".join(np.ascontiguousarray(field[p]).tobytes() for field in fields)).hexdigest()
            for p in range(len(self.start))
        ]


@dataclasses.dataclass(frozen=True)
class Rolled:
    """The outcome of P by E episodes."""

    returns: Float64[np.ndarray, "P E"]
    replaced: Int64[np.ndarray, "P E"]  # planned actions that were not finite
    unstable: Bool[np.ndarray, "P E"]
    received: Received
    trace: Trace | None


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
            try:
                pending.append((index, pool.submit(batches[index].send(physics.result()))))
            except StopIteration as end:
                finished[index] = end.value
    return [rolled for rolled in finished if rolled is not None]


def _alone(batch: Generator[Physics, Any, Rolled]) -> Rolled:
    """Drive one batch here: there is nothing to overlap it with."""
    physics = next(batch)
    while True:
        try:
            physics = batch.send(physics())
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
    shape = draws.seeds.shape
    by_world = levels.reshape(-1, levels.shape[-1])
    state = yield lambda: environment.reset(draws.seeds.reshape(-1), by_world[:, 0])
    start = state.physics.reshape(*shape, -1)
    observation = state.observation.reshape(*shape, -1)
    parameters = ready(agent, parameters, shape)
    belief = agent.begin(parameters, observation)
    returns, replaced = np.zeros(shape), np.zeros(shape, np.int64)
    steps: list[dict[str, Any]] = []
    measured: list[Mapping[str, Any]] = []
    ahead = max(1, KEYS_AT_ONCE // draws.seeds.size)
    if record:
        record(0, start, returns)
    for step in range(levels.shape[-1]):
        if step % ahead == 0:
            keys = draws.plannings(step, min(step + ahead, levels.shape[-1]))
        plan_keys = keys[step % ahead]
        decision = agent.act(parameters, belief, plan_keys)
        size = environment.action_size
        normal = draws.noise(step, size) if action_noise else np.zeros((*shape, size))
        disturb = functools.partial(
            noisy_action, normal=normal, sigma_a=action_noise, bound=environment.action_bound
        )
        planned, missing, (state, seen, reward) = yield _step(
            environment, state, decision, disturb, by_world[:, step]
        )
        before, observation, reward = observation, seen.reshape(*shape, -1), reward.reshape(shape)
        if record:
            record(step + 1, state.physics.reshape(*shape, -1), reward)
        surprise = agent.observe(parameters, decision.belief, observation)
        belief = surprise.belief
        with np.errstate(invalid="ignore"):
            returns += reward
        replaced += missing
        known = {"plan_keys": plan_keys, "noise": normal}
        if trace:
            known.update(observation=before, action=planned, reward=reward)
            measured.append(surprise.signals)
        steps.append(known)
    along = {name: np.stack([known[name] for known in steps], axis=2) for name in steps[0]}
    received = Received(start, along.pop("plan_keys"), along.pop("noise"))
    along = {name: values.astype(np.float64) for name, values in along.items()}
    signals = {
        name: np.stack([values[name] for values in measured], axis=2).astype(np.float64)
        for name in (measured[0] if measured else ())
    }
    traced = Trace(**along, signals=signals, final=observation) if trace else None
    return Rolled(returns, replaced, state.unstable.reshape(shape), received, traced)


def ready(agent: Agent, parameters: Arrays, shape: tuple[int, ...]) -> Arrays:
    """The parameters as the agent would have them for a whole roll-out of this shape, if it cares."""
    frozen = getattr(agent, "frozen", None)
    return frozen(parameters, sets=shape[0], episodes=shape[1]) if frozen else parameters


def _step(
    environment: Environment, state: Any, decision: Decision, disturb: Callable[[Any], Any], level: Any
) -> Physics:
    def physics() -> Any:
        planned, missing = _finite(decision.action, decision.replaced)  # waits, if they are still being computed
        executed = disturb(planned).reshape(-1, environment.action_size)
        return planned, missing, environment.step(state, executed, level)

    return physics


def _finite(action: Any, replaced: Any) -> tuple[Float64[np.ndarray, "P E A"], Bool[np.ndarray, "P E"]]:
    """An agent should replace its non-finite actions itself; one that does not is not let through either."""
    given = np.asarray(action, np.float64)
    finite = np.asarray(np.isfinite(given).all(axis=2))
    return np.where(finite[..., None], given, 0.0), np.asarray(replaced) | ~finite


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
