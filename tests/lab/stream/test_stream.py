"""The stream and what is known of it at a decision point."""

import numpy as np
import pytest

from worldfork.lab.agents.linear_quadratic import build
from worldfork.lab.environments.drift import Schedule
from worldfork.lab.environments.linear_quadratic import build as build_world
from worldfork.lab.stream import Recording, StreamLog, deploy, segment, signals, window
from worldfork.randomness import Event, Purpose

WORLD = build_world(scale=3.0)
AGENT = build(WORLD, {}, "float64")


def streams(directions: list[str], points: int = 3) -> list[tuple[StreamLog, Recording]]:
    count = len(directions)
    return deploy(
        AGENT,
        WORLD,
        {"A": np.stack([WORLD.matrices.transition] * count), "B": np.stack([WORLD.matrices.control] * count)},
        events=[Event(purpose=Purpose.INITIAL_STATE, direction=direction) for direction in directions],
        schedules=[Schedule(direction, 100) for direction in directions],  # type: ignore[arg-type]
        decision_points=points,
        action_noise=0.0,
    )


def test_a_stream_is_the_same_alone_and_in_company() -> None:
    together, alone = streams(["toward", "away"]), streams(["away"])
    for one, other in zip(together[1], alone[0], strict=True):
        for name in one.__dataclass_fields__:
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_a_stream_is_the_same_whether_its_later_episodes_are_run_or_not() -> None:
    """Nothing passes from one episode to the next, so side by side is the same as one after another."""
    (long, _), (short, seen) = streams(["away"], points=3)[0], streams(["away"], points=2)[0]
    np.testing.assert_array_equal(long.error[:100], short.error)
    np.testing.assert_array_equal(long.level[:100], short.level)
    assert len(seen.final) == 2


def test_the_log_counts_in_both_units_and_the_drift_moves_every_step() -> None:
    log, recording = streams(["away"])[0]
    np.testing.assert_array_equal(log.step, np.arange(150))
    np.testing.assert_array_equal(log.episode, np.repeat([1, 2, 3], 50))
    np.testing.assert_allclose(log.level, np.minimum(1, np.arange(150) / 100))
    np.testing.assert_allclose(log.rate, np.where(np.arange(150) < 100, 0.01, 0.0), atol=1e-15)
    np.testing.assert_array_equal(np.flatnonzero(recording.first), [0, 50, 100])
    assert np.isnan(log.kl).all()


def test_the_window_holds_what_led_to_what() -> None:
    _, recording = streams(["away"])[0]
    seen = window([recording, recording], [1, 3])
    np.testing.assert_array_equal(seen.size, [50, 150])
    assert seen.observation.shape == (2, 150, 2)
    inner = seen.next_observation[1, :-1] == seen.observation[1, 1:]
    np.testing.assert_array_equal(
        np.flatnonzero(~inner.all(axis=1)), [49, 99]
    )  # an episode's last step leads elsewhere
    np.testing.assert_array_equal(seen.next_observation[1, [49, 99, 149]], recording.final)
    assert (seen.observation[0, 50:] == 0).all()
    only = segment([recording], [2])
    np.testing.assert_array_equal(only.observation[0], recording.observation[50:100])
    np.testing.assert_array_equal(only.next_observation[0, -1], recording.final[1])


def test_signals_read_the_episode_before_the_fork_and_nothing_else() -> None:
    error = np.concatenate([np.full(4, 9.0), np.arange(1.0, 5.0), np.full(4, 99.0)])
    log = StreamLog(
        step=np.arange(12),
        env_step=np.arange(12),
        episode=np.repeat([1, 2, 3], 4),
        error=error,
        kl=10 * error,
        level=np.linspace(0, 1, 12),
        rate=np.zeros(12),
        sigma_a=np.zeros(12),
        reward=np.repeat([5.0, 0.5, 7.0], 4),
    )
    found = signals(log, 2, level=0.7, clean_return=10.0, validation_loss=0.25)
    assert found == {
        "residual": 2.5,
        "kl": 25.0,
        "running_variance": pytest.approx(5 / 3),
        "percentile": pytest.approx(3.85),
        "return_deficit": 8.0,
        "validation_loss": 0.25,
        "drift": 0.7,
        "clock": 2.0,
    }
