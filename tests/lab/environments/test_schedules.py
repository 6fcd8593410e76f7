"""Schedules beyond the ramp: known shapes, pure draws, and a registration that names them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import worldfork as wf
from worldfork import registry
from worldfork.errors import WorldforkError
from worldfork.lab.environments.drift import DriftShape, Schedule, schedule
from worldfork.randomness import Event, Purpose
from worldfork.registration import Registration, read

EVENT = Event(purpose=Purpose.DRIFT, task="testing")
STEPS = np.array([0, 50, 100, 150, 200, 250])


def levels(name: str, direction: Any = "away", event: Event = EVENT, **settings: Any) -> list[float]:
    return schedule(name, direction, 100, event=event, settings=settings).level(STEPS).tolist()


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("ramp", {}, [0, 0.5, 1, 1, 1, 1]),
        ("constant", {}, [1, 1, 1, 1, 1, 1]),
        ("step", {}, [0, 0, 1, 1, 1, 1]),
        ("step", {"at": 2.0}, [0, 0, 0, 0, 1, 1]),
        ("cyclic", {}, [0, 0.5, 0, 0.5, 0, 0.5]),
        ("saw_wave", {}, [0, 0.5, 1, 0.5, 0, 0.5]),
        ("table", {"points": [[0, 0], [1, 1], [2, 0.5]]}, [0, 0.5, 1, 0.75, 0.5, 0.5]),
        ("table", {"points": [[0, 0.25], [1, 1], [2, 0.5]], "between": "steps"}, [0.25, 0.25, 1, 1, 0.5, 0.5]),
    ],
)
def test_known_shapes(name: str, settings: dict[str, Any], expected: list[float]) -> None:
    assert levels(name, **settings) == expected
    assert levels(name, "toward", **settings) == [1 - level for level in expected]


@pytest.mark.parametrize("name", registry.names("schedules"))
def test_a_level_depends_on_its_step_and_stream_alone(name: str) -> None:
    """Asked for one step at a time, backwards, or for a later part alone, the levels are the same."""
    along = schedule(name, "away", 70, event=EVENT)
    steps = np.arange(400)
    whole = along.level(steps)
    assert ((whole >= 0) & (whole <= 1)).all()
    assert [float(along.level(int(step))) for step in steps[::-40]] == whole[::-40].tolist()
    assert np.array_equal(along.level(steps[300:]), whole[300:])
    assert np.array_equal(schedule(name, "away", 70, event=EVENT).level(steps), whole)
    np.testing.assert_allclose(schedule(name, "toward", 70, event=EVENT).level(steps), 1 - whole, atol=1e-15)


@pytest.mark.parametrize("points", [[], [[1, 0]], [[0, 0], [0, 1]], [[0, 0], [1, 2]]])
def test_a_table_has_periods_in_order_and_levels_that_are_some(points: list[list[float]]) -> None:
    with pytest.raises(WorldforkError, match=r"periods that rise from 0 and levels in \[0, 1\]"):
        levels("table", points=points)


@pytest.mark.parametrize("name", ["random_walk", "uniform"])
def test_streams_draw_walks_of_their_own(name: str) -> None:
    other = Event(purpose=Purpose.DRIFT, task="testing", stream_seed=1)
    assert levels(name, event=other) != levels(name)


def test_a_walk_moves_as_far_as_it_says() -> None:
    """Far from both ends, the moves of one period have the registered standard deviation."""
    moved = []
    for stream in range(400):
        event = Event(purpose=Purpose.DRIFT, stream_seed=stream)
        walk = schedule("random_walk", "away", 100, event=event, settings={"spread": 0.01, "moves": 10})
        moved.append(float(walk.level(100)))  # |N(0, 0.01)|, reflected at 0
    assert np.sqrt(np.mean(np.square(moved))) == pytest.approx(0.01, rel=0.1)


def test_the_ramp_is_the_one_that_always_was() -> None:
    assert schedule("ramp", "away", 100, event=EVENT) == Schedule("away", 100)
    assert type(schedule("ramp", "away", 100, event=EVENT)) is Schedule


class Outside(DriftShape):
    def level(self, periods: np.ndarray, key: np.ndarray) -> np.ndarray:
        return periods


def test_a_level_outside_its_range_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    with pytest.raises(WorldforkError, match=r"`Outside` gave levels .* from 0\.0 to 2\.5; expected"):
        schedule(f"{Path(__file__).stem}:Outside", "away", 100, event=EVENT).level(STEPS)


REGISTERED = """
extends = "linear-quadratic"
name = "saw"
[grid]
checkpoints = [0]
[stream]
decision_points = 3
drift_period = 50
schedule = "saw_wave"
"""


def registered(folder: Path, name: str) -> Registration:
    path = folder / f"{name}.toml"
    path.write_text(REGISTERED.replace("saw_wave", name), encoding="utf-8")
    return read(path)


def test_a_study_drifts_as_registered(tmp_path: Path) -> None:
    study = wf.run(registered(tmp_path, "saw_wave"), tmp_path / "saw")
    away = study.forks().filter(study.forks()["direction"] == "away").sort("k")
    assert away["level"].to_list() == [1.0, 0.0, 1.0]
    assert not wf.verify(study).problems
    with pytest.raises(WorldforkError, match=r"no schedule called 'zigzag'.*saw_wave"):
        wf.check(registered(tmp_path, "zigzag"))


def test_a_ramp_is_not_written_down(tmp_path: Path) -> None:
    """Registrations from before there were other schedules keep their digest."""
    streams = [registered(tmp_path, name).model_dump(mode="json")["arms"][0]["stream"] for name in ("ramp", "step")]
    assert "schedule" not in streams[0]
    assert streams[1]["schedule"] == "step"
