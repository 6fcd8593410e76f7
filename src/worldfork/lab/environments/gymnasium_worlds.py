"""MuJoCo worlds of Gymnasium: `environment = "gymnasium:HalfCheetah-v5"`, drifting in a field of the model.

Every step is Gymnasium's own, to the last bit of observation and reward. Gymnasium's rewards read what MuJoCo
derived one physics step earlier (`xpos` in Ant, `xipos` in Humanoid), which no state of MuJoCo's holds. So a row
keeps the state before the last physics step: restoring it takes that one step again, and everything is as it was,
derived quantities included. That step needs the physics it was first taken in, which the row keeps as well.
"""

import contextlib
import copy
import math
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
from jaxtyping import Float64
from pydantic import Field as Setting
from pydantic import field_validator

from worldfork.errors import WorldforkError
from worldfork.lab.environments.base import EnvironmentPlugin
from worldfork.lab.environments.one_at_a_time import Advanced, OneAtATime, Simulation
from worldfork.lab.environments.restorable import WORDS, generator_numbers, restore_generator

__all__ = ["GymnasiumPlugin"]

# Wrappers without a state, and the one whose state is a count that rows keep. Any other is refused by name.
STATELESS: Final = (
    "OrderEnforcing",
    "PassiveEnvChecker",
    "ClipAction",
    "ClipReward",
    "DtypeObservation",
    "FilterObservation",
    "FlattenObservation",
    "RescaleAction",
    "RescaleObservation",
)
TIME_LIMIT: Final = "TimeLimit"
# Environments whose tasks have no end of their own; an episode is never longer than their time limit.
ENDLESS: Final = ("HalfCheetah-", "HumanoidStandup-", "Pusher-", "Reacher-", "Swimmer-")
# Attributes of an environment that are no state of its own, or are kept by other means.
KNOWN: Final = ("model", "data", "_np_random", "_np_random_seed", "mujoco_renderer", "spec")
PROBED: Final = 5  # steps after which an environment has shown which attributes it changes


