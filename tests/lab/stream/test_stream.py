"""The stream and what is known of it at a decision point."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from worldfork import registry
from worldfork.errors import WorldforkError
from worldfork.lab.agents.base import Surprise
from worldfork.lab.agents.linear_quadratic import LinearQuadratic, LinearQuadraticPlugin
from worldfork.lab.environments.drift import Schedule
from worldfork.lab.environments.linear_quadratic import World
from worldfork.lab.signals import Episode, Signal
from worldfork.lab.stream import Stream, deploy, segment, window
from worldfork.randomness import Event, Purpose

WORLD = World(scale=3.0)
AGENT = LinearQuadraticPlugin().build(WORLD, precision="float64")


def streams(directions: list[str], points: int = 3) -> list[Stream]:
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
    assert together[1].digests == alone[0].digests
    assert together[0].digests != alone[0].digests


def test_a_stream_is_the_same_whether_its_later_episodes_are_run_or_not() -> None:
    """Nothing passes from one episode to the next, so side by side is the same as one after another."""
    long, short = streams(["away"], points=3)[0], streams(["away"], points=2)[0]
    np.testing.assert_array_equal(long.log["error"][:100], short.log["error"])
    np.testing.assert_array_equal(long.log["level"][:100], short.log["level"])
    assert len(short.recording["final"]) == 2


def test_the_log_counts_in_both_units_and_the_drift_moves_every_step() -> None:
    stream = streams(["away"])[0]
    log, recording = stream.log, stream.recording
    np.testing.assert_array_equal(log["step"], np.arange(150))
    np.testing.assert_array_equal(log["episode"], np.repeat([1, 2, 3], 50))
    np.testing.assert_allclose(log["level"], np.minimum(1, np.arange(150) / 100))
    np.testing.assert_allclose(log["rate"], np.where(np.arange(150) < 100, 0.01, 0.0), atol=1e-15)
    np.testing.assert_array_equal(np.flatnonzero(recording["first"]), [0, 50, 100])
    assert np.isnan(log["kl"]).all()


def test_the_window_holds_what_led_to_what() -> None:
    recording = streams(["away"])[0].recording
    seen = window([recording, recording], [1, 3])
    np.testing.assert_array_equal(seen.size, [50, 150])
    assert seen.observation.shape == (2, 150, 2)
    inner = seen.next_observation[1, :-1] == seen.observation[1, 1:]
    np.testing.assert_array_equal(
        np.flatnonzero(~inner.all(axis=1)), [49, 99]
    )  # an episode's last step leads elsewhere
    np.testing.assert_array_equal(seen.next_observation[1, [49, 99, 149]], recording["final"])
    assert (seen.observation[0, 50:] == 0).all()
    only = segment([recording], [2])
    np.testing.assert_array_equal(only.observation[0], recording["observation"][50:100])
    np.testing.assert_array_equal(only.next_observation[0, -1], recording["final"][1])


def test_a_log_has_what_the_agent_measured_under_names_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    observe = LinearQuadratic.observe

    def named(*given: Any) -> Surprise:
        surprise = observe(*given)
        return dataclasses.replace(surprise, signals={**surprise.signals, name: surprise.signals["error"] + 1.0})

    monkeypatch.setattr(LinearQuadratic, "observe", named)
    name = "disagreement"
    log = streams(["away"])[0].log
    np.testing.assert_array_equal(log["disagreement"], log["error"] + 1.0)
    name = "level"
    with pytest.raises(WorldforkError, match="'level', which is the name of another column"):
        streams(["away"])


def test_signals_read_their_episode() -> None:
    error = np.arange(1.0, 5.0)
    episode = Episode(
        k=2,
        steps={"error": error, "kl": 10 * error, "reward": np.full(4, 0.5)},
        level=0.7,
        clean_return=10.0,
        validation_loss=0.25,
    )
    found = {name: registry.build("signals", name, Signal).read(episode) for name in registry.names("signals")}
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
    without_latents = dataclasses.replace(episode, steps={"error": error, "reward": error})
    assert np.isnan(registry.build("signals", "kl", Signal).read(without_latents))
