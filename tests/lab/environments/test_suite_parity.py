"""The tasks are dm_control's: initial states, observations, rewards, in nominal, altered and moving physics."""

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("MUJOCO_GL", "disabled")  # importing dm_control must not need a display

import mujoco
from dm_control import suite

from worldfork.lab.environments import load
from worldfork.lab.environments.drift import factor
from worldfork.lab.environments.suite import SuiteEnvironment
from worldfork.registry import names

TOLERANCE = 1e-9
# Scales in the direction in which the protocol's grids go, and in the other.
SCALES = {
    "cartpole-swingup": (2.0, 0.5),
    "walker-walk": (0.25, 3.0),
    "cheetah-run": (2.0, 0.1),
    "hopper-hop": (0.25, 3.0),
}
TASKS = [name for name in names("environments") if name in SCALES]


def test_every_suite_task_is_compared() -> None:
    assert {name for name in names("environments") if isinstance(load(name), SuiteEnvironment)} == set(TASKS)


@pytest.mark.parametrize("name", TASKS)
def test_nominal_episodes_are_those_of_dm_control(name: str) -> None:
    compare(name, seeds=[0, 2**32 - 1], scale=1.0, level=lambda step: 1.0)


@pytest.mark.parametrize("name", TASKS)
def test_episodes_in_altered_physics_are_those_of_dm_control(name: str) -> None:
    compare(name, seeds=[3], scale=SCALES[name][0], level=lambda step: 0.7)


@pytest.mark.parametrize("name", TASKS)
def test_episodes_in_moving_physics_are_those_of_dm_control(name: str) -> None:
    compare(name, seeds=[5], scale=SCALES[name][1], level=lambda step: step / 1000)


@pytest.mark.nightly
@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("which", [0, 1])
def test_many_episodes_are_those_of_dm_control(name: str, which: int) -> None:
    for level in (0.0, 0.5, 1.0):
        compare(name, seeds=list(range(100, 116)), scale=SCALES[name][which], level=lambda step, level=level: level)


@pytest.mark.parametrize("name", TASKS)
def test_many_initial_states_are_those_of_dm_control(name: str) -> None:
    seeds = np.array([0, 1, 2, 11, 12345, 2**31, 2**32 - 2])
    environment = load(name, scale=SCALES[name][0], threads=1)
    for level, some in ((0.0, seeds[:2]), (1.0, seeds)):
        state = environment.reset(some, level=level)
        for row, seed in enumerate(some):
            reference = begin(name, int(seed), multiplier=multiplier(environment, level))
            np.testing.assert_array_equal(whole_state(reference), state.physics[row])


def compare(name: str, *, seeds: list[int], scale: float, level: Callable[[int], float]) -> None:
    """Full episodes of random actions, side by side."""
    environment = load(name, scale=scale, threads=2)
    state = environment.reset(np.array(seeds), level=level(0))
    references = [begin(name, seed, multiplier=multiplier(environment, level(0))) for seed in seeds]
    assert (environment.episode_steps, environment.action_repeat) == (250, 4)
    np.testing.assert_array_equal(np.stack([whole_state(reference) for reference in references]), state.physics)
    np.testing.assert_array_equal(
        np.stack([flat(reference.task.get_observation(reference.physics)) for reference in references]),
        state.observation,
    )
    actions = np.random.default_rng(seeds[0]).uniform(-1, 1, (250, len(seeds), environment.action_size))
    for step, action in enumerate(actions):
        state, observation, reward = environment.step(state, action, level=level(step))
        for row, reference in enumerate(references):
            alter(reference, multiplier(environment, level(step)))
            outcomes = [reference.step(action[row]) for _ in range(4)]
            assert np.abs(flat(outcomes[-1].observation) - observation[row]).max() <= TOLERANCE
            assert abs(sum(outcome.reward for outcome in outcomes) - reward[row]) <= TOLERANCE
    assert all(outcome.last() for outcome in outcomes[-1:]), "an episode is 1,000 environment steps"
    assert not state.unstable.any()


def begin(name: str, seed: int, *, multiplier: float) -> Any:
    """dm_control's environment at the start of an episode in altered physics."""
    reference = suite.load(*name.split("-"), task_kwargs={"random": seed})
    model = reference.physics.model
    reference.nominal = (model.opt.gravity.copy(), model.geom_friction[:, 0].copy())
    set_physics(reference, multiplier)
    reference.reset()
    return reference


def alter(reference: Any, multiplier: float) -> None:
    """Change the physics between two control steps."""
    if set_physics(reference, multiplier):
        # Contacts were found with the old friction at the end of the last step. Find them again, as a restored
        # world would: a step must depend on the state and its level alone.
        mujoco.mj_step1(reference.physics.model.ptr, reference.physics.data.ptr)


def set_physics(reference: Any, multiplier: float) -> bool:
    model = reference.physics.model
    gravity, friction = reference.nominal
    before = model.opt.gravity.copy(), model.geom_friction.copy()
    if "cart-pole" in model.name:
        model.opt.gravity[:] = gravity * multiplier
    else:
        model.geom_friction[:, 0] = friction * multiplier
    return not (np.array_equal(before[0], model.opt.gravity) and np.array_equal(before[1], model.geom_friction))


def multiplier(environment: Any, level: float) -> float:
    return float(factor(np.array([level]), environment.scale)[0])


def flat(observation: Any) -> np.ndarray:
    return np.concatenate([np.ravel(part) for part in observation.values()])


def whole_state(reference: Any) -> np.ndarray:
    return reference.physics.get_state(sig=int(mujoco.mjtState.mjSTATE_INTEGRATION))
