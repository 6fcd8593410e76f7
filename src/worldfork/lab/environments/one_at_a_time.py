"""A batch of worlds from a simulator that holds one at a time and keeps its state inside.

Most simulators are such: an object that is reset and stepped. A `Simulation` makes one of them restorable: what it
is can be written into a row of numbers and put back. `OneAtATime` does the rest of the environment contract with as
many of them as there are threads: a row is restored, stepped and saved again, so that where it lies in a batch, who
its neighbours are and what the object did before can not matter.

Axes: B environments, A actions, O observations, S numbers of state.
"""

import abc
import dataclasses
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

import numpy as np
from jaxtyping import Float64, Shaped

from worldfork.errors import WorldforkError
from worldfork.lab.environments import check
from worldfork.lab.environments.base import TERMINATED, TRUNCATED, State
from worldfork.lab.environments.drift import factor

__all__ = ["Advanced", "OneAtATime", "Simulation"]

Numbers = float | Shaped[np.ndarray, "..."]  # shapes are checked below, with a message for the user
ENDED: Final = 0  # the first number of a row: how the episode ended, as in `State.ended`


class Advanced(NamedTuple):
    """An environment step that a simulation has taken."""

    observation: Float64[np.ndarray, " O"]
    reward: float
    terminated: bool  # the task's own end
    truncated: bool  # a time limit
    failed: bool = False  # the simulator broke down


class Simulation(abc.ABC):
    """One world, held inside. `factor` multiplies what drifts; 1 is the nominal world."""

    observation_size: int
    action_size: int
    action_bound: float  # actions lie in [-action_bound, action_bound]

    @abc.abstractmethod
    def set_factor(self, factor: float) -> None:
        """Set the drifting parameter to `factor` times its nominal value."""

    @abc.abstractmethod
    def begin(self, seed: int) -> Float64[np.ndarray, " O"]:
        """Begin the episode of that seed; returns its first observation."""

    @abc.abstractmethod
    def advance(self, action: Float64[np.ndarray, " A"]) -> Advanced:
        """One environment step."""

    @abc.abstractmethod
    def save(self) -> Float64[np.ndarray, " S"]:
        """Everything that the future depends on, as numbers of a fixed count."""

    @abc.abstractmethod
    def restore(self, row: Float64[np.ndarray, " S"]) -> None:
        """Become what `save` wrote, whatever happened in between."""

    @abc.abstractmethod
    def parameters(self) -> dict[str, float]:
        """The physical parameters that drift, as the simulator holds them now."""


