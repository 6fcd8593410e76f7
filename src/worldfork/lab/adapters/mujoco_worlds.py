"""Common parts of the doors to other people's MuJoCo worlds: Gymnasium's and dm_control's.

Settings, actions that are no interval around zero, and the numbers besides MuJoCo's own state that an episode
changes: they are found by trying, and travel with the state.
"""

import abc
import contextlib
import copy
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

import mujoco
import numpy as np
from jaxtyping import Float64
from pydantic import Field as Setting
from pydantic import field_validator

from worldfork.errors import WorldforkError
from worldfork.lab.adapters.model_fields import DriftingFields
from worldfork.lab.environments.base import EnvironmentPlugin
from worldfork.lab.environments.restorable import OneAtATime, Simulation
from worldfork.lab.environments.simulators import WHOLE_STATE, skip_islands

PROBED: Final = 5  # steps after which an episode has shown what it changes
UNLIMITED: Final = 1e10  # MuJoCo's largest number, which stands for no limit


class ModelSimulation(Simulation):
    """A simulation on one MuJoCo model, with the length of the library's episodes and its range of actions.

    Actions lie in an interval around zero if the library's do, else in [-1, 1], mapped to what the library's are.
    """

    limit: int | None  # environment steps of the library's episodes, where there is one
    _fields: DriftingFields

    def set_factor(self, factor: float) -> None:
        self._fields.set_factor(factor)

    def parameters(self) -> dict[str, float]:
        return self._fields.values() | {"timestep": float(self._model.opt.timestep)}

    def _use_model(self, model: Any, data: Any) -> None:
        self._model, self._data = model, data
        self._physics = np.empty(mujoco.mj_stateSize(model, WHOLE_STATE))  # room for MuJoCo's state
        skip_islands(model)

    def _use_actions(self, low: Any, high: Any) -> None:
        low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
        around_zero = bool((high == high[0]).all() and (low == -high).all())
        self.action_size = len(high)
        self.action_bound = 1.0 if not around_zero else float(high[0]) if high[0] < UNLIMITED else math.inf
        self._mapped = None if around_zero else ((high + low) / 2, (high - low) / 2)

    def _to_library(self, action: Float64[np.ndarray, " A"]) -> Float64[np.ndarray, " A"]:
        """Return the library's action for one of ours."""
        if self._mapped is None:
            return action
        centre, reach = self._mapped
        return centre + reach * action

    def _tried(
        self, seed: int, random: np.random.Generator, thing: Any, *, ignored: Sequence[str] = ()
    ) -> list[dict[str, Any]]:
        """Return the plain attributes of a thing as an episode begins, and after some random steps."""
        self.begin(seed)
        begun, reach = plain_attributes(thing, ignored=ignored), min(self.action_bound, 1.0)
        for _ in range(PROBED):
            self.advance(random.uniform(-reach, reach, self.action_size))
        return [begun, plain_attributes(thing, ignored=ignored)]


