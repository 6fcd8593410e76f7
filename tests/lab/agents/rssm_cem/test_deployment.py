"""Checkpoints outside a study: by name, with another search, at a level; and the rule for a drift scale."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from worldfork.cli.main import app
from worldfork.errors import WorldforkError
from worldfork.lab.tools import drift_scale
from worldfork.lab.tools.drift_scale import drift_grid, registered_scale
from worldfork.lab.tools.evaluation import LoadedAgent, find_checkpoint, load_agent

BUNDLED = "bundled:cartpole-swingup-0"


def test_checkpoints_that_come_along_have_names(tmp_path):
    assert find_checkpoint(BUNDLED).is_file()
    assert find_checkpoint(tmp_path / "x.safetensors") == tmp_path / "x.safetensors"
    with pytest.raises(WorldforkError, match="there are cartpole-swingup-0, cartpole-swingup-1"):
        find_checkpoint("bundled:walker-walk-0")


def test_a_search_that_can_not_be_is_refused_when_checkpoints_are_deployed():
    for planner, message in (
        ({"speed": 3}, "speed"),
        ({"elites": -1}, "elites: expected 2 or more"),
        ({"candidates": "x"}, "whole number"),
    ):
        with pytest.raises(WorldforkError, match=message):
            load_agent([BUNDLED], precision="tf32", planner=planner)


def test_a_level_without_a_scale_is_refused():
    refused = CliRunner().invoke(app, ["evaluate", BUNDLED, "--level", "0.5"])
    assert isinstance(refused.exception, WorldforkError)
    assert "add --scale" in str(refused.exception)


def test_the_drift_rule():
    assert registered_scale((1.0, 1.25, 1.5), np.array([800.0, 400.0, 300.0])) == 1.25
    assert registered_scale((1.0, 0.5, 0.1), np.array([800.0, 790.0, 780.0])) == 0.1
    for task in ("cartpole-swingup", "walker-walk", "cheetah-run", "hopper-hop"):
        assert drift_grid(task)[0] == 1.0
    with pytest.raises(WorldforkError, match="has no grid of drift scales"):
        drift_grid("linear_quadratic")


def test_a_drift_scale_is_measured_and_written(tmp_path, monkeypatch):
    def falling(deployed, occasion, *, episodes, level):
        assert deployed.environment.scale == 3.0
        return np.full((1, episodes), 800.0 * (1.0 - level))

    monkeypatch.setattr(LoadedAgent, "returns", falling)
    record = drift_scale.measure([BUNDLED], episodes=2, threads=1)
    assert (record["task"], record["scale"]) == ("cartpole-swingup", 2.0)  # level 0.5 of a grid from 1 to 3
    drift_scale.write(record, tmp_path / "drift")
    assert json.loads((tmp_path / "drift" / "drift-scale-cartpole-swingup.json").read_text()) == record
    assert (tmp_path / "drift" / "drift-scale-cartpole-swingup.png").exists()
