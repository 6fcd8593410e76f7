"""Roll-outs in a world whose every number can be written down: who is given what at which step, and what is kept.

Physics is (seed, control steps taken, level), an observation is (seed, steps taken), and a step earns
100 * level + u0 + 10 * u1 with the executed action (u0, u1).
"""

import dataclasses
from typing import Any

import numpy as np
import pytest

from worldfork.lab.agents.base import Decision, Surprise
from worldfork.lab.environments.base import State
from worldfork.lab.episode_log import Rolled
from worldfork.lab.episodes import Draws, fixed_level_returns, roll_out
from worldfork.randomness import Event, Purpose

EVENTS = [Event(purpose=Purpose.INITIAL_STATE, task="paper", fork=fork) for fork in (1, 2)]
DRAWS = Draws.of(EVENTS, np.arange(3))  # two parameter sets, three episodes
STEPS = 4
GAIN = np.array([0.5, 0.8])


class Paper:
    name, simulator, parameter = "paper", "paper 1", "level"
    observation_size, action_size, action_bound = 2, 2, 1.0
    episode_steps, action_repeat = STEPS, 1

    def reset(self, seeds: Any, level: Any = 0.0) -> State:
        physics = np.column_stack([seeds, np.zeros(len(seeds)), np.broadcast_to(level, len(seeds))]).astype(float)
        return State(physics, physics[:, :2].copy(), np.zeros(len(seeds), bool))

    def step(self, state: State, action: Any, level: Any = 0.0) -> tuple[State, Any, Any]:
        seed, taken, _ = state.physics.T
        physics = np.column_stack([seed, taken + 1, np.broadcast_to(level, len(seed))])
        unstable = state.unstable | (np.asarray(level) > 0.9)
        after = State(physics, physics[:, :2].copy(), unstable)
        return after, physics[:, :2].copy(), 100 * level + action[:, 0] + 10 * action[:, 1]

    def read_back(self) -> dict[str, float]:
        return {}

    nominal = read_back


@dataclasses.dataclass(frozen=True)
class Pupil:
    """Plans (gain, -gain) whatever it sees; its belief counts what was done with it. `spoilt` are (set, episode,
    step, action) whose planned number is not finite; `flagged` says whether it admits to it."""

    spoilt: tuple[tuple[int, int, int, int], ...] = ()
    flagged: tuple[tuple[int, int, int], ...] = ()

    scopes, device, shape_sensitive = ("model",), "cpu", False

    def begin(self, parameters: Any, observation: Any) -> Any:
        return {"seen": observation, "step": 0, "acted": 0}

    def act(self, parameters: Any, belief: Any, plan_keys: Any) -> Decision:
        assert belief["acted"] == belief["step"]
        seeds, step = belief["seen"][..., 0], belief["step"]
        gain = np.broadcast_to(parameters["gain"][:, None], seeds.shape)
        action = np.stack([gain, -gain], axis=-1)
        replaced = np.zeros(seeds.shape, bool)
        for p, episode, when, which in self.spoilt:
            if when == step:
                action[(seeds == DRAWS.seeds[p, episode]), which] = np.nan
        for p, episode, when in self.flagged:
            replaced |= (when == step) & (seeds == DRAWS.seeds[p, episode])
        return Decision(action, replaced, {**belief, "acted": step + 1})

    def observe(self, parameters: Any, belief: Any, observation: Any) -> Surprise:
        assert belief["acted"] == belief["step"] + 1
        change = observation[..., 1] - belief["seen"][..., 1]
        following = {**belief, "seen": observation, "step": belief["step"] + 1}
        return Surprise({"error": change, "mine": 10 * observation[..., 1]}, following)

    def loss(self, parameters: Any, window: Any) -> Any:
        raise NotImplementedError

    def fit(self, parameters: Any, optimiser: Any, window: Any, **settings: Any) -> Any:
        raise NotImplementedError


def roll(
    levels: np.ndarray, *, agent: Pupil | None = None, halves: int = 1, sigma: float = 0.0, **more: Any
) -> Rolled:
    return roll_out(
        agent or Pupil(), Paper(), {"gain": GAIN}, DRAWS, levels=levels, action_noise=sigma, halves=halves, **more
    )


EACH = np.arange(2 * 3 * STEPS).reshape(2, 3, STEPS) / 100.0  # a level of its own for every set, episode and step


@pytest.mark.parametrize("halves", [1, 2, 3])
def test_every_step_meets_its_own_level_and_earns_what_it_should(halves: int) -> None:
    rolled = roll(EACH, halves=halves, trace=True)
    earned = 100 * EACH + (GAIN - 10 * GAIN)[:, None, None]
    np.testing.assert_allclose(rolled.returns, earned.sum(axis=2))
    np.testing.assert_array_equal(rolled.received.start[..., 0], DRAWS.seeds)
    np.testing.assert_array_equal(rolled.received.start[..., 1], 0.0)
    np.testing.assert_array_equal(
        rolled.received.start[..., 2], EACH[..., 0]
    )  # a world is reset at its first level
    assert rolled.trace is not None
    np.testing.assert_allclose(rolled.trace.reward, earned)
    np.testing.assert_array_equal(rolled.trace.observation[..., 1], np.broadcast_to(np.arange(4.0), (2, 3, 4)))
    np.testing.assert_array_equal(rolled.trace.observation[..., 0], DRAWS.seeds[..., None].repeat(STEPS, axis=2))
    np.testing.assert_array_equal(rolled.trace.final, np.stack([DRAWS.seeds, np.full((2, 3), STEPS)], axis=-1))
    np.testing.assert_array_equal(rolled.trace.action[..., 0], GAIN[:, None, None].repeat(3, 1).repeat(4, 2))
    np.testing.assert_array_equal(rolled.trace.signals["error"], 1.0)
    np.testing.assert_array_equal(rolled.trace.signals["mine"], np.broadcast_to([10.0, 20, 30, 40], (2, 3, 4)))
    assert not rolled.unstable.any()
    assert not rolled.replaced.any()


