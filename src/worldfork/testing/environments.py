"""Contract of a world: pure calls, state that is data, physics that moves with the drift level alone.

Axes: B worlds, T control steps, A actions.
"""

import copy
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from worldfork.lab.environments.base import (
    TERMINATED,
    TRUNCATED,
    Environment,
    EnvironmentPlugin,
    State,
    can_end,
    concatenate,
    prove_clean,
)
from worldfork.lab.environments.restorable import RestorablePlugin
from worldfork.testing.contract import (
    Report,
    demand,
    demand_same,
    demand_unwritten,
    difference,
    examine,
    name_of,
    no_global_draws,
    resolved,
    rule,
)
from worldfork.testing.save_and_restore import PAIR, examine_pair

WORLDS = 5
STEPS = 6  # of a short play
LONG = 100  # of one in which drift must show
STILL = 3  # steps in which nothing happens, after which a world is over
COPY = "Copy before you write."
IN_STATE = "Put everything that the future depends on into State.physics, and nothing into the object."
DRAWS = (
    "Derive every draw from the episode's seed and a step count kept in State.physics "
    "(worldfork.randomness.fold_in and normals)."
)
ROW_BY_ROW = (
    "Compute each world from its own row alone; a batched matrix product or a sum over the batch rounds "
    "differently in another batch, so write it as explicit sums or loop over the worlds."
)
NOMINAL = "The parameter is nominal * (1 + level * (scale - 1)) at every step: no clock and no sum of levels."

Plan = np.ndarray  # [T, B, A]


def check_environment(
    environment: str | type[EnvironmentPlugin] | EnvironmentPlugin | Environment,
    *,
    settings: Mapping[str, Any] | None = None,
    scale: float = 0.5,
) -> Report:
    """Examine a world.

    Args:
        environment: a name of the registry, a plug-in class or record, or a world that is built. Other scales of
            drift and numbers of threads can be examined for a plug-in alone, since it builds them.
        settings: settings of a name or class.
        scale: what drift level 1 multiplies the drifting parameter by.

    Raises:
        ContractError: with everything that is wrong.

    Example:
        >>> check_environment("linear_quadratic").kept[0]
        'A world says what it is'
    """
    subject = resolved("environments", environment, EnvironmentPlugin, settings)
    return examine(f"The environment `{name_of(environment)}`", _Bench(subject, scale))


def _built(bench: "_Bench") -> bool | str:
    return bench.plugin is not None or "a world that is built already can not be built otherwise"


