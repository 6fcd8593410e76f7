"""Schedules, what a level does to a parameter, and what noise does to an action."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldfork.lab.environments import load
from worldfork.lab.environments.drift import PERIODS, Schedule, evaluation_levels, factor, noisy_action

FORKS = 1000 * np.arange(1, 25)  # environment steps of the decision points


def test_the_corrected_schedule_arrives_after_twenty_episodes() -> None:
    away, toward = (Schedule(direction, PERIODS["corrected"]) for direction in ("away", "toward"))
    np.testing.assert_allclose(away.level(FORKS), np.minimum(FORKS / 20_000, 1.0), rtol=0, atol=0)
    np.testing.assert_allclose(toward.level(FORKS[:4]), [0.95, 0.9, 0.85, 0.8], rtol=1e-15)
    assert away.level(0) == 0.0
    assert toward.level(0) == 1.0
    assert (toward.level(FORKS[19:]) == 0.0).all()
    common = set(away.level(FORKS[:19])) & set(toward.level(FORKS[:19]))
    assert len(common) == 19, "the directions meet at 19 levels"


def test_the_legacy_schedule_is_half_way_at_the_first_fork_and_over_at_the_second() -> None:
    legacy = Schedule("away", PERIODS["legacy"])
    assert legacy.level(FORKS[:3]).tolist() == [0.5, 1.0, 1.0]


@given(direction=st.sampled_from(["away", "toward"]), period=st.integers(1, 30_000), step=st.integers(0, 40_000))
def test_the_level_moves_steadily_and_stays_in_bounds(direction: str, period: int, step: int) -> None:
    schedule = Schedule(direction, period)  # type: ignore[arg-type]
    here, there = schedule.level(np.array([step, step + 1]))
    assert 0.0 <= here <= 1.0
    slope = (1 if direction == "away" else -1) / period if step < period else 0.0
    assert there - here == pytest.approx(slope, abs=1e-12)


@given(period=st.integers(1, 30_000), scale=st.sampled_from([None, 0.05, 1.75]), data=st.data())
def test_both_directions_visit_the_very_same_levels(period: int, scale: float | None, data: st.DataObject) -> None:
    step = data.draw(st.integers(0, period))
    away, toward = (Schedule(direction, period, log_scale=scale) for direction in ("away", "toward"))
    there, back = away.level(period - step), toward.level(step)
    assert there.tobytes() == back.tobytes()
    assert away.felt(there).tobytes() == toward.felt(back).tobytes()
    assert toward.level(period + step) == 0.0
    assert away.level(period + step) == 1.0


def test_every_level_of_the_corrected_stream_is_one_of_the_other_direction_too() -> None:
    """Every control step, not the decision points alone: 1 - t / P misses two in five of these by rounding."""
    steps = np.arange(0, 20_001, 4)
    away, toward = (Schedule(direction, PERIODS["corrected"]).level(steps) for direction in ("away", "toward"))
    np.testing.assert_array_equal(toward, away[::-1])
    assert (1.0 - away[::-1] != away).any()


def test_pinned_evaluation_stays_and_forward_evaluation_goes_on() -> None:
    schedule = Schedule("toward", 20_000)
    pinned = evaluation_levels(schedule, 5_000, control_steps=250, action_repeat=4, mode="pinned")
    forward = evaluation_levels(schedule, 5_000, control_steps=250, action_repeat=4, mode="forward")
    assert (pinned == 0.75).all()
    np.testing.assert_array_equal(forward, schedule.level(5_000 + 4 * np.arange(250)))
    assert forward[0] == pinned[0]


def test_the_parameter_is_nominal_at_level_zero_and_scaled_at_level_one() -> None:
    np.testing.assert_array_equal(factor(np.array([0.0, 0.5, 1.0]), 0.5), [1.0, 0.75, 0.5])
    assert factor(np.zeros(1), 1e300)[0] == 1.0


def test_only_the_product_of_level_and_scale_matters() -> None:
    halfway, all_the_way = load("walker-walk", scale=0.5, threads=1), load("walker-walk", scale=0.75, threads=1)
    seeds, action = np.arange(3), np.random.default_rng(0).uniform(-1, 1, (3, 6))
    one, _, _ = halfway.step(halfway.reset(seeds, 0.5), action, 0.5)
    other, _, _ = all_the_way.step(all_the_way.reset(seeds, 1.0), action, 1.0)
    np.testing.assert_array_equal(one.physics, other.physics)


def test_noise_is_scaled_added_and_clipped() -> None:
    executed = noisy_action(np.array([[0.5, -0.5]], np.float32), np.array([[1.0, -2.0]]), sigma_a=0.3, bound=1.0)
    np.testing.assert_allclose(executed, [[0.8, -1.0]], rtol=1e-15)
    planned = np.array([[0.1, 0.2]])
    normal = np.array([[5.0, -5.0]])
    np.testing.assert_array_equal(noisy_action(planned, normal, sigma_a=0.0, bound=1.0), planned)
    np.testing.assert_allclose(noisy_action(planned, normal, sigma_a=1.0, bound=np.inf), [[5.1, -4.8]], rtol=1e-15)


def test_drift_by_the_logarithm_moves_the_parameter_by_equal_factors() -> None:
    schedule = Schedule("away", 100, log_scale=0.05)
    levels = schedule.level(np.arange(0, 101, 25))
    moved = factor(schedule.felt(levels), 0.05)
    np.testing.assert_allclose(moved, 0.05 ** np.array([0.0, 0.25, 0.5, 0.75, 1.0]), rtol=1e-12)
    assert (moved[0], moved[-1]) == (1.0, factor(np.ones(1), 0.05)[0])  # both ends as in a linear drift
    np.testing.assert_array_equal(Schedule("away", 100).felt(levels), levels)
    np.testing.assert_array_equal(Schedule("away", 100, log_scale=1.0).felt(levels), levels)
