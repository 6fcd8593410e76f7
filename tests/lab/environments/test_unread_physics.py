"""What is left out of the physics because nobody reads it changes no bit, and is really left out."""

from typing import Any

import mujoco
import numpy as np
import pytest

from worldfork.lab.environments import load, suite
from worldfork.lab.environments.suite import SuiteEnvironment

TASKS = {"cartpole-swingup": 2.0, "walker-walk": 0.05, "cheetah-run": 2.0, "hopper-hop": 0.1}  # and scales


def as_published(xml: str) -> Any:
    text, included = suite.read_model(xml)
    return suite.compiled(mujoco.MjSpec.from_string(text, include=included))


@pytest.mark.parametrize("name", TASKS)
def test_every_bit_is_that_of_the_published_model(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lean = episode(name)
    monkeypatch.setattr(suite, "compile_model", as_published)
    whole = episode(name)
    assert (whole[0].model.ncam, whole[0].model.nlight) == (2, 1)
    assert (lean[0].model.ncam, lean[0].model.nlight) == (0, 0)
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
