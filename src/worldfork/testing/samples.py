"""Samples that agents and mechanisms are examined on: checkpoints, episodes, windows, keys.

Axes: P parameter sets, E episodes, T control steps or transitions.
"""

import contextlib
import dataclasses
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from worldfork.counting import plural
from worldfork.errors import WorldforkError
from worldfork.lab.agents import arrays
from worldfork.lab.agents.base import Agent, AgentPlugin, Arrays, Checkpoint, Window, taken_by
from worldfork.lab.agents.stateful import StatefulPlugin, Transitions, copied, seeded, transitions_of
from worldfork.lab.agents.stateful_checkpoints import parted
from worldfork.lab.environments.base import Environment
from worldfork.randomness import Event, Purpose, fold_in, words

SETS, EPISODES, STEPS = 3, 2, 4


@dataclasses.dataclass(frozen=True)
class Step:
    """Action and measurements of an agent at one control step."""

    action: np.ndarray  # [P, E, A]
    replaced: np.ndarray  # [P, E]
    signals: Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Stage:
    """Parameter sets, the episodes that each of them plays, and the keys they plan with."""

    parameters: Arrays
    seeds: np.ndarray  # [P, E]
    plan_keys: np.ndarray  # [P, E, 2]; steps are folded in

    def take(self, sets: Sequence[int], episodes: Sequence[int] | slice = slice(None)) -> "Stage":
        """Return some of the sets and of their episodes."""
        chosen = np.array(sets)
        return Stage(
            arrays.take(self.parameters, chosen),
            self.seeds[chosen][:, episodes],
            self.plan_keys[chosen][:, episodes],
        )


def half_steps(agent: Agent, environment: Environment, stage: Stage) -> Iterator[Step | None]:
    """Play the stage's episodes, one control step at a time, as a study does.

    Between `act` and `observe` there is a pause (None), in which something else may happen.
    """
    shape = stage.seeds.shape
    state = environment.reset(stage.seeds.reshape(-1))
    belief = agent.begin(stage.parameters, state.observation.reshape(*shape, -1))
    for step in range(STEPS):
        decision = agent.act(stage.parameters, belief, fold_in(stage.plan_keys, step))
        action, replaced = np.array(decision.action), np.array(decision.replaced)
        bound = environment.action_bound
        executed = np.clip(np.nan_to_num(action.astype(np.float64)), -bound, bound).reshape(-1, action.shape[-1])
        state, observation, reward = environment.step(state, executed)
        yield None
        terminated = np.zeros(shape, np.bool_) if state.ended is None else (state.ended == 1).reshape(shape)
        outcome = {"reward": reward.reshape(shape), "terminated": terminated}
        taken = {name: outcome[name] for name in taken_by(agent.observe, *outcome)}
        surprise = agent.observe(stage.parameters, decision.belief, observation.reshape(*shape, -1), **taken)
        belief = surprise.belief
        yield Step(action, replaced, {name: np.array(values) for name, values in surprise.signals.items()})


def checkpoints_of(
    plugin: AgentPlugin, agent: Agent, environment: Environment, files: Sequence[Path | str]
) -> list[Checkpoint]:
    """Return `SETS` checkpoints: from files, over and over where there are fewer, or from as many seeds."""
    if not files and isinstance(plugin, StatefulPlugin) and type(plugin).generate is AgentPlugin.generate:
        return [_untrained(plugin, environment, index) for index in range(SETS)]
    if not files:
        events = [Event(purpose=Purpose.PRETRAINING, checkpoint=str(index)) for index in range(SETS)]
        return [plugin.generate(agent, environment, event) for event in events]
    paths = [Path(path) for path in files]
    for path in paths:
        missing = [name for suffix in plugin.suffixes if not (name := path.with_suffix(suffix)).exists()]
        if missing:
            raise WorldforkError(f"There is no `{missing[0]}`: a checkpoint is {', '.join(plugin.suffixes)}.")
    loaded = [plugin.load(agent, environment, path) for path in paths]
    for path, checkpoint in zip(paths, loaded, strict=True):
        first = path.with_suffix(plugin.suffixes[0])
        if checkpoint.digest != hashlib.sha256(first.read_bytes()).hexdigest():
            raise WorldforkError(f"`digest` is not the SHA-256 of `{first.name}`, which `verify` compares it with.")
    return [loaded[index % len(loaded)] for index in range(SETS)]


def _untrained(plugin: StatefulPlugin, environment: Environment, index: int) -> Checkpoint:
    """Return a stateful agent as it is made, after a step of its own training on random transitions."""
    key = np.array([index, 1], np.uint32)
    with seeded(key):
        agent = plugin.make(environment)
    teach(agent, transitions_of(random_window(environment, rows=64, sizes=(64,)), 0), key, steps=1)
    parameters, optimiser = parted(copied(agent.get_state()))
    return Checkpoint(parameters, optimiser, 0.0, arrays.digest({**parameters, **optimiser}))


