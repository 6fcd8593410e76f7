"""Tasks of the Control Suite in batches: dm_control's semantics to the last bit, without a loop over worlds.

A task names its model, and says in batches what it draws, shows and rewards (`suite_tasks.py`). Of dm_control, the
model files alone are read.
"""

import abc
import importlib.metadata
import importlib.util
import math
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import mujoco
import numpy as np
from jaxtyping import Float64, Shaped

from worldfork.errors import WorldforkError
from worldfork.lab.environments import check
from worldfork.lab.environments.base import State
from worldfork.lab.environments.drift import factor
from worldfork.lab.environments.simulators import Fields, Simulators, skip_islands

HINGE = int(mujoco.mjtJoint.mjJNT_HINGE)


def random_pose(
    model: Any, random: np.random.RandomState, *, free_hinges: bool = True
) -> Float64[np.ndarray, " q"]:
    """Draw joints with limits within them, and free hinges at any angle; others are as the model has them."""
    pose = model.qpos0.copy()
    limited = model.jnt_limited == 1
    low = np.where(limited, model.jnt_range[:, 0], -np.pi)
    high = np.where(limited, model.jnt_range[:, 1], np.pi)
    drawn = limited | (free_hinges & (model.jnt_type == HINGE))
    pose[drawn] = random.uniform(low[drawn], high[drawn])
    return pose


Values = Float64[np.ndarray, "*n"]


def beyond(value: Values, *, lower: float, upper: float = math.inf, margin: float = 1.0) -> Values:
    """Return the distance from [lower, upper] in margins; 0 inside."""
    return np.maximum(np.maximum(lower - value, value - upper), 0.0) / margin


def gaussian(distance: Values, *, at_one: float = 0.1) -> Values:
    """Fall from 1 like a bell, to `at_one` at distance 1."""
    return np.exp(-0.5 * (distance * math.sqrt(-2.0 * math.log(at_one))) ** 2)


def linear(distance: Values, *, at_one: float) -> Values:
    """Fall from 1 along a line, to `at_one` at distance 1 and to 0 beyond."""
    return np.maximum(1.0 - distance * (1.0 - at_one), 0.0)


def quadratic(distance: Values) -> Values:
    """Fall from 1 like a parabola, to 0 at distance 1."""
    return np.maximum(1.0 - distance**2, 0.0)


MUJOCO_VERSION: Final = "3.17.0"
DM_CONTROL_VERSION: Final = "1.0.50"
COMMON: Final = ("common/materials.xml", "common/skybox.xml", "common/visual.xml")


def read_model(xml: str) -> tuple[str, dict[str, bytes]]:
    """Return a suite model as it is published, for a renderer: its XML and the files it includes.

    >>> text, included = read_model("walker.xml")
    >>> sorted(included)
    ['./common/materials.xml', './common/skybox.xml', './common/visual.xml']
    """
    folder = suite_folder()
    return (folder / xml).read_text(), {f"./{name}": (folder / name).read_bytes() for name in COMMON}


def compile_model(xml: str) -> Any:
    """Return a suite model for stepping: the same physics to the last bit, without what nobody reads."""
    check_versions()
    text, included = read_model(xml)
    spec = mujoco.MjSpec.from_string(text, include=included)
    for texture in spec.textures:
        texture.width = texture.height = 2
    for element in (*spec.cameras, *spec.lights):  # they follow the body, in every physics step
        spec.delete(element)
    # Per simulation; the default is 13 MB of address space, the four tasks use 18 KB.
    spec.memory = 1 << 20
    model = compiled(spec)
    model.opt.enableflags &= ~int(mujoco.mjtEnableBit.mjENBL_ENERGY)  # cartpole.xml asks for it
    skip_islands(model)
    return model


