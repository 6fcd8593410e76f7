"""Worlds that each break one promise of the contract, and the words that tell their author."""

import dataclasses
import random
from typing import Any

import numpy as np

from worldfork.lab.environments.base import EnvironmentPlugin, State
from worldfork.lab.environments.linear_quadratic import World


class Counting(World):
    """Remembers how many steps it took, whoever's they were."""

    steps_taken = 0

    def step(self, state: State, action: np.ndarray, level: Any = 0.0) -> tuple[State, np.ndarray, np.ndarray]:
        self.steps_taken += 1
        after, observation, reward = super().step(state, action, level)
        return after, observation, reward - self.steps_taken


class Leftover(World):
    """A drifted reset sets a wind that nobody takes back."""

    wind = 0.0

    def reset(self, seeds: np.ndarray, level: Any = 0.0) -> State:
        self.wind = max(self.wind, float(np.max(level, initial=0.0)))
        return super().reset(seeds, level)

    def step(self, state: State, action: np.ndarray, level: Any = 0.0) -> tuple[State, np.ndarray, np.ndarray]:
        return super().step(state, action + self.wind, level)


class GlobalNumPy(World):
    def step(self, state: State, action: np.ndarray, level: Any = 0.0) -> tuple[State, np.ndarray, np.ndarray]:
        return super().step(state, action + np.random.standard_normal(action.shape), level)  # noqa: NPY002


class GlobalPython(World):
    def reset(self, seeds: np.ndarray, level: Any = 0.0) -> State:
        state = super().reset(seeds, level)
        state.physics[:, 0] += random.random()
        return state


class OwnGenerator(World):
    def __init__(self, *, scale: float) -> None:
        super().__init__(scale=scale)
        self.random = np.random.default_rng()

    def step(self, state: State, action: np.ndarray, level: Any = 0.0) -> tuple[State, np.ndarray, np.ndarray]:
        return super().step(state, action + self.random.normal(size=action.shape), level)


class Crowded(World):
    """Feels how many others there are."""

    def step(self, state: State, action: np.ndarray, level: Any = 0.0) -> tuple[State, np.ndarray, np.ndarray]:
        return super().step(state, action - action.mean(axis=0), level)


class Lending(World):
    """Hands out one buffer again and again."""

    buffer = np.zeros((0, 2))

    def step(self, state: State, action: np.ndarray, level: Any = 0.0) -> tuple[State, np.ndarray, np.ndarray]:
        after, observation, reward = super().step(state, action, level)
        if self.buffer.shape != observation.shape:
            self.buffer = np.empty_like(observation)
        self.buffer[:] = observation
        return after, self.buffer, reward


class Aliasing(World):
    """The observation it returns is the state's own array."""

    def step(self, state: State, action: np.ndarray, level: Any = 0.0) -> tuple[State, np.ndarray, np.ndarray]:
        after, _, reward = super().step(state, action, level)
        return after, after.observation, reward


class Overwriting(World):
    def step(self, state: State, action: np.ndarray, level: Any = 0.0) -> tuple[State, np.ndarray, np.ndarray]:
        after, observation, reward = super().step(state, action, level)
        state.physics[:, 0] = 0.0
        return after, observation, reward


class Ageing(World):
    """Drifts with its own clock, whatever the level."""

    def step(self, state: State, action: np.ndarray, level: Any = 0.0) -> tuple[State, np.ndarray, np.ndarray]:
        return super().step(state, action, np.minimum(1.0, np.asarray(level) + state.physics[:, 4] / 100))


class Accumulating(World):
    """Adds the levels up in its state: pinned, it goes on drifting."""

    def reset(self, seeds: np.ndarray, level: Any = 0.0) -> State:
        state = super().reset(seeds, level)
        return State(np.column_stack([state.physics, np.zeros(len(seeds))]), state.observation, state.unstable)

    def step(self, state: State, action: np.ndarray, level: Any = 0.0) -> tuple[State, np.ndarray, np.ndarray]:
        wear = state.physics[:, 5] + level
        inner = State(state.physics[:, :5], state.observation, state.unstable)
        after, observation, reward = super().step(inner, action, wear / 10)
        return State(np.column_stack([after.physics, wear]), after.observation, after.unstable), observation, reward

    def read_back(self) -> dict[str, float]:
        return self.nominal()


