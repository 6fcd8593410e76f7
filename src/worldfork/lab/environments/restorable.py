"""Worlds of simulators that hold one world each and keep its state inside, as most simulators do.

A `Simulation` makes such an object restorable: its state can be written into a row of numbers and put back.
`OneAtATime` does the rest of the environment contract with several of them, so that a world's place in a batch, its
neighbours and what an object did before can not matter. `RestorablePlugin` is the door for a simulator of one's
own: a subclass says how the simulator is made, what of it is its state, and what drifts.
`worldfork.testing.check_environment` tells at once whether that is whole.

Axes: B environments, A actions, O observations, S numbers of state.
"""

import abc
import dataclasses
import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
from jaxtyping import Float64, Shaped
from pydantic import Field

from worldfork.errors import WorldforkError
from worldfork.lab.environments import check
from worldfork.lab.environments.base import TERMINATED, TRUNCATED, EnvironmentPlugin, State
from worldfork.lab.environments.drift import factor

Numbers = float | Shaped[np.ndarray, "..."]  # shapes are checked below, with a message for the user
ENDED: Final = 0  # the first number of a row: how the episode ended, as in `State.ended`
KEPT: Final = 128  # simulations that may hold a world from one step to the next; some MB each
WORDS: Final = 10  # a PCG64 generator's state in 32-bit words: state, increment, and half a draw kept for later


class Advanced(NamedTuple):
    """An environment step that a simulation has taken."""

    observation: Float64[np.ndarray, " O"]
    reward: float
    terminated: bool = False  # the task's own end
    truncated: bool = False  # a time limit
    failed: bool = False  # the simulator broke down


class Simulation(abc.ABC):
    """A world that is held inside. `factor` multiplies what drifts; 1 is the nominal world."""

    # Stepping on is known to give the same bits as restoring the saved row first, so that may be left out.
    goes_on: ClassVar[bool] = False

    name: str
    simulator: str  # with its version: part of a ledger's identity
    parameter: str  # what drifts
    can_end: bool  # False promises that no episode ends before its last control step
    observation_size: int
    action_size: int
    action_bound: float  # actions lie in [-action_bound, action_bound]

    @abc.abstractmethod
    def another(self) -> "Simulation":
        """Return a further simulation of the same world, to be used beside this one."""

    @abc.abstractmethod
    def set_factor(self, factor: float) -> None:
        """Set the drifting parameter to `factor` times its nominal value."""

    @abc.abstractmethod
    def begin(self, seed: int) -> Float64[np.ndarray, " O"]:
        """Begin the episode of that seed; returns its first observation."""

    @abc.abstractmethod
    def advance(self, action: Float64[np.ndarray, " A"]) -> Advanced:
        """Take one environment step."""

    @abc.abstractmethod
    def save(self) -> Float64[np.ndarray, " S"]:
        """Return everything that the future depends on, a fixed count of numbers."""

    @abc.abstractmethod
    def restore(self, row: Float64[np.ndarray, " S"]) -> None:
        """Become what `save` wrote, whatever happened in between."""

    @abc.abstractmethod
    def parameters(self) -> dict[str, float]:
        """Return the physical parameters that drift, as the simulator holds them now."""


