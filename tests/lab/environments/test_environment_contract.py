"""What every environment of the catalogue promises: pure calls, state that is data, bit for bit."""

import functools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worldfork.errors import WorldforkError
from worldfork.lab.environments import Environment, State, concatenate, load
from worldfork.lab.environments.clean import prove_clean
from worldfork.registry import names

every_task = pytest.mark.parametrize("name", names("environments"))
few = settings(max_examples=12, deadline=None)


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
def test_shapes_and_units(name: str) -> None:
    environment = world(name)
    state = environment.reset(np.array([1, 2, 3]))
    after, observation, reward = environment.step(state, actions(environment, 3))
    assert environment.name == name
    assert environment.episode_steps >= 1
    assert environment.action_repeat >= 1
    assert environment.action_bound > 0
    assert observation.shape == state.observation.shape == (3, environment.observation_size)
    assert observation.dtype == reward.dtype == np.float64
    assert reward.shape == (3,)
    np.testing.assert_array_equal(after.observation, observation)
    assert not after.unstable.any()


@every_task
@few
@given(data=st.data())
def test_restored_permuted_split_and_rebatched_worlds_go_on_the_same(name: str, data: st.DataObject) -> None:
    """A world's future is a function of its own row: not of its place, its batch, or what was stepped before."""
    environment = world(name)
    batch = data.draw(st.integers(2, 7))
    fork, horizon = data.draw(st.integers(0, 4)), data.draw(st.integers(1, 4))
    order = np.array(data.draw(st.permutations(range(batch))))
    cut = data.draw(st.integers(1, batch - 1))
    seeds = np.array(data.draw(st.lists(st.integers(0, 40), min_size=batch, max_size=batch)))
    level = np.array(data.draw(st.lists(st.floats(0, 1), min_size=batch, max_size=batch)))
    plan = actions(environment, fork + horizon, batch, seed=data.draw(st.integers(0, 99)))

    begun, _ = play(environment, environment.reset(seeds, level), plan[:fork], level)
    ended, rewards = play(environment, begun, plan[fork:], level)

    again, same_rewards = play(environment, begun, plan[fork:], level)
    same(again, ended)
    np.testing.assert_array_equal(same_rewards, rewards)

    parts, part_rewards = [], []
    for part in (order[:cut], order[cut:]):
        environment.step(begun[:1], plan[0, :1], 1.0)  # unrelated work on the same simulators
        part_end, reward = play(environment, begun[part], plan[fork:, part], level[part])
        parts.append(part_end)
        part_rewards.append(reward)
    same(concatenate(parts), ended[order])
    np.testing.assert_array_equal(np.concatenate(part_rewards, axis=1), rewards[:, order])


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
def test_threads_change_nothing(name: str) -> None:
    seeds, level = np.arange(9), np.linspace(0, 1, 9)
    plan = actions(world(name), 10, 9)
    ends = [
        play(env, env.reset(seeds, level), plan, level) for env in (world(name, 1), world(name, 2), world(name, 3))
    ]
    for end, rewards in ends[1:]:
        same(end, ends[0][0])
        np.testing.assert_array_equal(rewards, ends[0][1])


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
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True, timeout=120)
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
def test_calls_neither_change_nor_keep_what_they_are_given(name: str) -> None:
    environment = world(name)
    state = environment.reset(np.array([1, 2]))
    for array in (state.physics, state.observation, state.unstable):
        array.flags.writeable = False
    action, level = actions(environment, 2), np.zeros(2)
    action.flags.writeable = level.flags.writeable = False
    after, observation, _ = environment.step(state, action, level)
    kept = after.observation.copy()
    observation[:] = 0.0
    np.testing.assert_array_equal(after.observation, kept)
    spoiled = environment.reset(np.array([1, 2]))
    spoiled.physics[:] = 0.0
    same(environment.reset(np.array([1, 2])), state)


@every_task
def test_level_zero_is_the_nominal_world_whatever_the_scale(name: str) -> None:
    drifting, nominal = world(name), load(name, threads=1)
    plan, seeds = actions(drifting, 5, 3), np.arange(3)
    here, _ = play(drifting, drifting.reset(seeds), plan, np.zeros(3))
    there, _ = play(nominal, nominal.reset(seeds, 1.0), plan, np.ones(3))
    same(here, there)


@every_task
def test_level_one_is_another_world(name: str) -> None:
    environment = world(name)
    plan, seeds = actions(environment, 100, 2), np.arange(2)
    begun = environment.reset(seeds)
    clean, _ = play(environment, begun, plan, np.zeros(2))
    drifted, _ = play(environment, begun, plan, np.ones(2))
    assert (np.abs(clean.observation - drifted.observation).max(axis=1) > 1e-3).all()


@every_task
def test_clean_physics_reads_back_after_use(name: str) -> None:
    environment = world(name)
    environment.step(environment.reset(np.arange(3), 1.0), actions(environment, 3), 1.0)
    record = prove_clean(environment)
    assert record["task"] == name
    assert record["read"] == record["nominal"] == environment.nominal()
    assert len(record["read"]) > 0
    assert (record["level"], record["sigma_a"]) == (0.0, 0.0)


@every_task
def test_pretraining_with_drift_or_noise_is_not_clean(name: str) -> None:
    with pytest.raises(WorldforkError, match=r"level 0 and sigma_a 0; got level 0\.5"):
        prove_clean(world(name), level=0.5)
    with pytest.raises(WorldforkError, match=r"sigma_a 0\.3"):
        prove_clean(world(name), sigma_a=0.3)


@every_task
def test_an_empty_batch_is_a_batch(name: str) -> None:
    environment = world(name)
    state = environment.reset(np.empty(0, np.int64))
    after, observation, reward = environment.step(state, actions(environment, 0))
    assert len(state) == len(after) == len(observation) == len(reward) == 0


def test_an_unknown_task_is_answered_with_the_known_ones() -> None:
    with pytest.raises(WorldforkError, match=r"no task 'walker-fly'.*cartpole-swingup.*walker-walk"):
        load("walker-fly")


def test_threads_must_be_positive() -> None:
    with pytest.raises(WorldforkError, match="at least 1; got 0"):
        load(next(iter(names("environments"))), threads=0)
