"""Every checkpoint of a study is opened before it costs anything, and counts once."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
from falling import LedgePlugin, Walker
from typer.testing import CliRunner

import worldfork as wf
from worldfork.cli.main import app
from worldfork.errors import WorldforkError
from worldfork.lab.agents.stateful import StatefulAgent, save_checkpoint
from worldfork.lab.tools import cost
from worldfork.ledger.verify import verify
from worldfork.registration import parse

STUDY = """
schema = "worldfork.registration/1"
name = "ledge"
[grid]
tasks = ["ledge"]
checkpoints = [0, 1, 2]
directions = ["away"]
[stream]
decision_points = 2
drift_period = 60
[evaluation]
episodes = 2
[mechanism]
steps = 1
window = 30
[tasks.ledge]
agent = "falling:WalkerPlugin"
environment = "falling:LedgePlugin"
drift_scale = 0.5
checkpoints = "models/walker-{checkpoint}.safetensors"
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A registration beside three models."""
    world = LedgePlugin().build(scale=1.0, threads=1)
    agent = StatefulAgent(Walker(world), world)
    for index in range(3):
        state = {"pace": np.array([1.0 - 0.25 * index])}
        path = tmp_path / f"models/walker-{index}.safetensors"
        save_checkpoint(state, path, agent=agent, environment=world, episodes=2)
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    return path


def test_models_that_are_whole_and_distinct_can_run(study: Path) -> None:
    assert wf.check(study, step=False).ready


def test_every_broken_model_is_named(study: Path) -> None:
    for index in (1, 2):
        file = study.parent / f"models/walker-{index}.safetensors"
        file.write_bytes(file.read_bytes()[:20])
    (problem,) = wf.check(study, step=False).missing
    assert "walker-1.safetensors" in problem
    assert "walker-2.safetensors" in problem
    assert "walker-0.safetensors" not in problem
    assert "is not the state of a checkpoint" in problem


def test_absent_models_are_named_with_the_folder_where_paths_start(study: Path) -> None:
    (study.parent / "models/walker-0.safetensors").unlink()
    (study.parent / "models/walker-2.safetensors").unlink()
    (problem,) = wf.check(study, step=False).missing
    assert problem.startswith(
        "2 of 3 checkpoints are not there (walker-0.safetensors, walker-2.safetensors). There is no checkpoint file"
    )
    assert f"starts at the registration's folder `{study.parent}`" in problem


def test_one_model_under_two_numbers_is_refused(study: Path) -> None:
    first = study.parent / "models/walker-0.safetensors"
    first.with_name("walker-2.safetensors").write_bytes(first.read_bytes())
    (problem,) = wf.check(study, step=False).missing
    assert problem.startswith("checkpoints 0, 2 of ledge are one model")
    with pytest.raises(WorldforkError, match="checkpoints 0, 2 of ledge are one model"):
        wf.run(study, study.parent / "rows", probe=False)
    assert not (study.parent / "rows" / "cells").exists()


def test_a_ledger_in_which_one_model_counts_as_several_is_no_good(tmp_path: Path) -> None:
    checkpoint = {"digest": "c" * 64, "clean_return": 1.0}
    authored = tiny.AUTHORED.replace("checkpoints = [0]", "checkpoints = [0, 1]")
    tiny.write(tmp_path / "tiny", authored=authored, checkpoint=checkpoint)
    (problem,) = verify(tmp_path / "tiny").problems
    assert "are one model (digest cccccccccccc), which would count as 2" in problem


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("models/walker-0.safetensors", "one file for 3 checkpoints, which would count one model so many times"),
        ("models/walker-{checkpont}.safetensors", "placeholders {task} and {checkpoint}; got {checkpont}"),
    ],
)
def test_a_path_that_is_the_same_for_all_checkpoints_is_refused(path: str, words: str) -> None:
    with pytest.raises(WorldforkError, match=words.replace("{", r"\{")):
        parse(STUDY.replace("models/walker-{checkpoint}.safetensors", path))


def test_an_environment_of_gymnasium_is_answered_with_its_name() -> None:
    with pytest.raises(WorldforkError, match="'gymnasium:InvertedPendulum-v5'"):
        parse(STUDY.replace("falling:LedgePlugin", "InvertedPendulum-v5"))


def test_a_single_checkpoint_may_have_a_path_of_its_own() -> None:
    text = STUDY.replace("[0, 1, 2]", "[0]").replace("walker-{checkpoint}", "walker-best")
    assert parse(text).tasks["ledge"].checkpoints == "models/walker-best.safetensors"


def test_a_step_that_fails_says_where_and_with_which_sizes(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def learn(self: Walker, window: Any, *, steps: int, rate: float) -> dict[str, float]:
        return {"loss_before": float(window.observation.reshape(7, 3).mean())}

    monkeypatch.setattr(Walker, "learn", learn)
    with pytest.raises(
        WorldforkError, match=r"cannot reshape .*test_checked_models.py, line \d+, in learn"
    ) as told:
        wf.check(study)
    assert str(told.value).endswith("The world has 1 observation and 1 action.")


def test_what_it_takes_to_begin_an_episode_is_not_counted_at_every_step(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost, "_roll", lambda *of, steps: 10.0 + 0.5 * steps)
    monkeypatch.setattr(cost, "_train", lambda *of: 3.0)
    (spent,) = wf.check(study).seconds
    assert spent.streams == pytest.approx(3 * 20 * 0.5)  # three streams, whose episodes run side by side
    assert spent.evaluations == pytest.approx(6 * 20 * 0.5)  # six forks
    assert spent.updates == pytest.approx(6 * 3.0)


def test_check_says_how_long_a_run_takes_where_that_is_quickly_found(study: Path) -> None:
    checked = wf.check(study)
    (spent,) = checked.seconds
    assert spent.total > 0
    assert spent.episodes == (4,), "two branches of one fork"
    assert checked.probed == ("ledge",)
    done = CliRunner().invoke(app, ["check", str(study)])
    assert re.search(r"time  all: about [\d.,]+ (s|minutes|hours) here with one worker", done.output)
    assert "probe a new run first tries ledge on one small block" in done.output
    assert wf.check(study, step=False).seconds == ()