class OneAtATime:
    """The environment contract over simulations that hold one world each.

    An episode that ends early stays where it ended and earns nothing more until it is reset, and `State.ended` says
    how it ended. A world whose simulator breaks down is marked unstable and stays where it last was well.
    """

    def __init__(
        self,
        make: Callable[[], Simulation],
        *,
        name: str,
        simulator: str,
        parameter: str,
        episode_steps: int,
        action_repeat: int,
        scale: float,
        threads: int,
        can_end: bool = True,
    ) -> None:
        """`can_end` = False is a promise that no episode ends before `episode_steps`."""
        self.name, self.simulator, self.parameter = name, simulator, parameter
        self.episode_steps, self.action_repeat = episode_steps, action_repeat
        self.scale, self.can_end = check.scale(scale), can_end
        self._make = make
        self._simulations = [make()]
        first = self._simulations[0]
        self.observation_size, self.action_size = first.observation_size, first.action_size
        self.action_bound = first.action_bound
        first.begin(0)
        self._size = 1 + len(first.save())
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="physics") if threads > 1 else None
        self._lock = threading.Lock()  # one caller at a time: the simulations are scratchpads

    def reset(self, seeds: Shaped[np.ndarray, "..."], level: Numbers = 0.0) -> State:
        """Initial states: row b is a function of `seeds[b]` and the physics of `level`."""
        numbers = check.seeds(seeds)
        factors = factor(check.level(level, len(numbers)), self.scale)
        state = self._empty(len(numbers))

        def begin(simulation: Simulation, world: int) -> None:
            simulation.set_factor(float(factors[world]))
            state.observation[world] = simulation.begin(int(numbers[world]))
            state.physics[world, ENDED] = 0.0
            state.physics[world, 1:] = simulation.save()

        self._each(begin, len(numbers))
        return self._said(state)

    def step(
        self, state: State, action: Shaped[np.ndarray, "..."], level: Numbers = 0.0
    ) -> tuple[State, Float64[np.ndarray, "B O"], Float64[np.ndarray, " B"]]:
        """`action_repeat` environment steps with one action; the reward is the sum of their rewards."""
        batch = len(state)
        check.state(state, physics_size=self._size, observation_size=self.observation_size)
        actions = self._actions(action, batch)
        factors = factor(check.level(level, batch), self.scale)
        after, reward = state[:], np.zeros(batch)

        def advance(simulation: Simulation, world: int) -> None:
            if after.physics[world, ENDED] or after.unstable[world]:
                return
            simulation.restore(state.physics[world, 1:])
            simulation.set_factor(float(factors[world]))
            for _ in range(self.action_repeat):
                done = simulation.advance(actions[world].copy())
                if done.failed or not (np.isfinite(done.observation).all() and np.isfinite(done.reward)):
                    after.unstable[world] = True
                    return
                after.observation[world] = done.observation
                reward[world] += done.reward
                if done.terminated or done.truncated:
                    after.physics[world, ENDED] = TERMINATED if done.terminated else TRUNCATED
                    break
            after.physics[world, 1:] = simulation.save()

        self._each(advance, batch)
        return self._said(after), after.observation.copy(), reward

    def read_back(self) -> dict[str, float]:
        """What drifts, as a simulation that has been in use holds it at level 0."""
        with self._lock:
            simulation = self._simulations[0]
            simulation.set_factor(float(factor(np.zeros(1), self.scale)[0]))
            return simulation.parameters()

    def nominal(self) -> dict[str, float]:
        """The same parameters in a simulator that was made anew and touched by nobody."""
        return self._make().parameters()

    def _said(self, state: State) -> State:
        """The state, with what its rows say of ends."""
        ended = state.physics[:, ENDED].astype(np.int8)
        if self.can_end:
            return dataclasses.replace(state, ended=ended)
        if (ended == TERMINATED).any():
            raise WorldforkError(f"An episode of {self.name} ended, and it says `can_end = False`: say True.")
        return state

    def _empty(self, batch: int) -> State:
        return State(
            np.empty((batch, self._size)), np.empty((batch, self.observation_size)), np.zeros(batch, np.bool_)
        )

    def _actions(self, given: Shaped[np.ndarray, "..."], batch: int) -> Float64[np.ndarray, "B A"]:
        shape, bound = (batch, self.action_size), self.action_bound
        if given.shape != shape or given.dtype.kind != "f":
            raise WorldforkError(
                f"`action` must be floating point with shape {shape}; got {given.dtype} with shape {given.shape}."
            )
        if not (np.isfinite(given) & (np.abs(given) <= bound)).all():
            raise WorldforkError(
                f"Actions of {self.name} must be finite and in [-{bound:g}, {bound:g}]; got {given.min()} to "
                f"{given.max()}. Clip them first: np.clip(action, -{bound:g}, {bound:g})."
            )
        return given.astype(np.float64)

    def _each(self, work: Callable[[Simulation, int], None], batch: int) -> None:
        """Do the work for every world, side by side on as many simulations as there are threads."""

        def part(place: int, worlds: Any) -> None:
            for world in worlds:
                work(self._simulations[place], int(world))

        with self._lock:
            while len(self._simulations) < min(self._threads, batch):
                self._simulations.append(self._make())
            parts = [worlds for worlds in np.array_split(np.arange(batch), self._threads) if len(worlds)]
            if self._pool is None:
                for place, worlds in enumerate(parts):
                    part(place, worlds)
            else:
                for _ in self._pool.map(part, range(len(parts)), parts):
                    pass
