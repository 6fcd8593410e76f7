"""Faults: bad input is refused before anything happens, and a world that diverges is an outcome of its own."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from worldfork.errors import WorldforkError
from worldfork.lab.environments import State, load, suite
from worldfork.lab.environments.base import prove_clean
from worldfork.lab.environments.suite import SuiteEnvironment

TASKS = ("cartpole-swingup", "walker-walk", "cheetah-run", "hopper-hop")


@pytest.fixture(scope="module", params=TASKS)
def environment(request: pytest.FixtureRequest) -> SuiteEnvironment:
    loaded = load(request.param, scale=0.5, threads=1)
    assert isinstance(loaded, SuiteEnvironment)
    return loaded


def broken(state: State, world: int, velocity: float) -> State:
    """The same worlds, one of them with enormous velocities."""
    physics = state.physics.copy()
    physics[world, 1:] = velocity  # everything but the clock
    return State(physics, state.observation, state.unstable)


@pytest.mark.parametrize("velocity", [1e9, 1e12, np.inf, np.nan])
def test_a_diverging_world_is_marked_and_its_neighbours_are_not(
    environment: SuiteEnvironment, velocity: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its warnings to a file in the working directory
    state = environment.reset(np.arange(4))
    plan = np.random.default_rng(0).uniform(-1, 1, (5, 4, environment.action_size))
    healthy, ill = state, broken(state, 2, velocity)
    for action in plan:
        healthy, _, healthy_reward = environment.step(healthy, action)
        ill, observation, reward = environment.step(ill, action)
        assert ill.unstable.tolist() == [False, False, True, False], "the mark stays"
        assert np.isfinite(observation).all()
        assert reward[2] == 0.0, "a world that is no more earns nothing"
        others = np.array([0, 1, 3])
        np.testing.assert_array_equal(ill.physics[others], healthy.physics[others])
        np.testing.assert_array_equal(observation[others], healthy.observation[others])
        np.testing.assert_array_equal(reward[others], healthy_reward[others])
    assert not environment.step(state, plan[0])[0].unstable.any(), "simulators do not remember"


def test_a_world_earns_until_the_simulator_warns_and_nothing_afterwards(
    environment: SuiteEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulators, earned = environment._simulators, []
    step, reward = simulators.step, environment.reward

    def warns_once_of_the_second_world() -> np.ndarray:
        warnings = step().copy()
        warnings[1, 2] += len(earned) == 2
        return warnings

    def kept_reward(fields: suite.Fields) -> np.ndarray:
        earned.append(reward(fields) + 1.0)  # cartpole's first rewards are small
        return earned[-1]

    monkeypatch.setattr(simulators, "step", warns_once_of_the_second_world)
    monkeypatch.setattr(environment, "reward", kept_reward)
    after, _, total = environment.step(environment.reset(np.arange(3)), np.full((3, environment.action_size), 0.5))
    first, second, third, fourth = earned
    assert after.unstable.tolist() == [False, True, False]
    expected = first + second + third + fourth
    expected[1] = first[1] + second[1]
    np.testing.assert_array_equal(total, expected)


def test_an_error_inside_the_simulator_is_an_unstable_world(monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulator that runs out of memory raises; only its own world is lost."""

    def compile_small(xml: str) -> Any:
        text, included = suite.read_model(xml)
        spec = mujoco.MjSpec.from_string(text, include=included)
        spec.memory = 20_000  # enough to hang in the air, too little for many contacts
        return spec.compile()

    ample = load("hopper-hop", threads=1)
    monkeypatch.setattr(suite, "compile_model", compile_small)
    scarce = load("hopper-hop", threads=1)
    state = ample.reset(np.arange(3))
    state.physics[:, 1:8] = 0.0  # a straight pose
    state.physics[1, 2] = -0.9  # height: the second hopper is deep in the ground
    action = np.zeros((3, ample.action_size))
    expected, _, expected_reward = ample.step(state, action)
    after, observation, reward = scarce.step(state, action)
    assert after.unstable.tolist() == [False, True, False]
    assert reward[1] == 0.0
    assert np.isfinite(observation).all()
    np.testing.assert_array_equal(after.physics[[0, 2]], expected.physics[[0, 2]])
    np.testing.assert_array_equal(reward[[0, 2]], expected_reward[[0, 2]])


