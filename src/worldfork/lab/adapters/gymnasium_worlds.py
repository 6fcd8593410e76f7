"""MuJoCo worlds of Gymnasium: `environment = "gymnasium:HalfCheetah-v5"`, drifting in a field of the model.

Every step is Gymnasium's own, to the last bit of observation and reward. Gymnasium's rewards read what MuJoCo
derived one physics step earlier (`xpos` in Ant, `xipos` in Humanoid), which no state of MuJoCo's holds. So a row
keeps the state before the last physics step: restoring it takes that one step again, and everything is as it was,
derived quantities included. That step needs the physics it was first taken in, which the row keeps as well.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import mujoco
import numpy as np
from jaxtyping import Float64
from pydantic import model_validator

from worldfork.errors import WorldforkError
from worldfork.lab.adapters.model_fields import DriftingFields
from worldfork.lab.adapters.mujoco_worlds import (
    ChangingNumbers,
    ModelPlugin,
    ModelSimulation,
    quiet,
)
from worldfork.lab.environments.restorable import (
    WORDS,
    Advanced,
    generator_numbers,
    restore_generator,
)
from worldfork.lab.environments.simulators import WHOLE_STATE, stop_clock

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


class GymnasiumPlugin(ModelPlugin):
    """A MuJoCo environment of Gymnasium by its id; `arguments` are those of `gymnasium.make`.

    >>> from worldfork.lab.environments import load
    >>> load("gymnasium:Hopper-v5", scale=0.5, settings={"drift": "opt.gravity[2]"}).action_size
    3
    """

    packages = ("gymnasium", "mujoco", "numpy")
    limit_argument: ClassVar[str] = "max_episode_steps"

    id: str

    @model_validator(mode="before")
    @classmethod
    def _is_of_mujoco(cls, given: Any) -> Any:
        """Refuse another simulator's world before a model field of it is asked for."""
        if isinstance(given, dict) and isinstance(given.get("id"), str) and "drift" not in given:
            _require_gymnasiums_own_step(cls.model_construct(id=given["id"]).make().unwrapped)
        return given

    def make(self) -> Any:
        """Return the environment, with its wrappers. A subclass may register or wrap one of its own here."""
        gymnasium = _gymnasium()
        try:
            with quiet():
                return gymnasium.make(self.id, disable_env_checker=True, **self.arguments)
        except (gymnasium.error.Error, TypeError, ModuleNotFoundError) as error:
            raise WorldforkError(f"Gymnasium can not make `{self.id}`: {error}") from error

    def simulation(self, shares: Mapping[str, float]) -> "GymnasiumSimulation":
        return GymnasiumSimulation(self, shares)


