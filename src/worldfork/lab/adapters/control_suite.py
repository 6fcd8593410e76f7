"""Any task of the DeepMind Control Suite, through dm_control: `environment = "dm_control:ball_in_cup-catch"`.

Observations, rewards and initial states are dm_control's, to the last bit. A row holds MuJoCo's whole state with
the solver's warm start, what the task keeps, and the fields of the model that the task writes as an episode begins
(targets, terrain, wrapped parameters): both are found by trying. Sensors of the acceleration stage can not be
computed from a state, and need not be: the step that leads to a state reads them, and shows them with it.
"""

import copy
import difflib
import math
import os
import types
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import mujoco
import numpy as np
from jaxtyping import Float64

from worldfork.errors import WorldforkError
from worldfork.lab.adapters.model_fields import TRIAL, DriftingFields, model_numbers
from worldfork.lab.adapters.mujoco_worlds import (
    ChangingNumbers,
    ModelPlugin,
    ModelSimulation,
    quiet,
)
from worldfork.lab.environments.restorable import Advanced
from worldfork.lab.environments.simulators import WHOLE_STATE, stop_clock
from worldfork.lab.environments.suite import DM_CONTROL_VERSION, check_versions

UNTIMED: Final = 1_000  # environment steps of an episode where the task has no time limit, as most tasks' have


class ControlSuitePlugin(ModelPlugin):
    """A task of the Control Suite, as DOMAIN-TASK; `arguments` are the task's own, such as `time_limit` in seconds.

    >>> from worldfork.lab.environments import load
    >>> load("dm_control:pendulum-swingup", scale=0.5, settings={"drift": "opt.gravity[2]"}).observation_size
    3
    """

    packages = ("dm_control", "mujoco", "numpy")
    limit_argument: ClassVar[str] = "time_limit"

    task: str

    def make(self, random: np.random.RandomState) -> Any:
        """Return dm_control's environment of the task."""
        suite, (domain, _, task) = control_suite(), self.task.partition("-")
        if (domain, task) not in suite.ALL_TASKS:
            tasks = ["-".join(names) for names in suite.ALL_TASKS]
            near = difflib.get_close_matches(self.task, tasks, n=5, cutoff=0.4) or tasks[:5]
            raise WorldforkError(
                f"The Control Suite has no task `{self.task}`. It has {', '.join(near)} and "
                f"{len(tasks) - len(near)} others, which docs/control-suite.md lists."
            )
        try:
            with quiet():
                return suite.load(domain, task, task_kwargs={"random": random, **self.arguments})
        except TypeError as error:
            raise WorldforkError(f"dm_control can not make `{self.task}`: {error}") from error

    def simulation(self, shares: Mapping[str, float]) -> "ControlSuiteSimulation":
        return ControlSuiteSimulation(self, shares)