class GymnasiumPlugin(EnvironmentPlugin):
    """A MuJoCo environment of Gymnasium by its id.

    `drift` names what drifts, or several fields with the share of the drift that each takes: at level 1 a field of
    share s is nominal * (1 + s * (drift_scale - 1)).
    """

    packages = ("gymnasium", "mujoco", "numpy")

    id: str
    drift: str | dict[str, float]
    arguments: dict[str, Any] = {}  # of gymnasium.make, such as terminate_when_unhealthy = false
    action_repeat: int = Setting(default=1, ge=1)
    episode_steps: int | None = Setting(default=None, ge=1)  # control steps; None: up to the time limit

    @field_validator("drift")
    @classmethod
    def _named(cls, drift: str | dict[str, float]) -> str | dict[str, float]:
        if isinstance(drift, dict) and not drift:
            raise ValueError('name at least one model field, such as "opt.gravity[2]"')
        return drift

    def make(self) -> Any:
        """The environment, with its wrappers. A subclass may register or wrap one of its own here."""
        gymnasium = _gymnasium()
        try:
            with _without_deprecations():
                return gymnasium.make(self.id, disable_env_checker=True, **self.arguments)
        except (gymnasium.error.Error, TypeError, ModuleNotFoundError) as error:
            raise WorldforkError(f"Gymnasium can not make `{self.id}`: {error}") from error

    def build(self, *, scale: float, threads: int) -> OneAtATime:
        shares = {self.drift: 1.0} if isinstance(self.drift, str) else self.drift
        lowest = min(1.0 + share * (scale - 1.0) for share in shares.values())
        if not (math.isfinite(lowest) and lowest >= 0.0):
            raise WorldforkError(
                f"At level 1 `{self.id}` would have a field at {lowest:g} times its nominal value."
            )
        limit = _time_limit(self.make())
        steps = self.episode_steps or (limit // self.action_repeat if limit else None)
        if steps is None:
            raise WorldforkError(f"`{self.id}` has no time limit: say how long an episode is with `episode_steps`.")
        if limit and steps * self.action_repeat > limit:
            raise WorldforkError(
                f"`{self.id}` ends after {limit} steps; {steps} control steps of {self.action_repeat} are more. "
                "Make it longer with arguments = { max_episode_steps = ... }."
            )
        return OneAtATime(
            lambda: GymnasiumSimulation(self.make(), shares),
            name=self.id,
            simulator=_versions(),
            parameter=", ".join(shares),
            episode_steps=steps,
            action_repeat=self.action_repeat,
            scale=scale,
            threads=threads,
            can_end=not (self.id.startswith(ENDLESS) or self.arguments.get("terminate_when_unhealthy") is False),
        )


class GymnasiumSimulation(Simulation):
    """One MuJoCo environment of Gymnasium, made restorable."""

    def __init__(self, env: Any, shares: Mapping[str, float]) -> None:
        import mujoco

        from worldfork.lab.environments.model_fields import DriftingFields
        from worldfork.lab.environments.simulators import stop_clock

        stop_clock()
        self._mujoco = mujoco
        self._env, self._inner = env, env.unwrapped
        self._limits = _checked_wrappers(env)
        _require_gymnasiums_own_step(self._inner)
        self.observation_size = _length(env.observation_space, "observations")
        self.action_size = _length(env.action_space, "actions")
        low, high = env.action_space.low.astype(np.float64), env.action_space.high.astype(np.float64)
        same = bool((high == high[0]).all() and (low == -high).all())
        # A box that is not one interval around zero is reached from [-1, 1].
        self._centre: Any = None if same else (high + low) / 2
        self._reach: Any = None if same else (high - low) / 2
        self.action_bound = float(high[0]) if same else 1.0
        self._whole = int(mujoco.mjtState.mjSTATE_INTEGRATION)
        self._size = int(mujoco.mj_stateSize(self._inner.model, self._whole))
        self._fields = DriftingFields(self._inner.model, shares)
        self._inner._step_mujoco_simulation = self._simulate  # Gymnasium's, in two parts
        self._before_last: np.ndarray | None = None
        self._last_factor = 1.0
        self._attributes = self._changing_attributes()

    def set_factor(self, factor: float) -> None:
        self._fields.set_factor(factor)

    def begin(self, seed: int) -> Float64[np.ndarray, " O"]:
        self._before_last = None
        observation, _ = self._env.reset(seed=seed)
        return np.array(observation, np.float64)

    def advance(self, action: Float64[np.ndarray, " A"]) -> Advanced:
        if self._centre is not None:
            action = self._centre + self._reach * action
        data = self._inner.data
        data.warning.number[:] = 0
        with np.errstate(all="ignore"):  # a diverging world may overflow; it is marked, not raised
            observation, reward, terminated, truncated, _ = self._env.step(action)
        failed = bool(data.warning.number.any())
        return Advanced(np.array(observation, np.float64), float(reward), bool(terminated), bool(truncated), failed)

    def save(self) -> Float64[np.ndarray, " S"]:
        begun = self._before_last is None
        physics = self._state() if self._before_last is None else self._before_last
        steps = [float(limit._elapsed_steps) for limit in self._limits]
        kept = [np.asarray(getattr(self._inner, name), np.float64).reshape(-1) for name in self._attributes]
        fixed = [float(begun), self._fields.factor if begun else self._last_factor, *steps]
        return np.concatenate([fixed, generator_numbers(self._inner.np_random), *kept, physics])

    def restore(self, row: Float64[np.ndarray, " S"]) -> None:
        mujoco, model, data = self._mujoco, self._inner.model, self._inner.data
        begun, physics = bool(row[0]), row[-self._size :]
        self._fields.set_factor(float(row[1]))
        for limit, steps in zip(self._limits, row[2:], strict=False):
            limit._elapsed_steps = int(steps)
        rest = row[2 + len(self._limits) : -self._size]
        restore_generator(self._inner.np_random, rest[:WORDS])
        place = WORDS
        for name, (shape, kind) in self._attributes.items():
            count = math.prod(shape)
            values = rest[place : place + count].astype(kind).reshape(shape)
            setattr(self._inner, name, values if shape else values.item())
            place += count
        if begun:  # as `reset` leaves it: placed, and gone through once; the second time restores the warm start
            mujoco.mj_resetData(model, data)
            mujoco.mj_setState(model, data, physics, self._whole)
            mujoco.mj_forward(model, data)
            mujoco.mj_setState(model, data, physics, self._whole)
            self._before_last = None
        else:
            mujoco.mj_setState(model, data, physics, self._whole)
            mujoco.mj_step(model, data)
            mujoco.mj_rnePostConstraint(model, data)
            self._before_last, self._last_factor = physics.copy(), float(row[1])

    def parameters(self) -> dict[str, float]:
        return self._fields.values() | {"timestep": float(self._inner.model.opt.timestep)}

    def _simulate(self, ctrl: Any, n_frames: int) -> None:
        """Gymnasium's step of the physics, which stops before the last part to keep the state there."""
        mujoco, model, data = self._mujoco, self._inner.model, self._inner.data
        data.ctrl[:] = ctrl
        if n_frames > 1:
            mujoco.mj_step(model, data, nstep=n_frames - 1)
        self._before_last, self._last_factor = self._state(), self._fields.factor
        mujoco.mj_step(model, data)
        mujoco.mj_rnePostConstraint(model, data)

    def _state(self) -> np.ndarray:
        state = np.empty(self._size)
        self._mujoco.mj_getState(self._inner.model, self._inner.data, state, self._whole)
        return state

    def _changing_attributes(self) -> dict[str, tuple[tuple[int, ...], Any]]:
        """The environment's own attributes that episodes change, with shape and type; they are part of a row.

        What changes and is not numbers of a fixed count is refused by name.
        """
        seen = []
        generator = np.random.default_rng(0)
        for seed in (0, 1):
            self.begin(seed)
            seen.append(_plain_attributes(self._inner))
            for _ in range(PROBED):
                self.advance(generator.uniform(-self.action_bound, self.action_bound, self.action_size))
            seen.append(_plain_attributes(self._inner))
        names = sorted(set().union(*seen))
        changed = [name for name in names if any(not _same(seen[0].get(name), later.get(name)) for later in seen)]
        kinds: dict[str, tuple[tuple[int, ...], Any]] = {}
        for name in changed:
            kind = _fixed_numbers([values.get(name, "") for values in seen])
            if kind is None:
                raise WorldforkError(
                    f"`{type(self._inner).__name__}` keeps `{name}` between steps, and it is not numbers of a "
                    "fixed count: bring the environment with a pair of functions that save and restore it "
                    "(worldfork.lab.environments.restorable)."
                )
            kinds[name] = kind
        return kinds


def _gymnasium() -> Any:
    try:
        import gymnasium
        import gymnasium.envs.mujoco
    except ModuleNotFoundError as error:
        raise WorldforkError(
            f"Worlds of Gymnasium need `{error.name}`, which is not installed: pip install 'worldfork[gymnasium]'."
        ) from error
    return gymnasium


@contextlib.contextmanager
def _without_deprecations() -> Iterator[None]:
    """Gymnasium's model files use words that MuJoCo will drop, which it says every time one is compiled."""
    import mujoco

    messages: list[str] = []
    mujoco.set_mju_user_warning(messages.append)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(None)
    for text in messages:
        if "deprecated" not in text:
            warnings.warn(text, stacklevel=3)


def _versions() -> str:
    import gymnasium
    import mujoco

    return f"gymnasium {gymnasium.__version__}, mujoco {mujoco.__version__}"


def _wrappers(env: Any) -> list[Any]:
    layers = []
    while env is not env.unwrapped:
        layers.append(env)
        env = env.env
    return layers


def _checked_wrappers(env: Any) -> list[Any]:
    """The time limits among the wrappers; a wrapper whose state is not known to be kept is refused."""
    layers = _wrappers(env)
    for layer in layers:
        name = type(layer).__name__
        if name not in (*STATELESS, TIME_LIMIT) or not type(layer).__module__.startswith("gymnasium."):
            raise WorldforkError(
                f"The wrapper `{name}` may keep a state that a restored world would not have. Known to keep none: "
                f"{', '.join(STATELESS)}; `{TIME_LIMIT}` is restored. Leave it out, or do its work in the agent."
            )
    return [layer for layer in layers if type(layer).__name__ == TIME_LIMIT]


def _time_limit(env: Any) -> int | None:
    return min((layer._max_episode_steps for layer in _checked_wrappers(env)), default=None)


def _require_gymnasiums_own_step(inner: Any) -> None:
    from gymnasium.envs.mujoco import MujocoEnv

    kind = type(inner)
    own = isinstance(inner, MujocoEnv) and all(
        getattr(kind, name) is getattr(MujocoEnv, name) for name in ("_step_mujoco_simulation", "do_simulation")
    )
    if not own:
        raise WorldforkError(
            f"`{kind.__name__}` is not stepped by gymnasium.envs.mujoco.MujocoEnv, so its state can not be "
            "restored from outside. Bring it with a pair of functions that save and restore it "
            "(worldfork.lab.environments.restorable)."
        )


def _length(space: Any, what: str) -> int:
    shape = getattr(space, "shape", None)
    bounded = what == "observations" or bool(np.isfinite(getattr(space, "high", np.inf)).all())
    if type(space).__name__ != "Box" or shape is None or len(shape) != 1 or not bounded:
        raise WorldforkError(f"Its {what} are {space}; worldfork takes a Box of one axis, bounded for actions.")
    return int(shape[0])


def _plain_attributes(inner: Any) -> dict[str, Any]:
    """Copies of what an environment holds that is plain data."""
    plain = (bool, int, float, str, list, tuple, dict, set, np.ndarray, np.generic)
    held = {name: value for name, value in vars(inner).items() if name not in KNOWN and isinstance(value, plain)}
    return {name: copy.deepcopy(value) for name, value in held.items() if not name.startswith("_ezpickle_")}


def _same(before: Any, after: Any) -> bool:
    """Whether two values of an attribute are the same, told by how they are written where they are not arrays."""
    if isinstance(before, np.ndarray) and isinstance(after, np.ndarray):
        return before.shape == after.shape and before.tobytes() == after.tobytes()
    return repr(before) == repr(after)


def _fixed_numbers(values: list[Any]) -> tuple[tuple[int, ...], Any] | None:
    """The one shape and type that these values have; None where they are not numbers of a fixed count."""
    if any(isinstance(value, str | list | tuple | dict | set) for value in values):
        return None
    kinds = {(np.shape(value), np.asarray(value).dtype) for value in values}
    shape, kind = next(iter(kinds))
    return (shape, kind) if len(kinds) == 1 and kind.kind in "biuf" else None
