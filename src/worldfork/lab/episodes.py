"""Batches of episodes: agent by environment by draws. Streams and evaluations both pass through `roll_out`.

The draws are event-keyed: they depend on which episode it is, never on which branch.

Axes: P parameter sets, E episodes each, T control steps, A actions.
"""

import dataclasses
import functools
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64, UInt32

from worldfork.errors import WorldforkError
from worldfork.lab.agents.base import Agent, Arrays, Decision, taken_by
from worldfork.lab.environments.base import TERMINATED, AfterEnd, Environment, State, can_end, concatenate
from worldfork.lab.environments.drift import noisy_action
from worldfork.lab.episode_log import Log, Outcome, Rolled
from worldfork.randomness import Event, Purpose, consume, fold_in, normals, root


@dataclasses.dataclass(frozen=True)
class Draws:
    """A seed and two keys per episode; what a step needs is folded out of the keys when it comes.

    Three streams, as the paper pins them: initial states, action noise, planner and model sampling.
    """

    seeds: Int64[np.ndarray, "P E"]  # of the initial states
    start_keys: UInt32[np.ndarray, "P E 2"]  # that they come from
    noise_keys: UInt32[np.ndarray, "P E 2"]
    plan_keys: UInt32[np.ndarray, "P E 2"]

    @classmethod
    def of(cls, events: Sequence[Event], episodes: Int64[np.ndarray, " E"]) -> "Draws":
        """Return the draws of these episodes of each event (its purpose is replaced, its fork kept)."""
        # Policies share their episodes: each is drawn once.
        places = {event: place for place, event in enumerate(dict.fromkeys(events))}
        place, forks = [places[event] for event in events], np.array([event.fork for event in places])

        def keys(purpose: Purpose) -> UInt32[np.ndarray, "P E 2"]:
            roots = np.stack([root(dataclasses.replace(event, purpose=purpose)) for event in places])
            return fold_in(fold_in(roots, forks)[:, None], episodes)[place]

        by_purpose = {
            purpose: keys(purpose) for purpose in (Purpose.INITIAL_STATE, Purpose.ACTION_NOISE, Purpose.PLANNING)
        }
        starts = by_purpose[Purpose.INITIAL_STATE]
        seeds = _seeds(starts, np.zeros(starts.shape[:-1], np.int64))
        return cls(seeds, starts, by_purpose[Purpose.ACTION_NOISE], by_purpose[Purpose.PLANNING])

    def attempts(self, number: Int64[np.ndarray, "P E"]) -> Int64[np.ndarray, "P E"]:
        """Return the seeds of the initial states of these attempts of each episode, counted from 0: that of attempt
        j is a matter of the episode and j, however long the attempts before it lasted."""
        return _seeds(self.start_keys, number)

    def planning_keys(self, begin: int, end: int) -> UInt32[np.ndarray, "steps P E 2"]:
        """Return the planner's keys at several control steps."""
        return fold_in(self.plan_keys[None], np.arange(begin, end)[:, None, None])

    def noise(self, step: int, size: int) -> Float64[np.ndarray, "P E {size}"]:
        """Return the standard normals that sigma_a scales at a control step."""
        return normals(fold_in(self.noise_keys, step, 0), size, Purpose.ACTION_NOISE)

    def __getitem__(self, index: slice) -> "Draws":
        """Return the draws of some of the episodes."""
        names = (field.name for field in dataclasses.fields(self))
        return Draws(**{name: getattr(self, name)[:, index] for name in names})


