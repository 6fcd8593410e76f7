"""Tasks of the Control Suite are dm_control's to the last bit, and restorable: at any drift, in any batch."""

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import worldfork as wf
from worldfork import registry
from worldfork.errors import WorldforkError
from worldfork.lab.adapters.control_suite import ControlSuitePlugin, control_suite
from worldfork.lab.adapters.model_fields import parse_field
from worldfork.lab.agents.stateful import save_checkpoint
from worldfork.lab.environments import EnvironmentPlugin, State, concatenate, load
from worldfork.testing import check_environment

SCALE = 0.5
MASS, GRAVITY = "body_mass[1:]", "opt.gravity[2]"
SEEDS = np.array([3, 8, 11])
# A target in the model, a terrain, wrapped parameters, a model drawn for each seed, sensors of forces, an attribute
# that depends on gravity, and the runge-kutta integrator, which takes another step.
TELLING = [
    "ball_in_cup-catch",
    "finger-turn_hard",
    "lqr-lqr_2_1",
    "manipulator-insert_peg",
    "point_mass-hard",
    "quadruped-escape",
    "reacher-hard",
    "stacker-stack_2",
]
EVERY = ["-".join(names) for names in control_suite().ALL_TASKS]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MuJoCo writes its warnings into a file in the current folder."""
    monkeypatch.chdir(tmp_path)


class Original:
    """An environment of dm_control's, used as its users use it; drift is written into its model by hand."""

    def __init__(self, name: str, drift: str, seed: int, level: float) -> None:
        self.env = control_suite().load(*name.split("-"), task_kwargs={"random": seed})
        self.env.physics._make_rendering_contexts = lambda: None
        self.model, self.data = self.env.physics.model.ptr, self.env.physics.data.ptr
        self.field = parse_field(drift, self.model)
        self.nominal, self.level = self.field.read(self.model), 0.0
        self.set(level)
        self.observation = self.shown(self.env.reset())

    def set(self, level: float) -> None:
        """Change the physics; what the last step derived for the next one follows it."""
        if level != self.level:
            self.field.write(self.model, np.asarray(self.nominal * (1.0 + level * (SCALE - 1.0))))
            mujoco.mj_step1(self.model, self.data)
        self.level = level

    def step(self, action: np.ndarray, level: float) -> tuple[np.ndarray, float]:
        self.set(level)
        spec = self.env.action_spec()
        if (spec.minimum != -spec.maximum).any() or (spec.maximum != spec.maximum[0]).any():
            action = (spec.maximum + spec.minimum) / 2 + (spec.maximum - spec.minimum) / 2 * action
        after = self.env.step(action)
        return self.shown(after), float(after.reward)

    def shown(self, after: Any) -> np.ndarray:
        return np.concatenate([np.ravel(part) for part in after.observation.values()])


def stepped_and_restored(world: Any, state: State, action: np.ndarray, level: np.ndarray) -> Any:
    """Step a state, perhaps in simulators that hold it still; and again, in others that it is restored into."""
    first, _, earned = world.step(state, action, level)
    again, _, earned_again = world.step(state, action, level)
    assert np.array_equal(first.physics, again.physics)
    assert np.array_equal(first.observation, again.observation)
    assert np.array_equal(earned, earned_again)
    return first, earned


def same_as_dm_control(name: str, drift: str, levels: np.ndarray, *, threads: int = 2) -> None:
    """Step the worlds of `levels` [T, B] in shuffled batches beside dm_control."""
    world = load(f"dm_control:{name}", scale=SCALE, threads=threads, settings={"drift": drift})
    seeds, random = SEEDS[: levels.shape[1]], np.random.default_rng(1)
    originals = [Original(name, drift, int(seed), levels[0, row]) for row, seed in enumerate(seeds)]
    state = world.reset(seeds, levels[0])
    assert np.array_equal(state.observation, [original.observation for original in originals])
    for step, level in enumerate(levels):
        action = random.uniform(-1, 1, (len(seeds), world.action_size))
        order = random.permutation(len(seeds))
        parts = [part for part in (order[:1], order[1:]) if len(part)]
        stepped = [stepped_and_restored(world, state[part], action[part], level[part]) for part in parts]
        back = np.argsort(order)
        state = concatenate([after for after, _ in stepped])[back]
        reward = np.concatenate([earned for _, earned in stepped])[back]
        for row, original in enumerate(originals):
            observation, earned = original.step(action[row], float(level[row]))
            assert np.array_equal(state.observation[row], observation), (name, step, row)
            assert reward[row] == earned, (name, step, row)
    assert not state.unstable.any()