class ModelPlugin(EnvironmentPlugin):
    """Settings of a MuJoCo world of another library.

    `drift` names the model field that drifts, or several with the share of the drift that each takes: at level 1 a
    field of share s is nominal * (1 + s * (drift_scale - 1)).
    """

    limit_argument: ClassVar[str]  # that sets the library's time limit

    drift: str | dict[str, float]
    arguments: dict[str, Any] = {}  # passed on to the library
    action_repeat: int = Setting(default=1, ge=1)  # environment steps per control step
    episode_steps: int | None = Setting(default=None, ge=1)  # control steps; None: up to the library's time limit

    @field_validator("drift")
    @classmethod
    def _named(cls, drift: str | dict[str, float]) -> str | dict[str, float]:
        if isinstance(drift, dict) and not drift:
            raise ValueError('name at least one model field, such as "opt.gravity[2]"')
        return drift

    @abc.abstractmethod
    def simulation(self, shares: Mapping[str, float]) -> ModelSimulation:
        """Return a new simulation of the world, whose fields drift by these shares."""

    def build(self, *, scale: float, threads: int) -> OneAtATime:
        shares = {self.drift: 1.0} if isinstance(self.drift, str) else self.drift
        lowest = min(1.0 + share * (scale - 1.0) for share in shares.values())
        if not (math.isfinite(lowest) and lowest >= 0.0):
            raise WorldforkError(f"At level 1 it would have a field at {lowest:g} times its nominal value.")
        first = self.simulation(shares)
        limit = first.limit
        steps = self.episode_steps or (limit // self.action_repeat if limit else None)
        if steps is None:
            raise WorldforkError(
                f"`{first.name}` has no time limit: say how long an episode is with `episode_steps`."
            )
        if limit and steps * self.action_repeat > limit:
            raise WorldforkError(
                f"`{first.name}` ends after {limit} steps; {steps} control steps of {self.action_repeat} are more. "
                f"Make it longer with arguments = {{ {self.limit_argument} = ... }}."
            )
        return OneAtATime(
            lambda: self.simulation(shares),
            first=first,
            episode_steps=steps,
            action_repeat=self.action_repeat,
            scale=scale,
            threads=threads,
        )


class ChangingNumbers:
    """Those attributes of an object that episodes change, as numbers of a fixed count."""

    def __init__(self, snapshots: Sequence[Mapping[str, Any]], *, owner: str) -> None:
        """Find them in `snapshots` of the attributes, taken at different moments; what is no number is refused."""
        names = sorted({name for snapshot in snapshots for name in snapshot})
        self._kinds: dict[str, tuple[tuple[int, ...], Any]] = {}
        for name in names:
            values: list[Any] = [snapshot.get(name) for snapshot in snapshots]
            if all(_same(values[0], value) for value in values):
                continue
            kinds = {(np.shape(value), np.asarray(value).dtype) for value in values if _is_number(value)}
            if len(kinds) != 1 or not all(_is_number(value) for value in values):
                raise WorldforkError(
                    f"`{owner}` keeps `{name}` between steps, and it is not numbers of a fixed count: derive a "
                    "class from `RestorablePlugin` with a pair of functions that save and restore it "
                    "(docs/gymnasium.md#any-other-simulator)."
                )
            self._kinds[name] = next(iter(kinds))
        self.size = sum(math.prod(shape) for shape, _ in self._kinds.values())

    def read(self, thing: Any) -> Float64[np.ndarray, " K"]:
        """Return the numbers of this object, one after the other."""
        if not self._kinds:
            return np.empty(0)
        return np.concatenate([np.asarray(getattr(thing, name), np.float64).reshape(-1) for name in self._kinds])

    def write(self, thing: Any, numbers: Float64[np.ndarray, " K"]) -> None:
        """Set the object's attributes to these numbers."""
        place = 0
        for name, (shape, kind) in self._kinds.items():
            count = math.prod(shape)
            values = numbers[place : place + count].astype(kind).reshape(shape)
            setattr(thing, name, values if shape else values.item())
            place += count


def plain_attributes(thing: Any, *, ignored: Sequence[str] = ()) -> dict[str, Any]:
    """Return copies of what an object holds that is plain data."""
    plain = (bool, int, float, str, list, tuple, dict, set, np.ndarray, np.generic)
    held = {name: value for name, value in vars(thing).items() if name not in ignored and isinstance(value, plain)}
    return {name: copy.deepcopy(value) for name, value in held.items() if not name.startswith("_ezpickle_")}


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Leave out what MuJoCo says of deprecated words in the model files of others, every time one is compiled."""
    messages: list[str] = []
    mujoco.set_mju_user_warning(messages.append)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(None)
    for text in messages:
        if "deprecated" not in text:
            warnings.warn(text, stacklevel=3)


def _same(before: Any, after: Any) -> bool:
    """Return whether two values are equal, told by how they are written where they are not arrays."""
    if isinstance(before, np.ndarray) and isinstance(after, np.ndarray):
        return before.shape == after.shape and before.tobytes() == after.tobytes()
    return repr(before) == repr(after)


def _is_number(value: Any) -> bool:
    return not isinstance(value, str | list | tuple | dict | set) and np.asarray(value).dtype.kind in "biuf"
