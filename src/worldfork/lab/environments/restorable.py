"""Any simulator that is reset and stepped, with a pair of functions that save and restore it.

A subclass says how the simulator is made, what of it is its state, and what drifts; everything that the environment
contract asks besides is done here. `worldfork.testing.check_environment` tells at once whether the pair is whole.
"""

import abc
from typing import Any, ClassVar, Final

import numpy as np
from jaxtyping import Float64
from pydantic import Field

from worldfork.errors import WorldforkError
from worldfork.lab.environments.base import EnvironmentPlugin
from worldfork.lab.environments.one_at_a_time import Advanced, OneAtATime, Simulation

__all__ = ["WORDS", "RestorablePlugin", "generator_numbers", "restore_generator"]

WORDS: Final = 10  # a PCG64 generator's state in 32-bit words: state, increment, and half a draw kept for later


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
        """A new simulator, in its nominal physics."""

    @abc.abstractmethod
    def save(self, env: Any) -> Any:
        """Everything that the simulator's future depends on, as an array of a fixed count of numbers."""

    @abc.abstractmethod
    def restore(self, env: Any, saved: Float64[np.ndarray, " S"]) -> None:
        """Make the simulator what it was when `save` returned these numbers."""

    @abc.abstractmethod
    def drift(self, env: Any, factor: float) -> None:
        """Set the drifting parameter to `factor` times its nominal value."""

    @abc.abstractmethod
    def read(self, env: Any) -> dict[str, float]:
        """The physical parameters that drift, read from the simulator."""

    def actions(self, env: Any) -> tuple[int, float]:
        """How many actions there are, and how far each goes either way of zero."""
        low, high = np.asarray(env.action_space.low, np.float64), np.asarray(env.action_space.high, np.float64)
        if high.ndim != 1 or not ((high == high[0]).all() and (low == -high).all()):
            raise WorldforkError(
                f"Its actions are {env.action_space}; worldfork knows one interval around zero. Say in `actions` "
                "how many there are and how far they go, and map them in a wrapper."
            )
        return len(high), float(high[0])

    def build(self, *, scale: float, threads: int) -> OneAtATime:
        return OneAtATime(
            lambda: PairedSimulation(self),
            name=type(self).__name__,
            simulator=self.simulator,
            parameter=self.parameter,
            episode_steps=self.episode_steps,
            action_repeat=self.action_repeat,
            scale=scale,
            threads=threads,
            can_end=self.can_end,
        )


class PairedSimulation(Simulation):
    """A simulator and the functions of a plug-in that save and restore it."""

    def __init__(self, plugin: RestorablePlugin) -> None:
        self._plugin, self._env = plugin, plugin.make()
        self.action_size, self.action_bound = plugin.actions(self._env)
        self.observation_size = len(self.begin(0))

    def set_factor(self, factor: float) -> None:
        self._plugin.drift(self._env, factor)

    def begin(self, seed: int) -> Float64[np.ndarray, " O"]:
        first = self._env.reset(seed=seed)
        return _flat(first[0] if isinstance(first, tuple) else first, "the observation of `reset`")

    def advance(self, action: Float64[np.ndarray, " A"]) -> Advanced:
        observation, reward, terminated, truncated, *_ = self._env.step(action)
        seen = _flat(observation, "the observation of `step`")
        return Advanced(seen, float(reward), bool(terminated), bool(truncated))

    def save(self) -> Float64[np.ndarray, " S"]:
        return _flat(self._plugin.save(self._env), "what `save` returned")

    def restore(self, row: Float64[np.ndarray, " S"]) -> None:
        self._plugin.restore(self._env, row.copy())

    def parameters(self) -> dict[str, float]:
        return self._plugin.read(self._env)


def generator_numbers(generator: np.random.Generator) -> Float64[np.ndarray, " 10"]:
    """The state of NumPy's default generator, which is Gymnasium's, as numbers that a row can hold.

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
    words = [part >> shift & 0xFFFFFFFF for part in parts for shift in (0, 32, 64, 96)]
    return np.array([*words, state["has_uint32"], state["uinteger"]], np.float64)


def restore_generator(generator: np.random.Generator, numbers: Float64[np.ndarray, " 10"]) -> None:
    """Put back what `generator_numbers` returned."""
    words = [int(number) for number in numbers]
    whole = [sum(word << 32 * place for place, word in enumerate(words[at : at + 4])) for at in (0, 4)]
    generator.bit_generator.state = {
        "bit_generator": "PCG64",
        "state": {"state": whole[0], "inc": whole[1]},
        "has_uint32": words[8],
        "uinteger": words[9],
    }


def _flat(values: Any, what: str) -> Float64[np.ndarray, " n"]:
    """Numbers on one axis, as a copy."""
    array = np.array(values)
    if array.ndim != 1 or array.dtype.kind not in "biuf":
        raise WorldforkError(f"{what} is {array.dtype} of shape {array.shape}; expected numbers on one axis.")
    return array.astype(np.float64)