@pytest.mark.parametrize("name", TELLING)
def test_steps_are_dm_controls_own(name: str) -> None:
    same_as_dm_control(name, MASS, np.zeros((12, 2)))


@pytest.mark.nightly
@pytest.mark.parametrize("name", EVERY)
def test_every_task_is_dm_controls_own(name: str) -> None:
    same_as_dm_control(name, MASS, np.zeros((60, 3)))


@pytest.mark.parametrize(
    ("name", "drift"),
    [
        ("ball_in_cup-catch", GRAVITY),
        ("finger-spin", 'geom_friction["cap1", 0]'),
        ("pendulum-swingup", "actuator_gear[:, 0]"),
        pytest.param("dog-stand", GRAVITY, marks=pytest.mark.nightly),  # keeps heights, and a weight
    ],
)
def test_drifting_physics_is_dm_controls(name: str, drift: str) -> None:
    moving = np.linspace(0.0, 1.0, 12)  # drifts at every step
    same_as_dm_control(name, drift, np.column_stack([np.ones(12), moving, np.full(12, 0.5)]))


@pytest.mark.parametrize("name", ["ball_in_cup-catch", "reacher-easy"])
def test_the_contract(name: str) -> None:
    check_environment(f"dm_control:{name}", settings={"drift": MASS})


@pytest.mark.nightly
@pytest.mark.parametrize("name", EVERY)
def test_the_contract_of_every_task(name: str) -> None:
    check_environment(f"dm_control:{name}", settings={"drift": MASS})


def test_several_fields_drift_at_once() -> None:
    settings = {"drift": {GRAVITY: 1.0, 'dof_damping["hinge"]': -0.5}, "action_repeat": 2}
    world = load("dm_control:pendulum-swingup", scale=1.5, settings=settings)
    simulation = world._simulations[0]  # type: ignore[attr-defined]
    nominal = simulation.parameters()
    simulation.set_factor(1.5)
    drifted = simulation.parameters()
    assert drifted[GRAVITY] == nominal[GRAVITY] * 1.5
    assert drifted['dof_damping["hinge"]'] == nominal['dof_damping["hinge"]'] * 0.75
    assert world.read_back() == world.nominal()
    assert world.episode_steps == 500
    assert world.parameter == f'{GRAVITY}, dof_damping["hinge"]'


def test_what_a_task_sets_itself_is_nominal_and_does_not_drift() -> None:
    assert load("dm_control:finger-spin", settings={"drift": 'dof_damping["proximal"]'}).nominal()
    with pytest.raises(
        WorldforkError, match=r"`finger-spin` itself sets some of dof_damping when an episode begins"
    ):
        load("dm_control:finger-spin", settings={"drift": "dof_damping"})
    with pytest.raises(WorldforkError, match=r"`reacher-easy` itself sets some of geom_pos"):
        load("dm_control:reacher-easy", settings={"drift": "geom_pos"})


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        (
            "cup-catch",
            {},
            r"no task `cup-catch`. It has ball_in_cup-catch.* and 47 others, which docs/control-suite.md lists",
        ),
        ("pendulum-swingup", {"arguments": {"length": 2}}, r"can not make `pendulum-swingup`.*length"),
        ("pendulum-swingup", {"episode_steps": 1001}, r"ends after 1000 steps.*time_limit"),
        ("pendulum-swingup", {"drift": "opt.wind"}, r"only zeros"),
    ],
)
def test_what_can_not_be_is_refused(name: str, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(WorldforkError, match=words):
        load(f"dm_control:{name}", settings={"drift": GRAVITY, **settings})


def test_a_task_that_ends_says_so() -> None:
    assert load("dm_control:lqr-lqr_2_1", settings={"drift": MASS}).can_end  # type: ignore[attr-defined]
    assert not load("dm_control:pendulum-swingup", settings={"drift": MASS}).can_end  # type: ignore[attr-defined]


def test_a_task_that_would_draw_as_it_steps_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from dm_control.suite.pendulum import SwingUp

    monkeypatch.setattr(SwingUp, "get_reward", lambda self, physics: self.random.uniform())
    with pytest.raises(WorldforkError, match=r"draws random numbers as it steps \(`uniform`\)"):
        load("dm_control:pendulum-swingup", settings={"drift": GRAVITY})


def test_dm_control_is_imported_without_a_renderer_and_only_when_it_is_asked_for() -> None:
    script = """
import os, sys
from worldfork.lab.environments import load
load("cartpole-swingup")
assert "dm_control" not in sys.modules
load("dm_control:pendulum-swingup", settings={"drift": "opt.gravity[2]"})
assert "MUJOCO_GL" not in os.environ
from dm_control import _render
assert _render.Renderer.__name__ == "no_renderer"
"""
    environment = {name: value for name, value in os.environ.items() if name != "MUJOCO_GL"}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment)