def _seeds(keys: UInt32[np.ndarray, "P E 2"], attempt: Int64[np.ndarray, "P E"]) -> Int64[np.ndarray, "P E"]:
    """Return the same integers as `randomness.seed` gives event by event: step 0, and the attempt as the
    iteration."""
    drawn = fold_in(fold_in(keys, 0), attempt)
    consume(drawn, Purpose.INITIAL_STATE)
    return np.asarray(drawn[..., 0].astype(np.int64))


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
    after_end: AfterEnd = "reset",
) -> Rolled:
    """Roll out whole episodes of T control steps, of P parameter sets by E episodes.

    Args:
        agent: the agent.
        environment: the world.
        parameters: P parameter sets.
        draws: everything random, for each set and episode.
        levels: the drift that each set meets: the same in all its episodes, or one row for each.
        action_noise: sigma_a, the standard deviation of the noise on actions.
        halves: parts of the episodes that take turns: physics steps one while the agent plans for the other.
        trace: keep what happened at every control step.
        record: called with (episodes, moment, physics, reward) as it happens.
        after_end: what an episode does once it has ended, in a world where it can: begin anew, attempt after
            attempt within its T steps, or stay where it is.
    """
    if objection := objection_to_ends(agent, environment, after_end=after_end):
        raise WorldforkError(objection)
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
                again=after_end == "reset",
            )
            for cut in cuts
        ]
    )
    joined: Rolled = _joined(rolled)
    return joined


def overlapped(batches: Sequence[Generator[Physics, Any, Rolled]]) -> list[Rolled]:
    """Drive the batches in turn, physics on one thread: while it steps one batch, the agent plans for the next."""
    finished: dict[int, Rolled] = {}
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="physics") as pool:

        def begun(physics: Physics) -> Physics:
            """Return a function that waits for it; a batch alone has nothing to be overlapped with."""
            return pool.submit(physics).result if len(batches) > 1 else physics

        pending = deque((index, begun(next(batch))) for index, batch in enumerate(batches))
        while pending:
            index, physics = pending.popleft()
            came = physics()  # a StopIteration of the world's own must not pass for the batch's end
            try:
                pending.append((index, begun(batches[index].send(came))))
            except StopIteration as end:
                finished[index] = end.value
    return [finished[index] for index in range(len(batches))]


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
    again: bool,
) -> Generator[Physics, Any, Rolled]:
    """Return the episodes themselves: reset, then plan, step and observe; every physics call is yielded, not
    made."""
    shape, size = draws.seeds.shape, environment.action_size
    by_world = levels.reshape(-1, levels.shape[-1])
    state = yield lambda: environment.reset(draws.seeds.reshape(-1), by_world[:, 0])
    observation = state.observation.reshape(*shape, -1)
    log = Log(state.physics.reshape(*shape, -1), trace=trace, record=record)
    starts = _Starts(environment, draws)
    past, first = np.zeros(shape, np.bool_), np.ones(shape, np.bool_)
    wanted = taken_by(agent.observe, "reward", "terminated", "measure")
    belief = agent.begin(parameters, observation)
    outcome = None
    for step, plan_keys in enumerate(draws.planning_keys(0, levels.shape[-1])):
        decision = agent.act(parameters, belief, plan_keys)
        # An accelerator plans from here on, and waits for nothing that is done until the action is asked for.
        if outcome:
            log.add(outcome)
        normal = draws.noise(step, size) if action_noise else np.zeros((*shape, size))
        disturb = functools.partial(
            noisy_action, normal=normal, sigma_a=action_noise, bound=environment.action_bound
        )
        going_on = again and step + 1 < levels.shape[-1]
        planned, finite, (reached, seen, reward), (begun, state) = yield _step(
            environment,
            state,
            decision,
            disturb,
            by_world[:, step],
            starts=functools.partial(starts, level=by_world[:, step + 1]) if going_on else None,
        )
        before, observation = observation, seen.reshape(*shape, -1)
        ended = _terminated(reached).reshape(shape)
        outcome_of = {"reward": reward.reshape(shape), "terminated": ended, "measure": trace}
        outcomes = {name: outcome_of[name] for name in wanted}
        surprise = agent.observe(parameters, decision.belief, observation, **outcomes)
        belief = surprise.belief
        outcome = Outcome(
            plan_keys, normal, before, planned, finite, decision, reached, reward, surprise, past, first
        )
        first = begun.reshape(shape)
        past = state.over.reshape(shape)
        if first.any():
            observation = state.observation.reshape(*shape, -1)
            belief = agent.begin_again(parameters, belief, observation, first)  # type: ignore[attr-defined]
    if outcome:
        log.add(outcome)
    return log.rolled(observation)