def test_one_level_for_all_episodes_of_a_set_is_that_level_in_each() -> None:
    shared, each = roll(EACH[:, 1]), roll(EACH[:, 1:2].repeat(3, axis=1))
    np.testing.assert_array_equal(shared.returns, each.returns)
    assert shared.trace is None


@pytest.mark.parametrize("halves", [1, 2])
def test_noise_is_added_to_the_plan_and_clipped_to_the_bound(halves: int) -> None:
    rolled = roll(np.zeros((2, STEPS)), sigma=0.7, halves=halves, trace=True)
    normal = np.stack([DRAWS.noise(step, 2) for step in range(STEPS)], axis=2)
    executed = np.clip(np.stack([GAIN, -GAIN], axis=-1)[:, None, None] + 0.7 * normal, -1.0, 1.0)
    assert (np.abs(executed) == 1.0).any()
    np.testing.assert_allclose(rolled.returns, (executed[..., 0] + 10 * executed[..., 1]).sum(axis=2))
    np.testing.assert_array_equal(rolled.received.noise, normal)
    assert rolled.trace is not None
    np.testing.assert_array_equal(rolled.trace.action[..., 0], GAIN[:, None, None].repeat(3, 1).repeat(4, 2))
    np.testing.assert_array_equal(rolled.received.plan_keys, np.moveaxis(DRAWS.planning_keys(0, STEPS), 0, 2))
    np.testing.assert_array_equal(roll(np.zeros((2, STEPS))).received.noise, 0.0)


@pytest.mark.parametrize("halves", [1, 2])
def test_an_action_with_a_number_that_is_not_finite_becomes_zero_and_is_counted_once(halves: int) -> None:
    """Set 1, episode 2: one of two numbers at step 1, both at step 3. Set 0, episode 0: the agent admits to it."""
    agent = Pupil(spoilt=((1, 2, 1, 0), (1, 2, 3, 0), (1, 2, 3, 1)), flagged=((0, 0, 2), (1, 2, 3)))
    rolled = roll(np.zeros((2, STEPS)), agent=agent, halves=halves, trace=True)
    np.testing.assert_array_equal(rolled.replaced, [[1, 0, 0], [0, 0, 2]])
    expected = np.broadcast_to(-9.0 * GAIN[:, None, None], (2, 3, STEPS)).copy()
    expected[1, 2, [1, 3]] = 0.0
    assert rolled.trace is not None
    np.testing.assert_allclose(rolled.trace.reward, expected)
    np.testing.assert_allclose(rolled.returns, expected.sum(axis=2))
    np.testing.assert_array_equal(rolled.trace.action[1, 2, [1, 3]], 0.0)


@pytest.mark.parametrize("halves", [1, 2])
def test_an_episode_is_unstable_if_any_of_its_steps_was(halves: int) -> None:
    levels = np.zeros((2, 3, STEPS))
    levels[0, 1, 0] = levels[1, 2, 3] = 1.0
    np.testing.assert_array_equal(
        roll(levels, halves=halves).unstable, [[False, True, False], [False, False, True]]
    )


@pytest.mark.parametrize("halves", [1, 2])
def test_a_record_is_told_every_moment_of_every_episode(halves: int) -> None:
    told: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}

    def record(episodes: slice, moment: int, physics: np.ndarray, reward: np.ndarray) -> None:
        for column, episode in enumerate(range(episodes.start, episodes.stop)):
            assert (episode, moment) not in told
            told[episode, moment] = (physics[:, column].copy(), np.asarray(reward)[:, column].copy())

    rolled = roll(EACH, halves=halves, record=record)
    assert sorted(told) == [(episode, moment) for episode in range(3) for moment in range(STEPS + 1)]
    for (episode, moment), (physics, reward) in told.items():
        np.testing.assert_array_equal(physics[:, 0], DRAWS.seeds[:, episode])
        np.testing.assert_array_equal(physics[:, 1], moment)
        earned = 100 * EACH[:, episode, moment - 1] - 9 * GAIN if moment else np.zeros(2)
        np.testing.assert_allclose(reward, earned)
    np.testing.assert_allclose(sum(told[0, moment][1] for moment in range(STEPS + 1)), rolled.returns[:, 0])


def test_what_parameters_are_worth_in_a_world_that_stands_still() -> None:
    given: dict[str, Any] = {"checkpoints": ["0", "1"], "episodes": 3}
    found = fixed_level_returns(Pupil(), Paper(), {"gain": GAIN}, occasion="gate", level=0.25, **given)
    np.testing.assert_allclose(found, np.broadcast_to((STEPS * (25.0 - 9 * GAIN))[:, None], (2, 3)))
    clean = fixed_level_returns(Pupil(), Paper(), {"gain": GAIN}, occasion="gate", **given)
    np.testing.assert_allclose(clean, np.broadcast_to((STEPS * -9 * GAIN)[:, None], (2, 3)))

    def seeds(occasion: str) -> list[float]:
        starts: list[np.ndarray] = []

        def record(episodes: slice, moment: int, physics: np.ndarray, reward: np.ndarray) -> None:
            starts.append(physics[..., 0])

        fixed_level_returns(Pupil(), Paper(), {"gain": GAIN}, occasion=occasion, record=record, **given)
        return [float(seed) for seed in starts[0].ravel()]

    assert seeds("gate") == seeds("gate")
    assert len({*seeds("gate"), *seeds("report")}) == 12  # no two occasions, checkpoints or episodes share any