def test_its_name() -> None:
    located = registry.locate("environments", "dm_control:ball_in_cup-catch")
    assert located.ours
    assert located.label == "ball_in_cup-catch"
    plugin = registry.build(
        "environments", "dm_control:ball_in_cup-catch", EnvironmentPlugin, settings={"drift": GRAVITY}
    )
    assert isinstance(plugin, ControlSuitePlugin)
    assert plugin.task == "ball_in_cup-catch"


AGENT = '''
import numpy as np
from worldfork.lab.agents.stateful import StatefulPlugin


class Swinger:
    """Swings a pendulum up by pushing along; what a push does to its velocity is fitted to what it sees."""

    def __init__(self):
        self.weights = np.zeros(4)  # of orientation, velocity and push, for the change of the velocity

    def reset(self, observation):
        pass

    def act(self, observation):
        return np.clip([observation[2] * (1.0 + self.weights[3])], -1.0, 1.0)

    def learn(self, window, *, steps, rate):
        for row in np.random.randint(len(window), size=steps):
            seen = np.r_[window.observation[row], window.action[row]]
            error = window.next_observation[row, 2] - window.observation[row, 2] - seen @ self.weights
            self.weights = self.weights + 0.01 * error * seen

    def loss(self, window):
        rows = zip(window.observation, window.action, window.next_observation)
        return float(np.mean([self.surprise(*row) for row in rows]))

    def surprise(self, observation, action, after):
        return float((after[2] - observation[2] - np.r_[observation, action] @ self.weights) ** 2)

    def get_state(self):
        return {"weights": self.weights.copy()}

    def set_state(self, state):
        self.weights = state["weights"].copy()


class SwingerPlugin(StatefulPlugin):
    precisions = ("float64",)

    def make(self, environment):
        return Swinger()
'''
REGISTRATION = """
schema = "worldfork.registration/1"
name = "suite"
[grid]
tasks = ["pendulum"]
checkpoints = [0]
directions = ["away"]
[stream]
decision_points = 3
drift_period = 200
schedule = "table"
schedule_settings = { points = [[0, 0], [0.5, 1], [2, 0.2]] }
[evaluation]
episodes = 2
[mechanism]
steps = 20
window = 40
[tasks.pendulum]
environment = "dm_control:pendulum-swingup"
agent = "suite_swinger:SwingerPlugin"
checkpoints = "{checkpoint}.safetensors"
drift_scale = 0.5
precision = "float64"
[tasks.pendulum.environment_settings]
drift = { "opt.gravity[2]" = 1.0, "actuator_gear[:, 0]" = -0.5 }
action_repeat = 4
episode_steps = 20
"""


@pytest.fixture
def swinger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A registration of an agent and a task that worldfork does not bring, beside the agent and its checkpoint."""
    (tmp_path / "suite_swinger.py").write_text(AGENT)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("suite_swinger")
    settings = {"drift": GRAVITY, "action_repeat": 4, "episode_steps": 20}
    world, plugin = load("dm_control:pendulum-swingup", settings=settings), module.SwingerPlugin()
    agent = plugin.build(world, precision="float64")
    save_checkpoint(plugin.make(world).get_state(), tmp_path / "0", agent=agent, environment=world, episodes=2)
    (tmp_path / "suite.toml").write_text(REGISTRATION)
    yield tmp_path / "suite.toml"
    del sys.modules["suite_swinger"]


def test_a_study_of_a_task_that_we_never_wrote(swinger: Path, tmp_path: Path) -> None:
    assert wf.check(swinger).ready
    study = wf.run(swinger, tmp_path / "study", probe=False)
    verdict = wf.verify(study)
    assert verdict.problems == ()
    assert study.forks().height == 3
    assert (study.forks()["r_update"] - study.forks()["r_hold"]).is_finite().all()
    assert len(wf.score(study, permutations=20).effects()) > 0
