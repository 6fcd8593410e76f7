"""The contract of a world: pure calls, state that is data, physics that moves with the drift level alone.

Axes: B worlds, T control steps, A actions.
"""

import copy
import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from worldfork import registry
from worldfork.lab.environments.base import (
    TERMINATED,
    TRUNCATED,
    Environment,
    EnvironmentPlugin,
    State,
    can_end,
    concatenate,
)
from worldfork.lab.environments.clean import prove_clean
from worldfork.lab.environments.restorable import RestorablePlugin
from worldfork.testing.environments_pairs import PAIR, examine_pair
from worldfork.testing.report import Report, Rule, demand, difference, examine, no_global_draws

__all__ = ["check_environment", "environment_plugin"]

WORLDS = 5
STEPS = 6  # of a short play
LONG = 100  # of one in which drift must show
STILL = 3  # steps in which nothing happens, after which a world is over
IN_STATE = "Put everything that the future depends on into State.physics, and nothing into the object."
DRAWS = (
    "Derive every draw from the episode's seed and a step count kept in State.physics "
    "(worldfork.randomness.fold_in and normals)."
)
ROW_BY_ROW = (
    "Compute each world from its own row alone; a batched matrix product or a sum over the batch rounds "
    "differently in another batch, so write it as explicit sums or loop over the worlds."
)

Plan = np.ndarray  # [T, B, A]


def check_environment(
    environment: str | type[EnvironmentPlugin] | EnvironmentPlugin | Environment,
    *,
    settings: Mapping[str, Any] | None = None,
    scale: float = 0.5,
) -> Report:
    """Examine a world: a name of the registry, a plug-in class or record, or a world that is already built.

    Drift at other scales and other numbers of threads can be examined for a plug-in alone, since it builds them.
    Raises `ContractError` with everything that is wrong.
    """
    plugin = environment_plugin(environment, settings)
    bench = _bench(plugin, environment, scale=scale)
    rules = [
        *(
            [Rule(PAIR, lambda: examine_pair(plugin), foundation=True)]
            if isinstance(plugin, RestorablePlugin)
            else []
        ),
        Rule("A world says what it is", bench.says_what_it_is, foundation=True),
        Rule("Calls leave what they are given", bench.leaves_its_arguments, foundation=True),
        Rule("Calls draw no randomness of their own", bench.draws_nothing, foundation=True),
        Rule("A restored state goes on as it would have", bench.restores, foundation=True),
        Rule("Nothing is kept between calls", bench.keeps_nothing, foundation=True),
        Rule("A world does not depend on its neighbours in the batch", bench.ignores_neighbours, foundation=True),
        Rule("Arrays that are handed out are let go", bench.lets_arrays_go, foundation=True),
        Rule("Batches of one and of none are batches", bench.takes_every_batch),
        Rule("Physics moves with the level, and with nothing else", bench.stays_when_pinned),
        Rule("Clean physics reads back", bench.reads_back),
        Rule("A world says where an episode ends, and stays there", bench.says_where_it_ends),
    ]
    not_examined = []
    if plugin is None:
        not_examined = ["Level 0 is the nominal world whatever the scale", "Threads change nothing"]
    else:
        rules.append(Rule("Level 0 is the nominal world whatever the scale", bench.is_nominal_at_zero))
        rules.append(Rule("Threads change nothing", bench.ignores_threads))
    return examine(bench.subject, rules, not_examined=not_examined)


def environment_plugin(
    environment: str | type[EnvironmentPlugin] | EnvironmentPlugin | Environment,
    settings: Mapping[str, Any] | None = None,
) -> EnvironmentPlugin | None:
    """The plug-in that is meant; None for a world that is already built."""
    if isinstance(environment, str):
        return registry.build("environments", environment, EnvironmentPlugin, settings=settings)
    if isinstance(environment, type):
        return environment.model_validate(dict(settings or {}))
    return environment if isinstance(environment, EnvironmentPlugin) else None