BAD_ACTIONS: list[tuple[Callable[[int], np.ndarray], str]] = [
    (lambda size: np.zeros((2, size)), "must be floating point with shape"),
    (lambda size: np.zeros((3, size + 1)), "must be floating point with shape"),
    (lambda size: np.zeros(3), "must be floating point with shape"),
    (lambda size: np.zeros((3, size), np.int64), "got int64"),
    (lambda size: np.zeros((3, size), np.complex128), "got complex128"),
    (lambda size: np.full((3, size), np.nan), "finite and in"),
    (lambda size: np.full((3, size), np.inf), "finite and in"),
    (lambda size: np.full((3, size), np.nextafter(1.0, 2.0)), "Clip them first"),
    (lambda size: np.full((3, size), -1.5), "3 of 3 worlds"),
]


@pytest.mark.parametrize(("make", "message"), BAD_ACTIONS)
def test_bad_actions_are_refused(
    environment: SuiteEnvironment, make: Callable[[int], np.ndarray], message: str
) -> None:
    state = environment.reset(np.arange(3))
    before = state[:]
    with pytest.raises(WorldforkError, match=message):
        environment.step(state, make(environment.action_size))
    np.testing.assert_array_equal(state.physics, before.physics)


def test_single_precision_actions_are_taken_as_they_are(environment: SuiteEnvironment) -> None:
    state = environment.reset(np.arange(3))
    action = np.random.default_rng(0).uniform(-1, 1, (3, environment.action_size)).astype(np.float32)
    one, _, _ = environment.step(state, action)
    other, _, _ = environment.step(state, action.astype(np.float64))
    np.testing.assert_array_equal(one.physics, other.physics)


@pytest.mark.parametrize(
    ("level", "message"),
    [
        (-0.1, "must lie in"),
        (1.0000001, "must lie in"),
        (np.nan, "must lie in"),
        (np.array([0.0, np.inf, 0.0]), "must lie in"),
        (np.zeros(2), "one per world"),
        (np.zeros((3, 1)), "one per world"),
        (np.zeros(3, np.complex128), "one per world"),
    ],
)
def test_bad_levels_are_refused(environment: SuiteEnvironment, level: Any, message: str) -> None:
    with pytest.raises(WorldforkError, match=message):
        environment.reset(np.arange(3), level)
    with pytest.raises(WorldforkError, match=message):
        environment.step(environment.reset(np.arange(3)), np.zeros((3, environment.action_size)), level)


@pytest.mark.parametrize(
    ("seeds", "message"),
    [
        (np.array([-1]), "must lie in"),
        (np.array([2**32]), "must lie in"),
        (np.array([2**63], np.uint64), "must lie in"),
        (np.array([0.0]), "array of integers; got float64"),
        (np.array([True]), "array of integers; got bool"),
        (np.array([[0]]), "one-dimensional"),
        (np.array(0), "one-dimensional"),
    ],
)
def test_bad_seeds_are_refused(environment: SuiteEnvironment, seeds: np.ndarray, message: str) -> None:
    with pytest.raises(WorldforkError, match=message):
        environment.reset(seeds)


def test_a_state_of_another_task_is_refused() -> None:
    state = load("hopper-hop", threads=1).reset(np.arange(2))
    with pytest.raises(WorldforkError, match=r"state.physics.*another task"):
        load("walker-walk", threads=1).step(state, np.zeros((2, 6)))


@pytest.mark.parametrize("scale", [np.nan, np.inf, -0.5])
def test_an_impossible_scale_is_refused(scale: float) -> None:
    with pytest.raises(WorldforkError, match="`scale` is what level 1 multiplies"):
        load("cartpole-swingup", scale=scale)


def test_a_parameter_that_does_not_drift_is_refused() -> None:
    class Damped(type(load("cartpole-swingup", threads=1))):  # type: ignore[misc]
        parameter = "damping"

    with pytest.raises(WorldforkError, match="drifts `gravity` or `friction`; got `parameter = 'damping'`"):
        Damped(scale=0.5, threads=1)


def test_physics_that_was_tampered_with_is_not_clean(environment: SuiteEnvironment) -> None:
    tampered = load(environment.name, threads=1)
    assert isinstance(tampered, SuiteEnvironment)
    tampered.model.opt.gravity[2] *= 0.9
    tampered.model.geom_friction[0, 0] *= 0.9
    with pytest.raises(WorldforkError, match=r"is not clean.*Load the task anew"):
        prove_clean(tampered)


def test_two_threads_may_share_an_environment(environment: SuiteEnvironment) -> None:
    state = environment.reset(np.arange(6))
    action = np.random.default_rng(0).uniform(-1, 1, (6, environment.action_size))
    expected, _, _ = environment.step(state, action)
    results: list[np.ndarray] = []

    def work(part: slice) -> None:
        results.extend(
            environment.step(state[part], action[part])[0].physics - expected.physics[part] for _ in range(20)
        )

    workers = [threading.Thread(target=work, args=(part,)) for part in (slice(0, 4), slice(3, 6))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(results) == 40
    assert all((difference == 0).all() for difference in results)