class ControlSuiteSimulation(ModelSimulation):
    """An environment of dm_control's, made restorable."""

    simulator = f"dm_control {DM_CONTROL_VERSION}, mujoco {mujoco.__version__}"

    def __init__(self, plugin: ControlSuitePlugin, shares: Mapping[str, float]) -> None:
        stop_clock()
        control = control_suite().control
        self._error = control.PhysicsError
        self._plugin, self.name, self.parameter = plugin, plugin.task, ", ".join(shares)
        random = np.random.RandomState(0)
        env = plugin.make(random)
        self.limit = math.ceil(env._step_limit) if math.isfinite(env._step_limit) else UNTIMED
        self.can_end = type(env.task).get_termination is not control.Task.get_termination
        self._substeps = round(env.control_timestep() / env.physics.timestep())
        self._use(env.physics, env.task)
        self._use_actions(env.action_spec().minimum, env.action_spec().maximum)
        # A model that is drawn itself, as the LQR tasks' are, is another one for each seed.
        self._drawn: list[str] = []
        if random.uniform() != np.random.RandomState(0).uniform():
            other = plugin.make(np.random.RandomState(1)).physics.model.ptr
            self._drawn = _different(_fields(self._model), _fields(other))
        self._find_what_changes(shares)
        self.observation_size = len(self.begin(0))

    def another(self) -> "ControlSuiteSimulation":
        other = copy.copy(self)
        other._use(self._dm_physics.copy(), copy.copy(self._task))
        other._fields = self._fields.of(other._model)
        return other

    def set_factor(self, factor: float) -> None:
        if factor == self._fields.factor:
            return
        # Constants that MuJoCo derives are those of the model as it was loaded, whatever episode it is in.
        written = self._written.read(self._model)
        self._written.write(self._model, self._loaded)
        self._fields.set_factor(factor)
        self._written.write(self._model, written)
        self._fields.write()
        self._derived = False

    def begin(self, seed: int) -> Float64[np.ndarray, " O"]:
        random = np.random.RandomState(seed)
        self._written.write(self._model, self._loaded)
        self._fields.write()
        if self._drawn:
            drawn = self._plugin.make(random).physics.model.ptr
            for name in self._drawn:
                getattr(self._model, name)[...] = getattr(drawn, name)
        self._task._random = random
        try:
            with self._dm_physics.reset_context():
                self._task.initialize_episode(self._dm_physics)
        except self._error as error:
            raise WorldforkError(
                f"`{self._plugin.task}` can not begin with seed {seed} where its drift is {self._fields.factor:g} "
                f"times nominal: {error}"
            ) from error
        self._task._random = NoDraws()
        self._derived = True
        return self._observation()

    def advance(self, action: Float64[np.ndarray, " A"]) -> Advanced:
        physics, task = self._dm_physics, self._task
        if not self._derived:  # dm_control's step begins with forces, from what the last one derived
            mujoco.mj_step1(self._model, self._data)
        self._derived = True
        task.before_step(self._to_library(action), physics)
        try:
            physics.step(self._substeps)
        except self._error:
            self._derived = False
            return Advanced(np.empty(0), 0.0, failed=True)
        task.after_step(physics)
        reward = float(task.get_reward(physics))
        return Advanced(self._observation(), reward, terminated=task.get_termination(physics) is not None)

    def save(self) -> Float64[np.ndarray, " S"]:
        mujoco.mj_getState(self._model, self._data, self._physics, WHOLE_STATE)
        return np.concatenate([self._kept.read(self._task), self._written.read(self._model), self._physics])

    def restore(self, row: Float64[np.ndarray, " S"]) -> None:
        kept, written = self._kept.size, self._kept.size + self._written.size
        self._kept.write(self._task, row[:kept])
        if self._written.size:
            self._written.write(self._model, row[kept:written])
            self._fields.write()
        mujoco.mj_setState(self._model, self._data, row[written:], WHOLE_STATE)
        self._derived = False

    def _use(self, physics: Any, task: Any) -> None:
        self._dm_physics, self._task = physics, task
        self._use_model(physics.model.ptr, physics.data.ptr)
        physics._make_rendering_contexts = lambda: None  # quadruped-escape would show its terrain to a renderer
        self._derived = False  # positions and velocities of everything, from the state and the present physics

    def _observation(self) -> Float64[np.ndarray, " O"]:
        shown = self._task.get_observation(self._dm_physics)
        return np.concatenate([np.ravel(part) for part in shown.values()], dtype=np.float64)

    def _find_what_changes(self, shares: Mapping[str, float]) -> None:
        """Run some episodes, nominal and drifted, and note which numbers of the task and the model are theirs."""
        nothing = ChangingNumbers([], owner="")
        self._kept, self._written, self._loaded = nothing, nothing, np.empty(0)
        self._fields = DriftingFields(self._model, {})
        loaded = _fields(self._model)
        kept, written, generator = [], [loaded], np.random.default_rng(0)
        for seed, factor in ((0, 1.0), (1, 1.0), (2, TRIAL)):
            if seed == 1:  # nominal is what the task makes of it: finger-spin sets a damping of its own
                self._fields = DriftingFields(self._model, shares)
            self._fields.set_factor(factor)
            before, drifting = _fields(self._model), self._fields.values()
            kept += self._tried(seed, generator, self._task)
            if self._fields.values() != drifting:
                raise WorldforkError(
                    f"`{self._plugin.task}` itself sets some of {', '.join(shares)} when an episode begins: name "
                    "other entries."
                )
            after = _fields(self._model)
            written.append(loaded | {name: after[name] for name in _different(before, after)})
        self._fields.set_factor(1.0)
        self._kept = ChangingNumbers(kept, owner=self._plugin.task)
        self._written = ChangingNumbers(written, owner=self._plugin.task)
        self._loaded = self._written.read(types.SimpleNamespace(**loaded))


class NoDraws:
    """A task's random numbers while it steps. No task of the suite draws any then, and no row would hold them."""

    def __getattr__(self, name: str) -> Any:
        raise WorldforkError(f"The task draws random numbers as it steps (`{name}`), which could not be restored.")


def control_suite() -> Any:
    """Import dm_control's suite, without a renderer unless MUJOCO_GL names one.

    >>> len(control_suite().ALL_TASKS)
    51
    """
    check_versions()
    asked = os.environ.get("MUJOCO_GL")
    try:
        os.environ.setdefault("MUJOCO_GL", "disabled")
        from dm_control import suite
    except ModuleNotFoundError as error:
        raise WorldforkError(
            f"The Control Suite needs `{error.name}`, which is not installed: pip install '.[lab]' in a "
            "clone of worldfork, and on "
            "Python 3.13 besides it dm_control without labmaze (docs/control-suite.md)."
        ) from error
    finally:
        if asked is None:
            del os.environ["MUJOCO_GL"]
    return suite


def _fields(model: Any) -> dict[str, np.ndarray]:
    """Return the model's own numbers, without its options."""
    return {name: values for (part, name), values in model_numbers(model).items() if not part}


def _different(before: Mapping[str, np.ndarray], after: Mapping[str, np.ndarray]) -> list[str]:
    return [name for name in before if not np.array_equal(before[name], after[name])]
