"""The Environment contract: a batch of worlds whose whole state is data.

Axes: B environments, A actions, O observations, S numbers of physical state.
"""

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, Final, Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float64, Int8, Integer

from worldfork.errors import WorldforkError
from worldfork.registry import Plugin

Level = float | Float64[np.ndarray, " B"]
AfterEnd = Literal["reset", "wait"]  # of an episode that has ended: begin anew within it, or stay there
TERMINATED: Final = 1  # in `State.ended`: the task's own end, such as a fall
TRUNCATED: Final = 2  # a time limit of the simulator, after which the task would have gone on


@dataclasses.dataclass(frozen=True)
class State:
    """Everything that a batch of worlds is at one moment: copy it, slice it, save it, send it.

    The observation travels with the physics because some of it (a touch sensor, say) belongs to the step that
    led here and can not be computed again from the physics alone.
    """

    physics: Float64[np.ndarray, "B S"]
    observation: Float64[np.ndarray, "B O"]
    unstable: Bool[np.ndarray, " B"]  # the simulator has warned of divergence since reset
    # How the episode has ended, by the last step or one before it: 0 it goes on, 1 terminated, 2 truncated. None in
    # a world whose episodes do not end early.
    ended: Int8[np.ndarray, " B"] | None = None

    def __len__(self) -> int:
        return len(self.physics)

    @property
    def over(self) -> Bool[np.ndarray, " B"]:
        """True where the episode has ended."""
        return np.zeros(len(self), np.bool_) if self.ended is None else np.asarray(self.ended != 0)

    def __getitem__(self, index: slice | Integer[np.ndarray, " b"] | Bool[np.ndarray, " B"]) -> "State":
        """Return the worlds at `index` (a slice or an array), as copies."""
        arrays: dict[str, Any] = {
            name: None if values is None else np.array(values[index]) for name, values in vars(self).items()
        }
        return State(**arrays)


def concatenate(states: Sequence[State]) -> State:
    """Join several batches into one."""
    columns = {name: [getattr(state, name) for state in states] for name in vars(states[0])}
    arrays: dict[str, Any] = {
        name: None if values[0] is None else np.concatenate(values) for name, values in columns.items()
    }
    return State(**arrays)


def can_end(environment: Any) -> bool:
    """Return whether an episode may end before its last control step; none does in a world that does not say so."""
    return bool(getattr(environment, "can_end", False))


@runtime_checkable
class Environment(Protocol):
    """A batch of worlds. Pure: what a call returns depends on its arguments alone.

    A world whose episodes may end early says `can_end = True` and fills `State.ended` in `reset` and `step`. Once
    an episode has ended it stays as it is and earns nothing until it is reset.
    """

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def simulator(self) -> str:
        """The simulator and its version: part of a ledger's identity."""

    @property
    def parameter(self) -> str:
        """The parameter that drifts."""

    @property
    def observation_size(self) -> int:
        """Numbers of an observation, O."""

    @property
    def action_size(self) -> int:
        """Numbers of an action, A."""

    @property
    def action_bound(self) -> float:
        """Actions lie in [-action_bound, action_bound]; infinity where they are free."""

    @property
    def episode_steps(self) -> int:
        """Control steps per episode."""

    @property
    def action_repeat(self) -> int:
        """Environment steps per control step."""

    def reset(self, seeds: Integer[np.ndarray, " B"], level: Level = 0.0) -> State:
        """Return initial states: row b is a function of `seeds[b]` and the drift level, nothing else."""

    def step(
        self, state: State, action: Float64[np.ndarray, "B A"], level: Level = 0.0
    ) -> tuple[State, Float64[np.ndarray, "B O"], Float64[np.ndarray, " B"]]:
        """Take one control step at drift `level`; returns the next state, its observation, and the reward."""

    def read_back(self) -> dict[str, float]:
        """Return the physical parameters of the constructed simulator at level 0: they prove it clean."""

    def nominal(self) -> dict[str, float]:
        """Return these parameters by the world's definition, not by way of the simulator."""


def prove_clean(environment: Environment, *, level: float = 0.0, sigma_a: float = 0.0) -> dict[str, Any]:
    """Return the record of a clean world: what drifts, its nominal values, and those read from the simulator.

    Paper, "Environment and model": the trainer reads back the constructed environment to verify that no
    perturbation was active. Flags can lie, so the physical parameters themselves are read.
    `level` and `sigma_a` are those that pretraining is about to use. Anything but nominal physics is refused.
    """
    if level != 0.0 or sigma_a != 0.0:
        raise WorldforkError(
            f"Pretraining runs at level 0 and sigma_a 0; got level {level} and sigma_a {sigma_a}. "
            "A checkpoint that has seen drift or noise can not be forked."
        )
    nominal, read = environment.nominal(), environment.read_back()
    wrong = [name for name in nominal | read if nominal.get(name) != read.get(name)]
    if wrong:
        found = ", ".join(f"{name} is {read.get(name)}, not {nominal.get(name)}" for name in sorted(wrong))
        raise WorldforkError(
            f"The physics of {environment.name} is not clean: {found}. Load the task anew for pretraining."
        )
    return {
        "task": environment.name,
        "simulator": environment.simulator,
        "parameter": environment.parameter,
        "nominal": nominal,
        "read": read,
        "level": level,
        "sigma_a": sigma_a,
    }


class EnvironmentPlugin(Plugin):
    """An environment by its name; the fields of a subclass are the environment's settings."""

    # Scales of drift that `worldfork calibrate-drift` tries, from none on; empty where it has no registered grid.
    drift_grid: ClassVar[tuple[float, ...]] = ()

    @abc.abstractmethod
    def build(self, *, scale: float, threads: int) -> Environment:
        """Return the world. Drift level 1 multiplies the drifting parameter by `scale`; `threads` may step it."""