class Unmoved(World):
    def step(self, state: State, action: np.ndarray, level: Any = 0.0) -> tuple[State, np.ndarray, np.ndarray]:
        return super().step(state, action, 0.0)


class Unclean(World):
    def nominal(self) -> dict[str, float]:
        return {"pull": 9.81}


class NeverEmpty(World):
    def step(self, state: State, action: np.ndarray, level: Any = 0.0) -> tuple[State, np.ndarray, np.ndarray]:
        assert action.max() < 10
        return super().step(state, action, level)


class SinglePrecision(World):
    def step(self, state: State, action: np.ndarray, level: Any = 0.0) -> tuple[State, np.ndarray, np.ndarray]:
        after, observation, reward = super().step(state, action, level)
        return after, observation.astype(np.float32), reward


class Nameless(World):
    simulator = ""


class Threaded(World):
    pass


def plugin_of(world: type[World]) -> EnvironmentPlugin:
    """The plug-in that builds such a world."""

    class Broken(EnvironmentPlugin):
        def build(self, *, scale: float, threads: int) -> World:
            built = world(scale=scale)
            if world is Threaded:  # whose physics is another on another number of threads
                built.matrices.noise[0] *= 1 + 1e-9 * threads
            return built

    return Broken()


class SilentEnd(World):
    """Is over once the pole has tilted far enough, and does not say so."""

    def step(self, state: State, action: np.ndarray, level: Any = 0.0) -> tuple[State, np.ndarray, np.ndarray]:
        after, observation, reward = super().step(state, action, level)
        over = np.abs(state.observation[:, 0]) > 1.5
        physics = np.where(over[:, None], state.physics, after.physics)
        observation = np.where(over[:, None], state.observation, observation)
        return State(physics, observation, after.unstable), observation.copy(), np.where(over, 0.0, reward)


class EndsAndGoesOn(World):
    """Says that it is over, and goes on."""

    can_end = True

    def reset(self, seeds: np.ndarray, level: Any = 0.0) -> State:
        return dataclasses.replace(super().reset(seeds, level), ended=np.zeros(len(seeds), np.int8))

    def step(self, state: State, action: np.ndarray, level: Any = 0.0) -> tuple[State, np.ndarray, np.ndarray]:
        after, observation, reward = super().step(dataclasses.replace(state, ended=None), action, level)
        before = np.zeros(len(state), bool) if state.ended is None else state.ended != 0
        over = before | (np.abs(observation[:, 0]) > 1.5)
        return dataclasses.replace(after, ended=over.astype(np.int8)), observation, reward


BROKEN: list[tuple[type[World], str]] = [
    (SilentEnd, r"stood still and earned nothing.*`can_end = True`.*what came after"),
    (EndsAndGoesOn, r"an episode that had ended went on\. Once it has ended"),
    (Counting, r"restored and stepped again.*everything that the future depends on into State\.physics"),
    (Leftover, r"stepping other worlds in between changed"),
    (GlobalNumPy, r"`step` draws from NumPy's global generator.*Derive every draw from the episode's seed"),
    (GlobalPython, r"two new worlds were reset with the same seeds and differ.*Derive every draw"),
    (OwnGenerator, r"two new worlds took the same steps from the same state and differ"),
    (Crowded, r"are not what they are among others.*from its own row alone"),
    (Lending, r"a later call wrote into arrays handed out before.*Hand out new arrays"),
    (Aliasing, r"the observation and the state's own are one array"),
    (Overwriting, r"`step` writes into what it is given.*Copy before you write"),
    (Ageing, r"pinned at level 0 from the start, it is not the nominal world.*no clock"),
    (Accumulating, r"pinned at level 0 after some steps at level 1.*no sum of levels"),
    (Unmoved, r"level 1 is the same world as level 0.*changes `pull`"),
    (Unclean, r"is not clean: pull is 1\.0, not 9\.81"),
    (NeverEmpty, r"Batches of one and of none.*it raised ValueError"),
    (SinglePrecision, r"the observation of `step` is float32.*float64 of shape"),
    (Nameless, r"`simulator` is ''.*Say it in words"),
    (Threaded, r"another number of threads gives other digits"),
]