@contextlib.contextmanager
def seeded_agent(agent: Any, key: np.ndarray) -> Iterator[None]:
    """Seed shared generators, and the agent if it has some of its own, for the time of one call."""
    with seeded(key) as number:
        if hasattr(agent, "seed"):
            agent.seed(number)
        yield


def teach(agent: Any, window: Transitions, key: np.ndarray, *, steps: int, **replayed: Any) -> None:
    """Have a stateful agent learn in its first scope."""
    scope = {"scope": agent.scopes[0]} if hasattr(agent, "scopes") else {}
    with seeded_agent(agent, key):
        agent.learn(window, steps=steps, rate=1.0, **scope, **replayed)


def sizes_of(environment: Environment) -> str:
    """Return the sizes of a world, and what to do where an agent has others, as part of a sentence."""
    observations = plural(environment.observation_size, "observation")
    actions = plural(environment.action_size, "action")
    return f"the world `{environment.name}` has {observations} and {actions}. Give the agent's own world with --in"


def keys(purpose: Purpose, *shape: int) -> np.ndarray:
    """Return keys of that shape, all different."""
    count = int(np.prod(shape))
    return fold_in(words(Event(purpose=purpose, task="testing")), np.arange(count)).reshape(*shape, 2)


def random_window(environment: Environment, *, rows: int, sizes: Sequence[int]) -> Window:
    """Return transitions of a stream for each size, under random actions; rows beyond a size are zero."""
    steps = min(rows, environment.episode_steps)
    count = -(-rows // steps)
    streams, reach = len(sizes), min(1.0, environment.action_bound)
    plan = np.random.default_rng(0).uniform(-reach, reach, (steps, streams * count, environment.action_size))
    state = environment.reset(np.arange(streams * count))
    columns: dict[str, list[np.ndarray]] = {name: [] for name in ("observation", "reward", "next_observation")}
    for action in plan:
        columns["observation"].append(state.observation)
        state, observation, reward = environment.step(state, action)
        columns["reward"].append(reward)
        columns["next_observation"].append(observation)
    along = {name: np.stack(values, axis=1) for name, values in columns.items()} | {"action": plan.swapaxes(0, 1)}
    size = np.array(sizes)
    real = np.arange(rows) < size[:, None]

    def stream(values: np.ndarray) -> np.ndarray:
        """[streams * count, steps, ...] -> [streams, rows, ...], zero beyond each size."""
        joined = values.reshape(streams, count * steps, *values.shape[2:])[:, :rows]
        return np.where(real.reshape(*real.shape, *[1] * (joined.ndim - 2)), joined, 0.0)

    first = np.broadcast_to(np.arange(rows) % steps == 0, real.shape) & real
    return Window(**{name: stream(values) for name, values in along.items()}, first=first, size=size)


def ending(window: Window) -> Window:
    """Return the window as of episodes that fall every few steps and begin anew."""
    every = 7
    place = np.arange(window.reward.shape[1])
    fell = np.broadcast_to(place % every == every - 1, window.reward.shape)
    return dataclasses.replace(
        window,
        next_observation=window.next_observation + fell[..., None],
        first=window.first | (place % every == 0),
        terminated=fell.copy(),
    )


def watched(agent: Agent, handed: list[Window]) -> Any:
    """Return the agent as one that also notes in `handed` every window that it is given."""
    kind = type(agent)

    def noting(real: Any) -> Any:
        def call(self: Any, *arguments: Any, **named: Any) -> Any:
            handed.extend(given for given in (*arguments, *named.values()) if isinstance(given, Window))
            return real(self, *arguments, **named)

        return call

    methods = {name: noting(getattr(kind, name)) for name in ("fit", "loss", "train") if hasattr(kind, name)}
    twin: Any = object.__new__(type(kind.__name__, (kind,), methods))
    twin.__dict__.update(vars(agent))
    return twin


def take_window(window: Window, sets: Sequence[int]) -> Window:
    """Return the windows of some parameter sets."""
    chosen = np.array(sets)
    rows = {name: values[chosen] for name, values in window.columns.items()}
    return Window(**rows, size=window.size[chosen])


def spoil(window: Window, rows: np.ndarray) -> Window:
    """Return the window with something quite different in these rows [P, T]."""
    columns = {
        name: np.where(rows.reshape(*rows.shape, *[1] * (values.ndim - 2)), 1e6, values)
        for name, values in window.columns.items()
        if name not in ("first", "terminated")
    }
    return dataclasses.replace(window, **columns)


def spoil_set(parameters: Arrays, chosen: int) -> dict[str, Any]:
    """Return the parameters with those of one set not finite."""
    spoilt = {}
    for name, array in parameters.items():
        values = np.array(array)
        if values.dtype.kind == "f":
            values[chosen] = np.nan
        spoilt[name] = values
    return spoilt


def pick_steps(step: Step, sets: Sequence[int], rows: Sequence[int] | slice = slice(None)) -> Step:
    """Return what some of the sets did, in some of their episodes."""
    chosen = np.array(sets)
    signals = {name: values[chosen][:, rows] for name, values in step.signals.items()}
    return Step(step.action[chosen][:, rows], step.replaced[chosen][:, rows], signals)