def compiled(spec: Any) -> Any:
    """Compile a model from its specification, without MuJoCo's advice to the suite's authors."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*settotalmass.*")  # cheetah.xml, as published
        return spec.compile()


def check_versions() -> None:
    """Refuse a pair of mujoco and dm_control that is not the one whose physics was verified."""
    try:
        dm_control = importlib.metadata.version("dm_control")
    except importlib.metadata.PackageNotFoundError:
        dm_control = DM_CONTROL_VERSION  # only the XML files are here: nothing to disagree with
    if (mujoco.__version__, dm_control) != (MUJOCO_VERSION, DM_CONTROL_VERSION):
        raise WorldforkError(
            f"The tasks need mujoco {MUJOCO_VERSION} with dm_control {DM_CONTROL_VERSION}; found mujoco "
            f"{mujoco.__version__} with dm_control {dm_control}. Other pairs crash or differ by rounding, which "
            f"chaos makes visible. Run: pip install mujoco=={MUJOCO_VERSION} dm_control=={DM_CONTROL_VERSION}"
        )


def suite_folder() -> Path:
    """Return the folder of dm_control's suite; dm_control itself is not imported."""
    spec = importlib.util.find_spec("dm_control")
    for location in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(location) / "suite"
        if all((folder / name).is_file() for name in COMMON):
            return folder
    raise WorldforkError(
        "The Control Suite's model files were not found: no folder dm_control/suite with common/*.xml is on the "
        f"Python path. Run: pip install --no-deps dm_control=={DM_CONTROL_VERSION}"
    )


Randomness = np.random.RandomState  # the generator dm_control draws initial states from
Numbers = float | Shaped[np.ndarray, "..."]  # shapes are checked below, with a message for the user


