"""Roll-outs: draws by event alone, overlap that changes nothing, and a digest of what was really received."""

import dataclasses
from typing import Any, cast

import numpy as np
import pytest

from worldfork.lab.agents.base import Agent
from worldfork.lab.agents.linear_quadratic import LinearQuadraticPlugin
from worldfork.lab.environments.linear_quadratic import World
from worldfork.lab.episode_log import Rolled
from worldfork.lab.episodes import Draws, roll_out
from worldfork.randomness import Event, Purpose, fold_in, normals, root, seed, words

WORLD = World(scale=3.0)
AGENT = LinearQuadraticPlugin().build(WORLD, precision="float64")
EVENT = Event(purpose=Purpose.INITIAL_STATE, task="linear_quadratic", checkpoint="0", fork=3)
PARAMETERS = {"A": np.stack([WORLD.matrices.transition] * 2), "B": np.stack([WORLD.matrices.control] * 2)}


def roll(episodes: int = 5, *, halves: int = 1, sigma: float = 0.3, trace: bool = False) -> Rolled:
    draws = Draws.of([EVENT, EVENT], np.arange(episodes))
    levels = np.full((2, WORLD.episode_steps), 0.5)
    return roll_out(AGENT, WORLD, PARAMETERS, draws, levels=levels, action_noise=sigma, halves=halves, trace=trace)


def test_draws_are_those_of_the_event_one_at_a_time() -> None:
    draws = Draws.of([EVENT], np.arange(4))
    for episode in range(4):
        there = EVENT.at(episode=episode)
        assert draws.seeds[0, episode] == seed(there)
        noise = dataclasses.replace(there, purpose=Purpose.ACTION_NOISE, step=7)
        np.testing.assert_array_equal(draws.noise(7, 2)[0, episode], normals(words(noise), 2, Purpose.ACTION_NOISE))
        plan = root(dataclasses.replace(there, purpose=Purpose.PLANNING))
        np.testing.assert_array_equal(draws.planning_keys(7, 8)[0, 0, episode], fold_in(plan, 3, episode, 7))
        np.testing.assert_array_equal(draws.planning_keys(5, 9)[2, 0, episode], fold_in(plan, 3, episode, 7))


@pytest.mark.parametrize("halves", [2, 5, 9])
def test_overlap_changes_no_digit(halves: int) -> None:
    one, other = roll(trace=True), roll(halves=halves, trace=True)
    np.testing.assert_array_equal(one.returns, other.returns)
    assert one.received.digests() == other.received.digests()
    assert one.trace is not None
    assert other.trace is not None
    for field in dataclasses.fields(one.trace):
        np.testing.assert_equal(getattr(one.trace, field.name), getattr(other.trace, field.name))


def test_the_same_parameters_receive_and_return_the_same() -> None:
    rolled = roll()
    np.testing.assert_array_equal(rolled.returns[0], rolled.returns[1])
    assert len(set(rolled.received.digests())) == 1
    assert len(set(rolled.returns[0])) == 5


def test_the_digest_covers_starts_keys_and_noise() -> None:
    received = roll(2).received
    whole = received.digests()[0]
    for field in dataclasses.fields(received):
        changed = getattr(received, field.name).copy()
        changed.reshape(-1).view(np.uint8)[0] ^= 1
        assert dataclasses.replace(received, **{field.name: changed}).digests()[0] != whole
    assert roll(2, sigma=0.0).received.digests()[0] != whole


def test_the_model_sees_the_planned_action_and_the_world_the_noisy_one() -> None:
    quiet, noisy = roll(sigma=0.0, trace=True), roll(sigma=0.5, trace=True)
    assert quiet.trace is not None
    assert noisy.trace is not None
    first = (slice(None), slice(None), 0)
    np.testing.assert_array_equal(quiet.trace.action[first], noisy.trace.action[first])
    assert (quiet.trace.reward[first] != noisy.trace.reward[first]).all()


def test_a_return_is_the_sum_of_its_rewards() -> None:
    rolled = roll(trace=True)
    assert rolled.trace is not None
    np.testing.assert_allclose(rolled.returns, rolled.trace.reward.sum(axis=2))


def test_a_simulator_that_raises_is_heard() -> None:
    class Broken(type(WORLD)):  # type: ignore[misc]
        def step(self, *arguments: object, **named: object) -> object:
            raise FloatingPointError("no such world")

    broken = Broken(scale=1.0)
    draws = Draws.of([EVENT, EVENT], np.arange(4))
    for halves in (1, 2):
        with pytest.raises(FloatingPointError, match="no such world"):
            roll_out(AGENT, broken, PARAMETERS, draws, levels=np.zeros((2, 3)), action_noise=0.0, halves=halves)


def test_a_step_is_taken_down_while_the_next_plan_is_computed() -> None:
    """Nothing but the agent's own filter stands between an observation and the call that plans on it."""
    happened: list[str] = []

    class Heard:
        def __getattr__(self, name: str) -> object:
            return getattr(AGENT, name)

        def act(self, *arguments: Any) -> object:
            happened.append("act")
            return AGENT.act(*arguments)

        def observe(self, *arguments: Any) -> object:
            happened.append("observe")
            return AGENT.observe(*arguments)

    roll_out(
        cast(Agent, Heard()),
        WORLD,
        PARAMETERS,
        Draws.of([EVENT, EVENT], np.arange(1)),
        levels=np.zeros((2, 3)),
        action_noise=0.3,
        record=lambda where, moment, physics, reward: happened.append(f"record {moment}"),
    )
    first = ["record 0", "act", "observe"]
    assert happened == [*first, "act", "record 1", "observe", "act", "record 2", "observe", "record 3"]