class OneAtATime:
    """The environment contract over simulations that hold one world each.

    An episode that ends early stays where it ended and earns nothing more until it is reset, and `State.ended` says
    how it ended. A world whose simulator breaks down is marked unstable and stays where it last was well.

    A row is restored, stepped and saved again, so that what a simulation did before can not matter. Where one still
    holds exactly the row that is asked for, it may go on from there: restoring can take as long as half a step.
    """

    def __init__(
        self,
        make: Callable[[], Simulation],
        *,
        first: Simulation,
        episode_steps: int,
        action_repeat: int,
        scale: float,
        threads: int,
    ) -> None:
        """`first` is a simulation that was made already."""
        self.name, self.simulator, self.parameter = first.name, first.simulator, first.parameter
        self.episode_steps, self.action_repeat = episode_steps, action_repeat
        self.scale, self.can_end = check.scale(scale), first.can_end
        self._make = make
        self.observation_size, self.action_size = first.observation_size, first.action_size
        self.action_bound = first.action_bound
        first.begin(0)
        self._size = 1 + len(first.save())
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="physics")
        self._lock = threading.Lock()  # one caller at a time: the simulations are scratchpads
        self._simulations = [first]  # one for each thread, which takes world after world
        self._held: dict[bytes, Simulation] = {}  # by the row that each holds, oldest first

    def reset(self, seeds: Shaped[np.ndarray, "..."], level: Numbers = 0.0) -> State:
        """Return initial states: row b is a function of `seeds[b]` and the physics of `level`."""
        numbers = check.seeds(seeds)
        batch = len(numbers)
        factors = factor(check.level(level, batch), self.scale).tolist()
        state = State(
            np.zeros((batch, self._size)), np.empty((batch, self.observation_size)), np.zeros(batch, np.bool_)
        )

        def begin(simulation: Simulation, world: int) -> None:
            simulation.set_factor(factors[world])
            state.observation[world] = simulation.begin(int(numbers[world]))
            state.physics[world, 1:] = simulation.save()

        with self._lock:
            self._each(begin, range(batch))
        return self._with_ends(state)

    def step(
        self, state: State, action: Shaped[np.ndarray, "..."], level: Numbers = 0.0
    ) -> tuple[State, Float64[np.ndarray, "B O"], Float64[np.ndarray, " B"]]:
        """Take `action_repeat` environment steps with one action; the reward is the sum of their rewards."""
        batch = len(state)
        check.state(state, physics_size=self._size, observation_size=self.observation_size)
        actions = check.action(action, (batch, self.action_size), bound=self.action_bound)
        factors = factor(check.level(level, batch), self.scale).tolist()
        after = State(state.physics.copy(), state.observation.copy(), state.unstable.copy())
        reward, zeros = np.zeros(batch), np.zeros(self.observation_size)

        def advance(shared: Simulation, world: int) -> None:
            simulation, holds = holders.get(world, (shared, False))
            if not holds:
                simulation.restore(state.physics[world, 1:])
            simulation.set_factor(factors[world])
            for _ in range(self.action_repeat):
                done = simulation.advance(actions[world])
                # Zero times what is not finite is NaN: one product tells, and faster than asking each number.
                if done.failed or not math.isfinite(done.reward + done.observation.dot(zeros)):
                    after.unstable[world] = True
                    return
                after.observation[world] = done.observation
                reward[world] += done.reward
                if done.terminated or done.truncated:
                    after.physics[world, ENDED] = TERMINATED if done.terminated else TRUNCATED
                    break
            after.physics[world, 1:] = simulation.save()

        worlds = np.flatnonzero((state.physics[:, ENDED] == 0.0) & ~state.unstable).tolist()
        with self._lock:
            holders = self._holders(state, worlds)
            self._each(advance, worlds)
            for world, (simulation, _) in holders.items():
                self._held[b"" if after.unstable[world] else after.physics[world, 1:].tobytes()] = simulation
        return self._with_ends(after), after.observation.copy(), reward

    def _holders(self, state: State, worlds: list[int]) -> dict[int, tuple[Simulation, bool]]:
        """Return a simulation for each world that is to have one of its own, and whether it holds the world's row.

        None has one where simulations do not go on, or where more worlds are stepped than simulations are kept.
        """
        if not self._simulations[0].goes_on or len(worlds) > KEPT:
            return {}
        found = {world: self._held.pop(state.physics[world, 1:].tobytes(), None) for world in worlds}
        holders = {world: (holder, True) for world, holder in found.items() if holder is not None}
        for world in worlds:
            if world not in holders:
                full = len(self._held) + len(holders) >= KEPT
                spare = self._held.pop(next(iter(self._held))) if full else self._simulations[0].another()
                holders[world] = spare, False
        return holders

    def read_back(self) -> dict[str, float]:
        """Return what drifts, as a simulation that has been in use holds it at level 0."""
        with self._lock:
            simulation = self._simulations[0]
            simulation.set_factor(float(factor(np.zeros(1), self.scale)[0]))
            return simulation.parameters()

    def nominal(self) -> dict[str, float]:
        """Return the same parameters of a simulator that was made anew and touched by nobody."""
        return self._make().parameters()

    def _with_ends(self, state: State) -> State:
        """Return the state with `ended` as its rows have it."""
        ended = state.physics[:, ENDED].astype(np.int8)
        if self.can_end:
            return dataclasses.replace(state, ended=ended)
        if (ended == TERMINATED).any():
            raise WorldforkError(f"An episode of {self.name} ended, and it says `can_end = False`: say True.")
        return state

    def _each(self, work: Callable[[Simulation, int], None], worlds: Sequence[int]) -> None:
        """Do the work for each of these worlds, side by side on as many threads as there are."""
        threads = min(self._threads, len(worlds))
        while len(self._simulations) < threads:
            self._simulations.append(self._simulations[0].another())

        def work_through(thread: int) -> None:
            with np.errstate(all="ignore"):  # a diverging world may overflow; it is marked, not raised
                for world in worlds[thread::threads]:
                    work(self._simulations[thread], world)

        list((self._pool.map if threads > 1 else map)(work_through, range(threads)))