class _Starts:
    """Begins the next attempt of episodes that have ended."""

    def __init__(self, environment: Environment, draws: Draws) -> None:
        self._environment, self._draws = environment, draws
        self._attempt = np.zeros(draws.seeds.shape, np.int64)

    def __call__(self, state: State, *, level: Float64[np.ndarray, " B"]) -> tuple[Bool[np.ndarray, " B"], State]:
        """Return which worlds began anew, and all of them as they are then."""
        over = state.over
        if not over.any():
            return over, state
        self._attempt += over.reshape(self._attempt.shape)
        seeds = self._draws.attempts(self._attempt).reshape(-1)
        fresh = self._environment.reset(seeds[over], level[over])
        both = concatenate([state, fresh])
        place = np.arange(len(state))
        place[over] = len(state) + np.arange(len(fresh))
        return over, both[place]


def _terminated(state: State) -> Bool[np.ndarray, " B"]:
    return np.zeros(len(state), np.bool_) if state.ended is None else np.asarray(state.ended == TERMINATED)


def objection_to_ends(agent: Agent, environment: Environment, *, after_end: AfterEnd) -> str:
    """Return why this agent can not be rolled out where episodes end early, in a sentence; "" if it can."""
    if after_end == "wait" or not can_end(environment) or getattr(agent, "begin_again", None) is not None:
        return ""
    return (
        f"an episode of {environment.name} may end before its last step and then begins anew, and this agent "
        "has no `begin_again(parameters, belief, observation, where)`, which begins its belief anew in those "
        "episodes alone: offer it (an agent that keeps its state inside and takes all episodes at once offers "
        '`reset(observation, where)`), or register after_end = "wait" in the task\'s table (docs/gymnasium.md).'
    )


def _step(
    environment: Environment,
    state: State,
    decision: Decision,
    disturb: Callable[[Any], Any],
    level: Any,
    *,
    starts: Callable[[State], tuple[Bool[np.ndarray, " B"], State]] | None,
) -> Physics:
    def physics() -> Any:
        planned, finite = _finite(decision.action)  # waits, if it is still being computed
        executed = disturb(planned).reshape(-1, environment.action_size)
        stepped = environment.step(state, executed, level)
        begun = starts(stepped[0]) if starts else (np.zeros(len(stepped[0]), np.bool_), stepped[0])
        return planned, finite, stepped, begun

    return physics


def _finite(action: Any) -> tuple[Float64[np.ndarray, "P E A"], Bool[np.ndarray, "P E"]]:
    """Return the actions with zeros for those that are not finite, and which were finite.

    An agent should replace them itself; one that does not is not let through either.
    """
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


def fixed_level_returns(
    agent: Agent,
    environment: Environment,
    parameters: Arrays,
    *,
    checkpoints: list[str],
    episodes: int,
    occasion: str,
    level: float = 0.0,
    record: Record | None = None,
    after_end: AfterEnd = "reset",
) -> Float64[np.ndarray, "P E"]:
    """Return the returns of whole episodes at a fixed drift level, without noise.

    Args:
        agent: the agent.
        environment: the world.
        parameters: P parameter sets.
        checkpoints: a name for each set, which keeps its episodes apart from others'.
        episodes: E, of each set.
        occasion: gate, report, ...: it takes the place of a drift direction in the event, so that no two occasions
            share episodes, and none of them shares any with a stream or a fork.
        level: the drift level.
        record: as in `roll_out`.
        after_end: as in `roll_out`.
    """
    # `Draws` puts each of its purposes in place of the one that is named here.
    events = [
        Event(purpose=Purpose.INITIAL_STATE, task=environment.name, checkpoint=name, direction=occasion)
        for name in checkpoints
    ]
    levels = np.full((len(checkpoints), environment.episode_steps), level)
    draws = Draws.of(events, np.arange(episodes))
    rolled = roll_out(
        agent, environment, parameters, draws, levels=levels, action_noise=0.0, record=record, after_end=after_end
    )
    return rolled.returns
