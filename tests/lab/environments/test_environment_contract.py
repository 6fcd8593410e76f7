"""What every environment that has a name promises: pure calls, state that is data, bit for bit."""

import functools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from waiting import PATIENCE

from worldfork.errors import WorldforkError
from worldfork.lab.environments import Environment, State, load
from worldfork.lab.environments.base import prove_clean
from worldfork.registry import names
from worldfork.testing import check_environment

every_task = pytest.mark.parametrize("name", names("environments"))


@functools.cache
def world(name: str, threads: int = 1) -> Environment:
    return load(name, scale=0.5, threads=threads)


def actions(environment: Environment, *shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (*shape, environment.action_size))


def play(environment: Environment, state: State, plan: np.ndarray, level: np.ndarray) -> tuple[State, np.ndarray]:
    """Steps through a plan [T, B, A]; returns where it ends and the rewards [T, B]."""
    rewards = []
    for action in plan:
        state, _, reward = environment.step(state, action, level)
        rewards.append(reward)
    return state, np.array(rewards)


def same(one: State, other: State) -> None:
    for field in ("physics", "observation", "unstable"):
        np.testing.assert_array_equal(getattr(one, field), getattr(other, field))


@every_task
def test_it_keeps_the_contract(name: str) -> None:
    """What `worldfork.testing` asks of anybody's world."""
    assert not check_environment(name).not_examined
    assert world(name).name == name


@every_task
def test_a_batch_larger_than_the_scratchpad_is_stepped_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = world(name)
    simulators = pytest.importorskip("worldfork.lab.environments.simulators")
    monkeypatch.setattr(simulators, "PER_THREAD", 4)
    in_parts = load(name, scale=0.5, threads=1)
    seeds, level = np.arange(11), np.linspace(0, 1, 11)
    plan = actions(whole, 3, 11)
    one, one_rewards = play(whole, whole.reset(seeds, level), plan, level)
    other, other_rewards = play(in_parts, in_parts.reset(seeds, level), plan, level)
    same(one, other)
    np.testing.assert_array_equal(one_rewards, other_rewards)


@every_task
def test_a_saved_state_goes_on_the_same_in_another_process(name: str, tmp_path: Path) -> None:
    environment = world(name)
    plan = actions(environment, 12, 4)
    level = np.linspace(0, 1, 4)
    begun, _ = play(environment, environment.reset(np.arange(4), level), plan[:6], level)
    ended, rewards = play(environment, begun, plan[6:], level)
    np.savez(
        tmp_path / "begun.npz",
        physics=begun.physics,
        observation=begun.observation,
        unstable=begun.unstable,
        plan=plan[6:],
        level=level,
    )
    script = f"""
import numpy as np
from worldfork.lab.environments import State, load
saved = np.load("begun.npz")
state = State(saved["physics"], saved["observation"], saved["unstable"])
environment, rewards = load({name!r}, scale=0.5, threads=2), []
for action in saved["plan"]:
    state, _, reward = environment.step(state, action, saved["level"])
    rewards.append(reward)
np.savez("ended.npz", physics=state.physics, observation=state.observation, rewards=np.array(rewards))
"""
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True, timeout=PATIENCE)
    elsewhere = np.load(tmp_path / "ended.npz")
    np.testing.assert_array_equal(elsewhere["physics"], ended.physics)
    np.testing.assert_array_equal(elsewhere["observation"], ended.observation)
    np.testing.assert_array_equal(elsewhere["rewards"], rewards)


@every_task
def test_initial_states_are_functions_of_seed_and_level(name: str) -> None:
    environment, fresh = world(name), load(name, scale=0.5, threads=1)
    seeds, level = np.array([7, 3, 7, 9]), np.array([0.0, 0.5, 0.0, 0.5])
    state = environment.reset(seeds, level)
    same(state[:1], state[2:3])
    same(state[np.array([3, 1])], fresh.reset(np.array([9, 3]), 0.5))
    assert not np.array_equal(state.physics[0], state.physics[1])


@every_task
def test_pretraining_with_drift_or_noise_is_not_clean(name: str) -> None:
    with pytest.raises(WorldforkError, match=r"level 0 and sigma_a 0; got level 0\.5"):
        prove_clean(world(name), level=0.5)
    with pytest.raises(WorldforkError, match=r"sigma_a 0\.3"):
        prove_clean(world(name), sigma_a=0.3)


def test_an_unknown_task_is_answered_with_the_known_ones() -> None:
    with pytest.raises(WorldforkError, match=r"no environment called 'walker-fly'.*cartpole-swingup.*walker-walk"):
        load("walker-fly")


def test_threads_must_be_positive() -> None:
    with pytest.raises(WorldforkError, match="at least 1; got 0"):
        load(next(iter(names("environments"))), threads=0)