class _Bench:
    """Bench of a world: the world, and what its examinations share."""

    def __init__(self, subject: Any, scale: float) -> None:
        self.plugin = subject if isinstance(subject, EnvironmentPlugin) else None
        self.scale, self.examined = scale, ""
        try:
            self._pristine = copy.deepcopy(subject)
        except Exception:  # a handle to a simulator, say: then the one that is there has to do
            self._pristine = None
        self._subject = subject

    def fresh(self) -> Environment:
        """Return a world that nothing has been done with yet."""
        if self.plugin is not None:
            return self.plugin.build(scale=self.scale, threads=1)
        return self._subject if self._pristine is None else copy.deepcopy(self._pristine)

    @rule(PAIR, foundation=True, applies=lambda bench: isinstance(bench.plugin, RestorablePlugin))
    def restores_its_simulator(self) -> None:
        assert isinstance(self.plugin, RestorablePlugin)
        self.examined = examine_pair(self.plugin)

    @rule("A world says what it is", foundation=True)
    def says_what_it_is(self) -> None:
        world = self.fresh()
        members = [name for name in vars(Environment) if not name.startswith("_")]
        missing = ", ".join(name for name in members if not hasattr(world, name))
        demand(not missing, f"it has no `{missing}`.", "Add what worldfork.lab.environments.base asks for.")
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
        for call, state in (("reset", start), ("step", after)):
            _array(f"`physics` of `{call}`", state.physics, (WORLDS, *state.physics.shape[1:]), np.float64)
            demand(state.physics.ndim == 2, f"`physics` has shape {state.physics.shape}.", "It is [B, S].")
            _array(f"`observation` of `{call}`", state.observation, (WORLDS, world.observation_size), np.float64)
            _array(f"`unstable` of `{call}`", state.unstable, (WORLDS,), np.bool_)
        _array("the observation of `step`", observation, (WORLDS, world.observation_size), np.float64)
        _array("the reward of `step`", reward, (WORLDS,), np.float64)
        seen = "`step` returns one observation and keeps another"
        demand_same(after.observation, observation, seen, "They are the same numbers.")
        unstable = f"{after.unstable.sum()} of {WORLDS} worlds are unstable after one random step."
        remedy = "`unstable` means that the simulator broke down; an episode's end is not that."
        demand(not after.unstable.any(), unstable, remedy)

    @rule("Calls leave what they are given", foundation=True)
    def leaves_its_arguments(self) -> None:
        world = self.fresh()
        action, level = self.actions(1, 3)[0], np.zeros(3)
        start = demand_unwritten(world.reset, np.arange(3), level, subject="`reset`", remedy=COPY)
        demand_unwritten(world.step, start, action, level, subject="`step`", remedy=COPY)

    @rule("Calls draw no randomness of their own", foundation=True)
    def draws_nothing(self) -> None:
        world, other = self.fresh(), self.fresh()
        plan, seeds = self.actions(STEPS, WORLDS), np.arange(WORLDS)
        with no_global_draws("`reset`", DRAWS):
            start = world.reset(seeds)
        demand_same(start, other.reset(seeds), "two new worlds were reset with the same seeds and differ", DRAWS)
        with no_global_draws("`step`", DRAWS):
            end, _ = self.play(world, start, plan)
        seen = "two new worlds took the same steps from the same state and differ"
        demand_same(end, self.play(other, start, plan)[0], seen, DRAWS)

    @rule("A restored state goes on as it would have", foundation=True)
    def restores(self) -> None:
        """Copied, stepped, restored: the same digits, in this object and in a new one."""
        world = self.fresh()
        plan = self.actions(2 * STEPS, WORLDS)
        begun, _ = self.play(world, world.reset(np.arange(WORLDS)), plan[:STEPS])
        ended = self.play(world, begun[:], plan[STEPS:])
        for where, chosen in (("in the same object", world), ("in a new one", self.fresh())):
            seen = f"a state was copied, stepped, restored and stepped again {where}, and differs"
            demand_same(ended, self.play(chosen, begun[:], plan[STEPS:]), seen, IN_STATE)

    @rule("Nothing is kept between calls", foundation=True)
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
            demand_same(alone[step + 1], state, "stepping other worlds in between changed what came out", IN_STATE)
        again = world.reset(np.arange(WORLDS))
        demand_same(start, again, "`reset` with the same seeds gave another state later", IN_STATE)

    @rule("A world does not depend on its neighbours in the batch", foundation=True)
    def ignores_neighbours(self) -> None:
        world = self.fresh()
        seeds, level = np.array([7, 3, 11, 3, 5]), np.linspace(0, 1, WORLDS)
        plan = self.actions(STEPS, WORLDS)
        start = world.reset(seeds, level)
        ended, rewards = self.play(world, start, plan, level)
        for seed in range(3):
            order = np.random.default_rng(seed).permutation(WORLDS)
            for part in (order, order[: seed + 1], order[seed + 1 :]):
                alone = world.reset(seeds[part], level[part])
                seen = f"`reset` of worlds {part} alone is not what it is among others"
                demand_same(start[part], alone, seen, ROW_BY_ROW)
                played = self.play(world, start[part], plan[:, part], level[part])
                seen = f"worlds {part} alone are not what they are among others"
                demand_same((ended[part], rewards[:, part]), played, seen, ROW_BY_ROW)
        both = self.play(world, concatenate([start[:2], start[2:]]), plan, level)[0]
        demand_same(ended, both, "worlds joined into one batch are not what they were", ROW_BY_ROW)

    @rule("Arrays that are handed out are let go", foundation=True)
    def lets_arrays_go(self) -> None:
        world = self.fresh()
        seeds, action = np.arange(3), self.actions(1, 3)[0]
        start = world.reset(seeds)
        after, observation, reward = world.step(start, action)
        results = {"observation": observation, "reward": reward, "physics": after.physics}
        before = {name: array.copy() for name, array in results.items()}
        world.step(world.reset(seeds + 9), -action, 1.0)
        demand_same(before, results, "a later call wrote into arrays handed out before", "Hand out new arrays.")
        observation[:] = 0.0
        seen = "the observation and the state's own are one array"
        demand_same(before["observation"], after.observation, seen, "Hand out a copy.")
        kept, spoilt = start[:], world.reset(seeds)
        for array in (spoilt.physics, spoilt.observation, after.physics, after.observation, reward):
            array[:] = 0.0
        again, _, again_reward = world.step(kept, action)
        expected = (start, before["physics"], before["reward"])
        came = (world.reset(seeds), again.physics, again_reward)
        demand_same(expected, came, "writing into returned arrays changed the world", "Hand out copies.")

    @rule("Batches of one and of none are batches")
    def takes_every_batch(self) -> None:
        world = self.fresh()
        for size in (0, 1):
            state = world.reset(np.arange(size))
            after, observation, reward = world.step(state, self.actions(1, size)[0])
            lengths = [len(state), len(after), len(observation), len(reward)]
            seen = f"a batch of {size} came back as {lengths}."
            demand(lengths == [size] * 4, seen, "Return arrays of that length.")

    @rule("Physics moves with the level, and with nothing else")
    def stays_when_pinned(self) -> None:
        """Drift acts through `level` at the moment of the step, and it does act."""
        world = self.fresh()
        steps = min(LONG, world.episode_steps)
        plan, start = self.actions(steps, 2), world.reset(np.arange(2))
        clean, drifted = (self.play(world, start, plan, np.full(2, level)) for level in (0.0, 1.0))
        # What drifts may be the reward alone: where a label is decided, say.
        drifts = difference(clean[0].observation, drifted[0].observation) or difference(clean[1], drifted[1])
        demand(
            self.scale == 1.0 or bool(drifts),
            f"level 1 is the same world as level 0 over {steps} random steps.",
            f"`level` times the built `scale` (here {self.scale}) changes `{world.parameter}`.",
        )
        each, everyone = (world.step(start, plan[0], level)[0] for level in (np.full(2, 0.5), 0.5))
        demand_same(each, everyone, "one level for all is not the same as that level for each", "Broadcast it.")

    @rule("Clean physics reads back")
    def reads_back(self) -> None:
        world = self.fresh()
        world.step(world.reset(np.arange(3), 1.0), self.actions(1, 3)[0], 1.0)
        record = prove_clean(world)
        remedy = "Both name the physical parameters at level 0: one by definition, one from the simulator."
        demand(bool(record["read"]), "`read_back` and `nominal` name no parameter.", remedy)

    @rule("A world says where an episode ends, and stays there")
    def says_where_it_ends(self) -> None:
        """Random actions, as far as an episode goes: what ends is said in `ended`, and what is said is so."""
        world = self.fresh()
        says, state = can_end(world), world.reset(np.arange(WORLDS))
        plan = self.actions(min(LONG, world.episode_steps), WORLDS)
        stood = np.zeros(WORLDS, np.int64)
        remedy = "Once it has ended, a world keeps its observation and its `ended`, and earns 0, until it is reset."
        for action in plan:
            _says_ends(state, says=says)
            over = state.ended != 0 if state.ended is not None else np.zeros(WORLDS, np.bool_)
            after, _, reward = world.step(state, action)
            _says_ends(after, says=says)
            moved = (after.observation != state.observation).any(axis=1) | (reward != 0.0)
            demand(not (moved & over).any(), "an episode that had ended went on.", remedy)
            if state.ended is not None and after.ended is not None:
                demand_same(state.ended[over], after.ended[over], "`ended` changed after an end", remedy)
            unchanged = ~moved & ~over & ~after.unstable & ~(after.physics != state.physics).any(axis=1)
            stood = np.where(unchanged, stood + 1, 0)
            state = after
        demand(
            not (stood > STILL).any(),
            f"{(stood > STILL).sum()} of {WORLDS} worlds stood still and earned nothing, whatever was done there.",
            "An episode that is over says so: `can_end = True`, and in `State.ended` 1 (terminated, the task's own "
            "end) or 2 (truncated, a time limit). Else an agent would be trained on what came after.",
        )
        here, there = world.step(state, plan[0])[0], self.fresh().step(state[:], plan[0])[0]
        demand_same(here, there, "where episodes have ended, a restored state goes on otherwise", IN_STATE)

    @rule("Level 0 is the nominal world whatever the scale", applies=_built)
    def is_nominal_at_zero(self) -> None:
        """Whatever has happened, level 0 of a drifting world is the world without drift."""
        assert self.plugin is not None
        world, still = self.fresh(), self.plugin.build(scale=1.0, threads=1)
        steps = min(LONG, world.episode_steps)
        plan, start = self.actions(steps, 3), world.reset(np.arange(3))
        travelled = self.play(world, start, plan[: steps // 2], np.ones(3))[0]
        for when, state in (("from the start", start), ("after some steps at level 1", travelled)):
            here, there = (self.play(chosen, state, plan, np.zeros(3))[0] for chosen in (world, still))
            demand_same(here, there, f"pinned at level 0 {when}, it is not the nominal world", NOMINAL)

    @rule("Threads change nothing", applies=_built)
    def ignores_threads(self) -> None:
        assert self.plugin is not None
        plan, level = self.actions(STEPS, WORLDS), np.linspace(0, 1, WORLDS)
        ends = []
        for threads in (1, 2, 3):
            world = self.plugin.build(scale=self.scale, threads=threads)
            ends.append(self.play(world, world.reset(np.arange(WORLDS), level), plan, level)[0])
        for end in ends[1:]:
            demand_same(ends[0], end, "another number of threads gives other digits", ROW_BY_ROW)

    def actions(self, steps: int, worlds: int, *, seed: int = 0) -> Plan:
        """Return random actions that every world allows."""
        size, reach = self.actuators
        return np.random.default_rng(seed).uniform(-reach, reach, (steps, worlds, size))

    @functools.cached_property
    def actuators(self) -> tuple[int, float]:
        """Number of actions, and how large they may be."""
        world = self.fresh()
        return world.action_size, min(1.0, world.action_bound)

    def play(
        self, world: Environment, state: State, plan: Plan, level: np.ndarray | float = 0.0
    ) -> tuple[State, np.ndarray]:
        """Take the steps of a plan; return where it ends and the rewards [T, B]."""
        rewards = []
        for action in plan:
            state, _, reward = world.step(state, action, level)
            rewards.append(reward)
        return state, np.array(rewards)


def _says_ends(state: State, *, says: bool) -> None:
    remedy = "A world says `can_end = True` and fills `ended` in `reset` and `step`, or it does neither."
    demand((state.ended is not None) == says, f"`can_end` is {says}, and `ended` is {state.ended}.", remedy)
    if state.ended is not None:
        _array("`ended`", state.ended, (WORLDS,), np.int8)
        legal = np.isin(state.ended, (0, TERMINATED, TRUNCATED)).all()
        demand(bool(legal), f"`ended` is {state.ended}.", "0 goes on, 1 terminated, 2 truncated.")


def _array(name: str, array: Any, shape: tuple[int, ...], dtype: Any) -> None:
    came = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
    right = isinstance(array, np.ndarray) and array.shape == shape and array.dtype == dtype
    demand(right, f"{name} is {came}.", f"It is a NumPy array, {np.dtype(dtype)} of shape {shape}.")
