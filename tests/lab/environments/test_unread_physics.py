"""What is left out of the physics because nobody reads it changes no bit, and is really left out."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from waiting import PATIENCE

from worldfork.lab.environments import load, suite
from worldfork.lab.environments.simulators import stop_clock
from worldfork.lab.environments.suite import SuiteEnvironment

TASKS = {"cartpole-swingup": 2.0, "walker-walk": 0.05, "cheetah-run": 2.0, "hopper-hop": 0.1}  # and scales
ISLANDS_OFF = int(mujoco.mjtDisableBit.mjDSBL_ISLAND)
TWO_TREES = """
<mujoco>
  <worldbody>
    <camera/>
    <body><freejoint/><geom size="1"/></body>
    <body pos="5 0 0"><freejoint/><geom size="1"/></body>
  </worldbody>
</mujoco>
"""


@pytest.fixture
def clock() -> Iterator[None]:
    """MuJoCo with the clock of its bindings, as whoever imports it finds it."""
    mujoco.set_mjcb_time(None)
    yield
    mujoco.set_mjcb_time(None)
    stop_clock()


def as_published(xml: str) -> Any:
    text, included = suite.read_model(xml)
    return suite.compiled(mujoco.MjSpec.from_string(text, include=included))


@pytest.mark.parametrize("name", TASKS)
def test_every_bit_is_that_of_the_published_model_with_its_clock(
    name: str, clock: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_clock()
    lean = episode(name)
    mujoco.set_mjcb_time(None)
    monkeypatch.setattr(suite, "compile_model", as_published)
    whole = episode(name)
    assert (whole[0].model.ncam, whole[0].model.nlight) == (2, 1)
    assert (lean[0].model.ncam, lean[0].model.nlight) == (0, 0)
    assert lean[0].model.opt.disableflags == whole[0].model.opt.disableflags | ISLANDS_OFF
    assert not whole[0].model.opt.disableflags & ISLANDS_OFF
    for ours, published in zip(lean[1:], whole[1:], strict=True):
        assert ours.tobytes() == published.tobytes()


def episode(name: str) -> tuple[SuiteEnvironment, np.ndarray, np.ndarray, np.ndarray]:
    """Sixty control steps of random actions in six worlds whose physics moves: states, observations, rewards."""
    environment = load(name, scale=TASKS[name], threads=1)
    assert isinstance(environment, SuiteEnvironment)
    random = np.random.default_rng(0)
    state = environment.reset(np.arange(6), level=random.uniform(0, 1, 6))
    states, observations, rewards = [state.physics], [state.observation], []
    for _ in range(60):
        action = random.uniform(-1, 1, (6, environment.action_size))
        state, observation, reward = environment.step(state, action, random.uniform(0, 1, 6))
        states.append(state.physics)
        observations.append(observation)
        rewards.append(reward)
    assert not state.unstable.any()
    assert touching(environment, np.array(states)) == (name != "cartpole-swingup"), "only a cart never touches"
    return environment, np.array(states), np.array(observations), np.array(rewards)


def touching(environment: SuiteEnvironment, states: np.ndarray) -> bool:
    """Whether anything touches anything in any of these states."""
    data = mujoco.MjData(environment.model)
    for row in states.reshape(-1, states.shape[-1]):
        mujoco.mj_setState(environment.model, data, row, mujoco.mjtState.mjSTATE_INTEGRATION)
        mujoco.mj_forward(environment.model, data)
        if data.ncon:
            return True
    return False


def test_a_model_of_several_trees_keeps_its_islands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "read_model", lambda xml: (TWO_TREES, {}))
    model = suite.compile_model("two.xml")
    assert (model.ntree, model.ncam) == (2, 0)
    assert not model.opt.disableflags & ISLANDS_OFF


def test_the_clock_is_gone_and_comes_back_for_whoever_asks(clock: None) -> None:
    model = as_published("walker.xml")
    assert measured(model) > 0.0
    if not stop_clock():
        pytest.skip("MuJoCo's library has another name here")
    assert measured(model) == 0.0
    assert stop_clock(), "once more changes nothing"
    mujoco.set_mjcb_time(None)
    assert measured(model) > 0.0


def test_whoever_loads_a_task_has_stopped_the_clock(clock: None) -> None:
    if not stop_clock():
        pytest.skip("MuJoCo's library has another name here")
    script = """
import mujoco
from worldfork.lab.environments import load
model = load("cartpole-swingup", threads=1).model
data = mujoco.MjData(model)
mujoco.mj_step(model, data, nstep=100)
print(data.timer.number.max(), data.timer.duration.sum())
"""
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert ended.stdout.split() == ["400", "0.0"]


def measured(model: Any) -> float:
    """What MuJoCo's timers add up to over a few physics steps."""
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, nstep=100)
    assert data.timer.number.sum() > 0
    return float(data.timer.duration.sum())


def test_a_clock_of_the_users_stays(clock: None) -> None:
    def constant() -> float:
        return 1.0

    mujoco.set_mjcb_time(constant)
    assert not stop_clock()
    assert mujoco.get_mjcb_time() is constant


def test_without_the_library_the_clock_stays(clock: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mujoco, "__file__", str(tmp_path / "__init__.py"))
    assert not stop_clock()
    (tmp_path / f"libmujoco.so.{mujoco.__version__}").write_text("not a library")
    assert not stop_clock()
    assert measured(as_published("cartpole.xml")) > 0.0