class GymnasiumSimulation(ModelSimulation):
    """A MuJoCo environment of Gymnasium, made restorable.

    A row: 1 if the episode has just begun; the factor of its last physics step; the steps that time limits counted;
    the generator; numbers that the environment keeps; MuJoCo's state as the episode began, or before that step.
    """

    goes_on = True

    def __init__(self, plugin: GymnasiumPlugin, shares: Mapping[str, float]) -> None:
        stop_clock()
        self._plugin, self._shares, self.name, self.parameter = plugin, shares, plugin.id, ", ".join(shares)
        self.simulator = f"gymnasium {_gymnasium().__version__}, mujoco {mujoco.__version__}"
        self._env = plugin.make()
        self._inner: Any = self._env.unwrapped
        self._limits = _time_limits(self._env)
        self.limit = min((layer._max_episode_steps for layer in self._limits), default=None)
        never = plugin.id.startswith(ENDLESS) or plugin.arguments.get("terminate_when_unhealthy") is False
        self.can_end = not never
        _require_gymnasiums_own_step(self._inner)
        self.observation_size = _length(self._env.observation_space, "observations")
        _length(self._env.action_space, "actions")
        self._use_actions(self._env.action_space.low, self._env.action_space.high)
        self._use_model(self._inner.model, self._inner.data)
        self._fields = DriftingFields(self._model, shares)
        self._inner.do_simulation = self._simulate  # Gymnasium's, in two parts
        random = np.random.default_rng(0)
        snapshots = [look for seed in (0, 1) for look in self._tried(seed, random, self._inner, ignored=KNOWN)]
        self._changing = ChangingNumbers(snapshots, owner=type(self._inner).__name__)
        self.begin(0)  # Gymnasium refuses to step what was never reset

    def another(self) -> "GymnasiumSimulation":
        return GymnasiumSimulation(self._plugin, self._shares)

    def begin(self, seed: int) -> Float64[np.ndarray, " O"]:
        observation, _ = self._env.reset(seed=seed)
        self._draws = self._inner._np_random = WatchedGenerator(self._inner.np_random)
        self._data.warning.number[:] = 0
        self._begun = 1.0
        self._keep_physics()
        return np.array(observation, np.float64)

    def advance(self, action: Float64[np.ndarray, " A"]) -> Advanced:
        observation, reward, terminated, truncated, _ = self._env.step(self._to_library(action))
        failed = bool(self._data.warning.number.any())
        self._data.warning.number[:] = 0
        return Advanced(np.asarray(observation, np.float64), float(reward), terminated, truncated, failed)

    def save(self) -> Float64[np.ndarray, " S"]:
        if self._draws.used:
            self._words, self._draws.used = generator_numbers(self._draws.generator), False
        return np.concatenate(
            [
                [self._begun, self._factor, *(limit._elapsed_steps for limit in self._limits)],
                self._words,
                self._changing.read(self._inner),
                self._physics,
            ]
        )

    def restore(self, row: Float64[np.ndarray, " S"]) -> None:
        model, data, counted = self._model, self._data, 2 + len(self._limits)
        self._begun, self._factor = row[:2]
        self._physics = row[-self._physics.size :].copy()
        self._fields.set_factor(float(self._factor))
        for limit, steps in zip(self._limits, row[2:counted], strict=True):
            limit._elapsed_steps = int(steps)
        self._words, self._draws.used = row[counted : counted + WORDS].copy(), False
        restore_generator(self._draws.generator, self._words)
        self._changing.write(self._inner, row[counted + WORDS : -self._physics.size])
        if (
            self._begun
        ):  # as `reset` leaves it: placed, and gone through once; the second time restores the warm start
            mujoco.mj_resetData(model, data)
        mujoco.mj_setState(model, data, self._physics, WHOLE_STATE)
        if self._begun:
            mujoco.mj_forward(model, data)
            mujoco.mj_setState(model, data, self._physics, WHOLE_STATE)
        else:
            mujoco.mj_step(model, data)
            mujoco.mj_rnePostConstraint(model, data)
        data.warning.number[:] = 0

    def _simulate(self, ctrl: Any, n_frames: int) -> None:
        """Step the physics as Gymnasium does, but stop before the last part to keep the state there."""
        self._data.ctrl[:] = ctrl
        if n_frames > 1:
            mujoco.mj_step(self._model, self._data, n_frames - 1)
        self._begun = 0.0
        self._keep_physics()
        mujoco.mj_step(self._model, self._data)
        mujoco.mj_rnePostConstraint(self._model, self._data)

    def _keep_physics(self) -> None:
        """Keep the state that a row holds, and the factor of the physics that it is stepped in."""
        self._factor = self._fields.factor
        mujoco.mj_getState(self._model, self._data, self._physics, WHOLE_STATE)


class WatchedGenerator:
    """A generator that notes when it is used: to read its state at every step takes as long as some physics."""

    def __init__(self, generator: np.random.Generator) -> None:
        self.generator, self.used = generator, True

    def __getattr__(self, name: str) -> Any:
        self.used = True
        return getattr(self.generator, name)


def _gymnasium() -> Any:
    """Import Gymnasium, which the package does not depend on."""
    try:
        import gymnasium
        import gymnasium.envs.mujoco
    except ModuleNotFoundError as error:
        raise WorldforkError(
            f"Worlds of Gymnasium need `{error.name}`, which is not installed: pip install '.[lab,gymnasium]' in "
            "a clone of worldfork."
        ) from error
    return gymnasium


def _time_limits(env: Any) -> list[Any]:
    """Return the time limits among the wrappers; a wrapper whose state is not known to be kept is refused."""
    limits = []
    while env is not env.unwrapped:
        name = type(env).__name__
        if name not in (*STATELESS, TIME_LIMIT) or not type(env).__module__.startswith("gymnasium."):
            raise WorldforkError(
                f"The wrapper `{name}` may keep a state that a restored world would not have. Known to keep none: "
                f"{', '.join(STATELESS)}; `{TIME_LIMIT}` is restored. Leave it out, or do its work in the agent."
            )
        if name == TIME_LIMIT:
            limits.append(env)
        env = env.env
    return limits


def _require_gymnasiums_own_step(inner: Any) -> None:
    from gymnasium.envs.mujoco import MujocoEnv

    kind = type(inner)
    stepped_by_gymnasium = isinstance(inner, MujocoEnv) and all(
        getattr(kind, name) is getattr(MujocoEnv, name) for name in ("_step_mujoco_simulation", "do_simulation")
    )
    if not stepped_by_gymnasium:
        raise WorldforkError(
            f"`{kind.__name__}` is not stepped by gymnasium.envs.mujoco.MujocoEnv, so its state can not be "
            "restored from outside. Derive a class from `RestorablePlugin` with a pair of functions that save and "
            "restore it (docs/gymnasium.md#any-other-simulator)."
        )


def _length(space: Any, subject: str) -> int:
    """Return the length of a space of one axis; actions must be bounded."""
    shape = getattr(space, "shape", None)
    bounded = subject == "observations" or bool(np.isfinite(getattr(space, "high", np.inf)).all())
    if type(space).__name__ != "Box" or shape is None or len(shape) != 1 or not bounded:
        raise WorldforkError(f"Its {subject} are {space}; worldfork takes a Box of one axis, bounded for actions.")
    return int(shape[0])