class SuiteEnvironment(abc.ABC):
    """A task of the suite. Calls are pure: simulators are kept only to save time."""

    name: ClassVar[str]
    xml: ClassVar[str]
    substeps: ClassVar[int]  # physics steps per environment step
    parameter: ClassVar[Literal["gravity", "friction"]]  # what drifts
    derived: ClassVar[tuple[str, ...]]  # MjData fields that `observe` and `reward` read, besides the state
    settling_steps: ClassVar[int] = 0  # physics steps before an episode begins

    action_bound = 1.0
    episode_steps = 250
    action_repeat = 4
    simulator = f"mujoco {mujoco.__version__}"

    def __init__(self, *, scale: float, threads: int) -> None:
        self.scale = check.scale(scale)
        self.model: Any = compile_model(self.xml)
        self.action_size = int(self.model.nu)
        self._simulators = Simulators(
            self.model, derived=self.derived, substeps=self.substeps, parameter=self.parameter, threads=threads
        )
        # One caller at a time: the simulators are a scratchpad.
        self._lock = threading.Lock()
        self.observation_size = next(self._begin([(0, 1.0)]))[1].size

    @abc.abstractmethod
    def draw(self, random: Randomness) -> tuple[Float64[np.ndarray, " q"], Float64[np.ndarray, " v"]]:
        """Draw positions and velocities of an initial state, in dm_control's order."""

    @abc.abstractmethod
    def observe(self, fields: Fields) -> Float64[np.ndarray, "n O"]:
        """Return dm_control's observations, in its order."""

    @abc.abstractmethod
    def reward(self, fields: Fields) -> Float64[np.ndarray, " n"]:
        """Return dm_control's reward of an environment step."""

    def reset(self, seeds: Shaped[np.ndarray, "..."], level: Numbers = 0.0) -> State:
        """Return dm_control's initial states for `random=seed`, in the physics of `level`.

        The physics matters: warm starts, and the fall that precedes cheetah's episodes, depend on it.
        """
        numbers = check.seeds(seeds)
        factors = factor(check.level(level, len(numbers)), self.scale)
        keys = list(zip(numbers.tolist(), factors.tolist(), strict=True))
        different = list(dict.fromkeys(keys))  # UPDATE and HOLD begin alike
        with self._lock:
            begun = dict(zip(different, self._begin(different), strict=True))
        physics, observation, unstable = ([begun[key][part] for key in keys] for part in range(3))
        return State(
            np.array(physics).reshape(len(keys), self._simulators.state_size),
            np.array(observation).reshape(len(keys), self.observation_size),
            np.array(unstable, np.bool_),
        )

    def step(
        self, state: State, action: Shaped[np.ndarray, "..."], level: Numbers = 0.0
    ) -> tuple[State, Float64[np.ndarray, "B O"], Float64[np.ndarray, " B"]]:
        """Take four environment steps with one action; the reward is the sum of their rewards.

        A world in which the simulator warns of divergence is marked `unstable`. It earns nothing from that
        environment step on and its observation is finite; its neighbours never notice. dm_control would raise.
        """
        batch = len(state)
        check.state(state, physics_size=self._simulators.state_size, observation_size=self.observation_size)
        controls = check.action(action, (batch, self.action_size))
        factors = factor(check.level(level, batch), self.scale)
        physics = np.empty_like(state.physics)
        observation = np.empty_like(state.observation)
        unstable = state.unstable.copy()
        reward = np.zeros(batch)
        worlds = self._simulators
        with self._lock, np.errstate(all="ignore"):  # a diverging world may overflow; it is marked, not raised
            for part in self._parts(batch):
                worlds.load(state.physics[part], controls[part], factors[part])
                warnings = np.empty((self.action_repeat, *worlds.warnings.shape), np.int32)
                earned = np.empty(warnings.shape[:2])
                for step in range(self.action_repeat):
                    warnings[step] = worlds.step()
                    earned[step] = self.reward(worlds.fields)
                # Once per control step, not once per environment step: one world's time goes into calling NumPy.
                lost = warnings.any(axis=2) | ~np.isfinite(earned) | unstable[part]
                lost = np.logical_or.accumulate(lost)
                earned[lost] = 0.0
                reward[part] += np.add.accumulate(earned)[-1]  # in their order
                unstable[part] = lost[-1]
                physics[part] = worlds.rows
                observation[part] = self.observe(worlds.fields)
        shown = np.isfinite(observation)
        unstable |= ~shown.all(axis=1)
        observation[~shown] = 0.0
        return State(physics, observation, unstable), observation.copy(), reward

    def read_back(self) -> dict[str, float]:
        """Return gravity, every geom's sliding friction and the time step, as simulators hold them at level 0."""
        with self._lock:
            return physical_parameters(self._simulators.model_at(factor(np.zeros(1), self.scale)))

    def nominal(self) -> dict[str, float]:
        """Return these parameters as the published model states them, compiled anew."""
        return physical_parameters(compile_model(self.xml))

    def model_xml(self) -> tuple[str, dict[str, bytes]]:
        """Return the published model and the files it includes, textures and all, to render or read a state."""
        return read_model(self.xml)

    def _begin(self, keys: list[tuple[int, float]]) -> Iterator[tuple[np.ndarray, np.ndarray, bool]]:
        """Make initial states for (seed, factor), as many at a time as there are simulators."""
        random = Randomness(0)
        for part in self._parts(len(keys)):
            drawn = []
            for seed, _ in keys[part]:
                random.seed(seed)  # as a new Randomness(seed), which would gather entropy first
                drawn.append(self.draw(random))
            unstable = self._simulators.begin(
                np.array([qpos for qpos, _ in drawn]),
                np.array([qvel for _, qvel in drawn]),
                np.array([factor for _, factor in keys[part]]),
                settling_steps=self.settling_steps,
            )
            with np.errstate(all="ignore"):  # a diverging world may overflow; it is marked, not raised
                shown = self.observe(self._simulators.fields)
            shown[~np.isfinite(shown)] = 0.0
            yield from zip(self._simulators.rows.copy(), shown, unstable.tolist(), strict=True)

    def _parts(self, batch: int) -> Iterator[slice]:
        size = self._simulators.reserve(batch)
        return (slice(start, min(start + size, batch)) for start in range(0, batch, size))


def physical_parameters(model: Any) -> dict[str, float]:
    """Return what could drift, by name."""
    values = {f"gravity.{axis}": float(value) for axis, value in zip("xyz", model.opt.gravity, strict=True)}
    for geom in range(model.ngeom):
        values[f"friction.{model.geom(geom).name}"] = float(model.geom_friction[geom, 0])
    return values | {"timestep": float(model.opt.timestep)}