def _bench(plugin: EnvironmentPlugin | None, environment: Any, *, scale: float) -> "_Bench":
    subject = f"The environment `{environment if isinstance(environment, str) else _name(environment)}`"
    if plugin is not None:
        return _Bench(subject, plugin, scale, lambda: plugin.build(scale=scale, threads=1))
    try:
        pristine = copy.deepcopy(environment)
        return _Bench(subject, None, scale, lambda: copy.deepcopy(pristine))
    except Exception:  # a handle to a simulator, say: then the one that is there has to do
        return _Bench(subject, None, scale, lambda: environment)


def _name(environment: Any) -> str:
    return environment.__name__ if isinstance(environment, type) else type(environment).__name__


@dataclasses.dataclass(frozen=True)
class _Bench:
    """What the examinations share. `fresh` gives a world that nothing has been done with yet."""

    subject: str
    plugin: EnvironmentPlugin | None
    scale: float
    fresh: Callable[[], Environment]

    def says_what_it_is(self) -> None:
        world = self.fresh()
        missing = [name for name in _members(Environment) if not hasattr(world, name)]
        demand(
            not missing, f"it has no `{', '.join(missing)}`.", "Add what worldfork.lab.environments.base asks for."
        )
        for name in ("observation_size", "action_size", "episode_steps", "action_repeat"):
            value = getattr(world, name)
            demand(value >= 1, f"`{name}` is {value!r}.", "It counts something: a whole number from 1 on.")
        for name in ("name", "simulator", "parameter"):
            value = getattr(world, name)
            demand(isinstance(value, str) and bool(value), f"`{name}` is {value!r}.", "Say it in words.")
        demand(world.action_bound > 0, f"`action_bound` is {world.action_bound!r}.", "It is above 0, or infinity.")
        start = world.reset(np.arange(WORLDS))
        demand(isinstance(start, State), f"`reset` returned {type(start).__name__}.", "It returns a State.")
        after, observation, reward = world.step(start, self.actions(1, WORLDS)[0])
        for what, state in (("reset", start), ("step", after)):
            self.has_the_right_shapes(what, state, world)
        _array("the observation of `step`", observation, (WORLDS, world.observation_size), np.float64)
        _array("the reward of `step`", reward, (WORLDS,), np.float64)
        text = difference(after.observation, observation)
        demand(
            not text, f"`step` returns one observation and keeps another ({text}).", "They are the same numbers."
        )
        demand(
            not after.unstable.any(),
            f"{after.unstable.sum()} of {WORLDS} worlds are unstable after one random step.",
            "`unstable` means that the simulator broke down; an episode's end is not that.",
        )

    def has_the_right_shapes(self, what: str, state: State, world: Environment) -> None:
        _array(f"`physics` of `{what}`", state.physics, (WORLDS, *state.physics.shape[1:]), np.float64)
        demand(state.physics.ndim == 2, f"`physics` has shape {state.physics.shape}.", "It is [B, S].")
        _array(f"`observation` of `{what}`", state.observation, (WORLDS, world.observation_size), np.float64)
        _array(f"`unstable` of `{what}`", state.unstable, (WORLDS,), np.bool_)

    def leaves_its_arguments(self) -> None:
        world = self.fresh()
        seeds, action, level = np.arange(3), self.actions(1, 3)[0], np.zeros(3)
        start = world.reset(seeds, level)
        before = start[:]
        for array in (start.physics, start.observation, start.unstable, seeds, action, level):
            array.flags.writeable = False
        try:
            world.reset(seeds, level)
            world.step(start, action, level)
        except ValueError as error:
            demand("read-only" not in str(error), "it writes into what it is given.", "Copy before you write.")
            raise
        text = _states(before, start)
        demand(not text, f"`step` changed the state it was given ({text}).", "Copy before you write.")

    def draws_nothing(self) -> None:
        world, other = self.fresh(), self.fresh()
        plan, seeds = self.actions(STEPS, WORLDS), np.arange(WORLDS)
        with no_global_draws("`reset`", DRAWS):
            start = world.reset(seeds)
        text = _states(start, other.reset(seeds))
        demand(not text, f"two new worlds were reset with the same seeds and differ ({text}).", DRAWS)
        with no_global_draws("`step`", DRAWS):
            end, _ = self.play(world, start, plan)
        text = _states(end, self.play(other, start, plan)[0])
        demand(not text, f"two new worlds took the same steps from the same state and differ ({text}).", DRAWS)

    def restores(self) -> None:
        """Copied, stepped, restored: the same digits, in this object and in a new one."""
        world = self.fresh()
        plan = self.actions(2 * STEPS, WORLDS)
        begun, _ = self.play(world, world.reset(np.arange(WORLDS)), plan[:STEPS])
        ended = self.play(world, begun[:], plan[STEPS:])
        for where, chosen in (("in the same object", world), ("in a new one", self.fresh())):
            again = self.play(chosen, begun[:], plan[STEPS:])
            text = _states(ended[0], again[0]) or difference(ended[1], again[1])
            demand(not text, f"a state was copied, stepped, restored and stepped again {where}: {text}.", IN_STATE)

    def keeps_nothing(self) -> None:
        """Two histories on one object, turn by turn: each goes on as it does alone."""
        world = self.fresh()
        plan = self.actions(STEPS, WORLDS)
        start = world.reset(np.arange(WORLDS))
        alone = [start]
        for action in plan:
            alone.append(world.step(alone[-1], action)[0])
        state = start[:]
        for step, action in enumerate(plan):
            stranger = world.reset(np.arange(3) + 50, 1.0)
            world.step(stranger, self.actions(1, 3, seed=step)[0], 1.0)
            state, _, _ = world.step(state, action)
            text = _states(alone[step + 1], state)
            demand(not text, f"stepping other worlds in between changed what came out ({text}).", IN_STATE)
        text = _states(start, world.reset(np.arange(WORLDS)))
        demand(not text, f"`reset` with the same seeds gave another state later ({text}).", IN_STATE)

    def ignores_neighbours(self) -> None:
        world = self.fresh()
        seeds, level = np.array([7, 3, 11, 3, 5]), np.linspace(0, 1, WORLDS)
        plan = self.actions(STEPS, WORLDS)
        start = world.reset(seeds, level)
        ended, rewards = self.play(world, start, plan, level)
        for seed in range(3):
            order = np.random.default_rng(seed).permutation(WORLDS)
            for part in (order, order[: seed + 1], order[seed + 1 :]):
                text = _states(start[part], world.reset(seeds[part], level[part]))
                demand(
                    not text, f"`reset` of worlds {part} alone is not what it is among others ({text}).", ROW_BY_ROW
                )
                other, other_rewards = self.play(world, start[part], plan[:, part], level[part])
                text = _states(ended[part], other) or difference(rewards[:, part], other_rewards)
                demand(not text, f"worlds {part} alone are not what they are among others ({text}).", ROW_BY_ROW)
        both = concatenate([start[:2], start[2:]])
        text = _states(ended, self.play(world, both, plan, level)[0])
        demand(not text, f"worlds joined into one batch are not what they were ({text}).", ROW_BY_ROW)

    def lets_arrays_go(self) -> None:
        world = self.fresh()
        seeds, action = np.arange(3), self.actions(1, 3)[0]
        start = world.reset(seeds)
        after, observation, reward = world.step(start, action)
        results = {"observation": observation, "reward": reward, "physics": after.physics}
        before = {name: array.copy() for name, array in results.items()}
        world.step(world.reset(seeds + 9), -action, 1.0)
        text = difference(before, results)
        demand(not text, f"a later call wrote into arrays handed out before ({text}).", "Hand out new arrays.")
        observation[:] = 0.0
        text = difference(before["observation"], after.observation)
        demand(not text, f"the observation and the state's own are one array ({text}).", "Hand out a copy.")
        kept, spoilt = start[:], world.reset(seeds)
        for array in (spoilt.physics, spoilt.observation, after.physics, after.observation, reward):
            array[:] = 0.0
        again, _, again_reward = world.step(kept, action)
        text = _states(start, world.reset(seeds)) or difference(before["physics"], again.physics)
        text = text or difference(before["reward"], again_reward)
        demand(not text, f"writing into returned arrays changed the world ({text}).", "Hand out copies.")

    def takes_every_batch(self) -> None:
        world = self.fresh()
        for size in (0, 1):
            state = world.reset(np.arange(size))
            after, observation, reward = world.step(state, self.actions(1, size)[0])
            lengths = [len(state), len(after), len(observation), len(reward)]
            demand(
                lengths == [size] * 4, f"a batch of {size} came back as {lengths}.", "Return arrays of that length."
            )

    def stays_when_pinned(self) -> None:
        """Drift acts through `level` at the moment of the step, and it does act."""
        world = self.fresh()
        steps = min(LONG, world.episode_steps)
        plan, start = self.actions(steps, 2), world.reset(np.arange(2))
        clean, drifted = (self.play(world, start, plan, np.full(2, level)) for level in (0.0, 1.0))
        # What drifts may be the reward alone: where a label is decided, say.
        text = difference(clean[0].observation, drifted[0].observation) or difference(clean[1], drifted[1])
        demand(
            bool(text) or self.scale == 1.0,
            f"level 1 is the same world as level 0 over {steps} random steps.",
            f"`level` times the built `scale` (here {self.scale}) changes `{world.parameter}`.",
        )
        each, everyone = (world.step(start, plan[0], level)[0] for level in (np.full(2, 0.5), 0.5))
        text = _states(each, everyone)
        demand(not text, f"one level for all is not the same as that level for each ({text}).", "Broadcast it.")

    def is_nominal_at_zero(self) -> None:
        """Whatever has happened, level 0 of a drifting world is the world without drift."""
        assert self.plugin is not None
        world, still = self.fresh(), self.plugin.build(scale=1.0, threads=1)
        steps = min(LONG, world.episode_steps)
        plan, seeds = self.actions(steps, 3), np.arange(3)
        start = world.reset(seeds)
        travelled = self.play(world, start, plan[: steps // 2], np.ones(3))[0]
        remedy = (
            "The parameter is nominal * (1 + level * (scale - 1)) at every step: no clock and no sum of levels."
        )
        for what, state in (("from the start", start), ("after some steps at level 1", travelled)):
            here = self.play(world, state, plan, np.zeros(3))[0]
            there = self.play(still, state, plan, np.zeros(3))[0]
            text = _states(here, there)
            demand(not text, f"pinned at level 0 {what}, it is not the nominal world ({text}).", remedy)

    def says_where_it_ends(self) -> None:
        """Random actions, as far as an episode goes: what ends is said in `ended`, and what is said is so."""
        world = self.fresh()
        says, state = can_end(world), world.reset(np.arange(WORLDS))
        plan = self.actions(min(LONG, world.episode_steps), WORLDS)
        stood = np.zeros(WORLDS, np.int64)
        for action in plan:
            self.says_ends(state, says=says)
            over = state.ended != 0 if state.ended is not None else np.zeros(WORLDS, np.bool_)
            after, _, reward = world.step(state, action)
            self.says_ends(after, says=says)
            moved = (after.observation != state.observation).any(axis=1) | (reward != 0.0)
            remedy = (
                "Once it has ended, a world keeps its observation and its `ended`, and earns 0, until it is reset."
            )
            demand(not (moved & over).any(), "an episode that had ended went on.", remedy)
            if state.ended is not None and after.ended is not None:
                demand(
                    not difference(state.ended[over], after.ended[over]), "`ended` changed after an end.", remedy
                )
            unchanged = ~moved & ~over & ~after.unstable & ~(after.physics != state.physics).any(axis=1)
            stood = np.where(unchanged, stood + 1, 0)
            state = after
        demand(
            not (stood > STILL).any(),
            f"{(stood > STILL).sum()} of {WORLDS} worlds stood still and earned nothing, whatever was done there.",
            "An episode that is over says so: `can_end = True`, and in `State.ended` 1 (terminated, the task's own "
            "end) or 2 (truncated, a time limit). Else an agent would be trained on what came after.",
        )
        text = _states(world.step(state, plan[0])[0], self.fresh().step(state[:], plan[0])[0])
        demand(not text, f"where episodes have ended, a restored state goes on otherwise ({text}).", IN_STATE)

    def says_ends(self, state: State, *, says: bool) -> None:
        remedy = "A world says `can_end = True` and fills `ended` in `reset` and `step`, or it does neither."
        demand((state.ended is not None) == says, f"`can_end` is {says}, and `ended` is {state.ended}.", remedy)
        if state.ended is not None:
            _array("`ended`", state.ended, (WORLDS,), np.int8)
            known = np.isin(state.ended, (0, TERMINATED, TRUNCATED)).all()
            demand(bool(known), f"`ended` is {state.ended}.", "0 goes on, 1 terminated, 2 truncated.")

    def reads_back(self) -> None:
        world = self.fresh()
        world.step(world.reset(np.arange(3), 1.0), self.actions(1, 3)[0], 1.0)
        record = prove_clean(world)
        remedy = "Both name the physical parameters at level 0: one by definition, one from the simulator."
        demand(bool(record["read"]), "`read_back` and `nominal` name no parameter.", remedy)

    def ignores_threads(self) -> None:
        assert self.plugin is not None
        plan, level = self.actions(STEPS, WORLDS), np.linspace(0, 1, WORLDS)
        ends = []
        for threads in (1, 2, 3):
            world = self.plugin.build(scale=self.scale, threads=threads)
            ends.append(self.play(world, world.reset(np.arange(WORLDS), level), plan, level)[0])
        for end in ends[1:]:
            text = _states(ends[0], end)
            demand(not text, f"another number of threads gives other digits ({text}).", ROW_BY_ROW)

    def actions(self, steps: int, worlds: int, *, seed: int = 0) -> Plan:
        """Random actions that every world allows."""
        size, reach = self.actuators
        return np.random.default_rng(seed).uniform(-reach, reach, (steps, worlds, size))

    @functools.cached_property
    def actuators(self) -> tuple[int, float]:
        """How many actions there are, and how large they may be."""
        world = self.fresh()
        return world.action_size, min(1.0, world.action_bound)

    def play(
        self, world: Environment, state: State, plan: Plan, level: np.ndarray | float = 0.0
    ) -> tuple[State, np.ndarray]:
        """Steps through a plan; returns where it ends and the rewards [T, B]."""
        rewards = []
        for action in plan:
            state, _, reward = world.step(state, action, level)
            rewards.append(reward)
        return state, np.array(rewards)


def _members(protocol: type) -> list[str]:
    return [name for name in vars(protocol) if not name.startswith("_")]


def _array(what: str, array: Any, shape: tuple[int, ...], dtype: Any) -> None:
    came = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
    right = isinstance(array, np.ndarray) and array.shape == shape and array.dtype == dtype
    demand(right, f"{what} is {came}.", f"It is a NumPy array, {np.dtype(dtype)} of shape {shape}.")


def _states(before: State, after: State) -> str:
    """How two states differ; empty where they do not."""
    return difference(
        *({field.name: getattr(s, field.name) for field in dataclasses.fields(s)} for s in (before, after))
    )
