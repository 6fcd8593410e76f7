"""The instrument recovers the closed form: coverage, and an error that falls as 1 / sqrt(m)."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from worldfork import randomness
from worldfork.cli.main import app
from worldfork.errors import WorldforkError
from worldfork.lab.forks.context import Context
from worldfork.lab.tools.calibration import Calibration, calibrate, measure
from worldfork.registration import Registration, parse
from worldfork.registration.library import find


def registered(*, stream_seeds: int, episodes: int, text: str | None = None) -> Registration:
    written = text or find("linear-quadratic").read_text()
    seeds = f"stream_seeds = {list(range(stream_seeds))}\n"
    return parse(
        written.replace("episodes = 30", f"episodes = {episodes}").replace("[stream]", seeds + "[stream]", 1)
    )


def measured(registration: Registration, tmp_path_factory: pytest.TempPathFactory) -> Calibration:
    # Key reuse is audited key by key; millions of keys would only repeat what the smaller tests prove.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(randomness, "_audited", None)
        return measure(Context(registration, {}))


def test_the_calibration_recovers_the_closed_form(tmp_path_factory: pytest.TempPathFactory) -> None:
    text = find("linear-quadratic").read_text().replace("decision_points = 24", "decision_points = 6")
    text = text.replace("drift_period = 1000", "drift_period = 250")
    found = measured(registered(stream_seeds=1, episodes=100, text=text), tmp_path_factory)
    assert len(found.truth) == 60
    assert found.covered(100).mean() > 0.85
    assert 0.75 < found.relative_error(100) * 10 < 1.3
    assert found.truth.max() > 0.5  # some updates are worth a lot
    assert found.gain() > 1.2  # and common random numbers buy something here


@pytest.mark.parametrize(
    "change", [('mode = "pinned"', 'mode = "forward"'), ("action_noise = 0.0", "action_noise = 0.5")]
)
def test_forward_and_noisy_evaluations_have_a_closed_form_too(
    change: tuple[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = find("linear-quadratic").read_text().replace("decision_points = 24", "decision_points = 4")
    text = text.replace("drift_period = 1000", "drift_period = 200").replace(*change)
    found = measured(registered(stream_seeds=1, episodes=100, text=text), tmp_path_factory)
    off = (found.measured(100) - found.truth) / found.standard_error(100)
    assert np.sqrt(np.mean(off**2)) < 1.5
    assert np.abs(off).max() < 5


@pytest.mark.nightly
def test_intervals_cover_in_94_to_96_percent_of_4000_forks(tmp_path_factory: pytest.TempPathFactory) -> None:
    found = measured(registered(stream_seeds=17, episodes=200), tmp_path_factory)
    assert len(found.truth) >= 4000
    assert 0.94 <= found.covered(200).mean() <= 0.96
    assert 0.90 <= found.covered(30).mean() <= 0.96
    for m in (10, 30, 100, 200):
        assert found.relative_error(m) * np.sqrt(m) == pytest.approx(1.0, abs=0.06)


def test_another_world_has_no_closed_form() -> None:
    with pytest.raises(WorldforkError, match=r"`demo` runs cartpole-swingup. Try `linear-quadratic`"):
        calibrate("demo")


@pytest.mark.parametrize("name", ["figure.foo", "nowhere/figure.pdf"])
def test_a_figure_that_can_not_be_written_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(
        "worldfork.lab.tools.calibration.calibrate", lambda *_, **__: pytest.fail("it began to work")
    )
    refused = CliRunner().invoke(app, ["calibrate", "--figure", str(tmp_path / name)]).exception
    assert isinstance(refused, WorldforkError)
    assert name.split("/")[0] in str(refused)