class RestorablePlugin(EnvironmentPlugin):
    """A world of a simulator with Gymnasium's interface: `reset(seed=...)` and `step(action)`.

    An episode has `episode_steps` control steps. Where the simulator ends it earlier, the registration says what
    happens in the rest of them (`after_end`); a world that never does says `can_end = False`.
    """

    simulator: ClassVar[str]  # in words, with its version: part of a ledger's identity
    parameter: ClassVar[str]  # what drifts
    can_end: ClassVar[bool] = True  # whether `step` may say that an episode is over

    episode_steps: int = Field(default=200, ge=1)
    action_repeat: int = Field(default=1, ge=1)

    @abc.abstractmethod
    def make(self) -> Any:
        """Return a new simulator, in its nominal physics."""

    @abc.abstractmethod
    def save(self, env: Any) -> Any:
        """Return everything that the simulator's future depends on, as an array of a fixed count of numbers."""

    @abc.abstractmethod
    def restore(self, env: Any, saved: Float64[np.ndarray, " S"]) -> None:
        """Make the simulator what it was when `save` returned these numbers."""

    @abc.abstractmethod
    def drift(self, env: Any, factor: float) -> None:
        """Set the drifting parameter to `factor` times its nominal value."""

    @abc.abstractmethod
    def read(self, env: Any) -> dict[str, float]:
        """Return the physical parameters that drift, read from the simulator."""

    def actions(self, env: Any) -> tuple[int, float]:
        """Return how many actions there are, and how far each goes either way of zero."""
        space: Any = getattr(env, "action_space", None)
        if not (hasattr(space, "low") and hasattr(space, "high")):
            raise WorldforkError(
                f"The simulator of `{type(self).__name__}` has no `action_space` with `low` and `high`. Say in "
                "`actions(self, env)` how many actions there are and how far they go, such as `return 2, 1.0`."
            )
        low, high = np.asarray(space.low, np.float64), np.asarray(space.high, np.float64)
        if high.ndim != 1 or not ((high == high[0]).all() and (low == -high).all()):
            raise WorldforkError(
                f"Its actions are {space}; worldfork knows one interval around zero. Say in `actions` "
                "how many there are and how far they go, and map them in a wrapper."
            )
        return len(high), float(high[0])

    def build(self, *, scale: float, threads: int) -> OneAtATime:
        return OneAtATime(
            lambda: PairedSimulation(self),
            first=PairedSimulation(self),
            episode_steps=self.episode_steps,
            action_repeat=self.action_repeat,
            scale=scale,
            threads=threads,
        )


class PairedSimulation(Simulation):
    """A simulator and the functions of a plug-in that save and restore it."""

    def __init__(self, plugin: RestorablePlugin) -> None:
        self.name, self.simulator, self.parameter = type(plugin).__name__, plugin.simulator, plugin.parameter
        self._plugin, self._env, self.can_end = plugin, plugin.make(), plugin.can_end
        self.action_size, self.action_bound = plugin.actions(self._env)
        self.observation_size = len(self.begin(0))

    def another(self) -> "PairedSimulation":
        return PairedSimulation(self._plugin)

    def set_factor(self, factor: float) -> None:
        self._plugin.drift(self._env, factor)

    def begin(self, seed: int) -> Float64[np.ndarray, " O"]:
        first = self._env.reset(seed=seed)
        return _flat(first[0] if isinstance(first, tuple) else first, "the observation of `reset`")

    def advance(self, action: Float64[np.ndarray, " A"]) -> Advanced:
        observation, reward, terminated, truncated, *_ = self._env.step(action.copy())
        seen = _flat(observation, "the observation of `step`")
        return Advanced(seen, float(reward), bool(terminated), bool(truncated))

    def save(self) -> Float64[np.ndarray, " S"]:
        return _flat(self._plugin.save(self._env), "what `save` returned")

    def restore(self, row: Float64[np.ndarray, " S"]) -> None:
        self._plugin.restore(self._env, row.copy())

    def parameters(self) -> dict[str, float]:
        return self._plugin.read(self._env)


def generator_numbers(generator: np.random.Generator) -> Float64[np.ndarray, " 10"]:
    """Return the state of NumPy's default generator, which is Gymnasium's, as numbers that a row can hold.

    >>> generator = np.random.default_rng(7)
    >>> numbers, drawn = generator_numbers(generator), generator.normal()
    >>> restore_generator(generator, numbers)
    >>> generator.normal() == drawn
    True
    """
    state: Any = generator.bit_generator.state
    if state["bit_generator"] != "PCG64":
        raise WorldforkError(f"The simulator draws from {state['bit_generator']}; PCG64 can be kept in a row.")
    parts = (state["state"]["state"], state["state"]["inc"])
    words = np.frombuffer(b"".join(part.to_bytes(16, "little") for part in parts), "<u4")
    return np.array([*words, state["has_uint32"], state["uinteger"]], np.float64)


def restore_generator(generator: np.random.Generator, numbers: Float64[np.ndarray, " 10"]) -> None:
    """Put back what `generator_numbers` returned."""
    words = numbers.astype("<u4")
    state, increment = (int.from_bytes(words[at : at + 4].tobytes(), "little") for at in (0, 4))
    generator.bit_generator.state = {
        "bit_generator": "PCG64",
        "state": {"state": state, "inc": increment},
        "has_uint32": int(words[8]),
        "uinteger": int(words[9]),
    }


def _flat(values: Any, source: str) -> Float64[np.ndarray, " n"]:
    """Return numbers on one axis, as a copy; `source` says in an error where they come from."""
    array = np.array(values)
    if array.ndim != 1 or array.dtype.kind not in "biuf":
        raise WorldforkError(f"{source} is {array.dtype} of shape {array.shape}; expected numbers on one axis.")
    return array.astype(np.float64)
