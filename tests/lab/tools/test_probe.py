"""A trial before an hour is spent: what is not reproducible is refused while nothing has been written."""

import sys
from pathlib import Path

import pytest

from worldfork.errors import WorldforkError
from worldfork.lab.run import run
from worldfork.lab.tools.probe import Probe, outside_tasks, probe
from worldfork.ledger.store import Study
from worldfork.ledger.verify import verify
from worldfork.registration import parse

REGISTRATION = """
schema = "worldfork.registration/1"
name = "tried"
[grid]
tasks = ["linear_quadratic"]
checkpoints = [0, 1]
directions = ["toward", "away"]
[stream]
decision_points = 2
drift_period = 100
[evaluation]
episodes = 3
[mechanism]
steps = 5
window = 100
[tasks.linear_quadratic]
agent = "AGENT"
drift_scale = 2.0
precision = "float64"
"""
MODULE = """
import dataclasses, os
import numpy as np
from worldfork.lab.agents.linear_quadratic import LinearQuadratic, LinearQuadraticPlugin

CALLS = []

class Agent(LinearQuadratic):
{body}

class Plugin(LinearQuadraticPlugin):
    def build(self, environment, *, precision):
        return Agent(environment.matrices)
"""
ACT = """
    def act(self, parameters, belief, plan_keys):
        decision = super().act(parameters, belief, plan_keys)
        return dataclasses.replace(decision, action=decision.action + ({added}))
"""
FIT = """
    def fit(self, parameters, optimiser, window, **given):
        given["batch_keys"] = given["batch_keys"] ^ np.uint32(np.random.randint(2**31))
        return super().fit(parameters, optimiser, window, **given)
"""


@pytest.fixture
def registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Writes an agent of somebody else's, and a registration that names it."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(name: str, body: str, text: str = REGISTRATION) -> Path:
        tmp_path.joinpath(f"{name}.py").write_text(MODULE.replace("{body}", body))
        path = tmp_path / f"{name}.toml"
        path.write_text(text.replace("AGENT", f"{name}:Plugin"))
        return path

    yield write
    for name in [
        name for name, module in sys.modules.items() if str(tmp_path) in str(getattr(module, "__file__", ""))
    ]:
        del sys.modules[name]


BROKEN = {
    # users who forget `plan_keys`
    "noisy": (
        ACT.format(added="np.random.standard_normal(decision.action.shape)"),
        r"dR was .*, not 0\.0.*of its own",
    ),
    "counting": (
        ACT.format(added="CALLS.append(1) or len(CALLS) * 1e-3"),
        r"Computed a second time other digits came",
    ),
    "by_process": (ACT.format(added="os.getpid() * 1e-6"), r"In another process other digits came"),
    "crowded": (
        ACT.format(added="len(plan_keys) * 1e-9"),
        r"In a block of two forks.*world.*or the agent.*say True",
    ),
    "shuffled": (FIT, r"Computed a second time other digits came.*fit.grad_norm"),
    "raising": (
        ACT.format(added="oops"),
        r"can not be computed: NameError: name 'oops'.*\(raising\.py, line \d+, in act\)",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_not_reproducible_is_refused_before_anything_is_written(
    registered, tmp_path: Path, name: str
) -> None:
    body, words = BROKEN[name]
    path = registered(name, body)
    with pytest.raises(WorldforkError, match=rf"(?s)The trial before the study failed.*{words}"):
        run(path, tmp_path / "study")
    assert not (tmp_path / "study").exists()


def test_without_the_trial_nobody_would_know(registered, tmp_path: Path) -> None:
    """What the trial is for: the ledger of such an agent verifies, and its null is not zero."""
    text = REGISTRATION.replace("steps = 5", 'name = "none"')
    run(registered("noisy", BROKEN["noisy"][0], text), tmp_path / "study", probe=False)
    deltas = [row.delta for cell in Study(tmp_path / "study").cells() for row in cell.rows()]
    assert verify(tmp_path / "study").problems == ()
    assert 0.0 not in deltas


def test_a_sound_agent_is_tried_once_and_told_and_so_is_a_signal_that_reads_what_nobody_logs(
    registered, tmp_path: Path
) -> None:
    tmp_path.joinpath("mistyped.py").write_text(
        "from worldfork.lab.signals import Signal\n"
        "class Mistyped(Signal):\n"
        "    def read(self, episode):\n"
        "        return episode.steps['eror'].mean() if 'eror' in episode.steps else float('nan')\n"
    )
    text = REGISTRATION.replace('name = "tried"', 'name = "tried"\nsignals = ["residual", "mistyped:Mistyped"]')
    path, lines = registered("sound", "    pass", text), []
    run(path, tmp_path / "study", notify=lines.append)
    (line,) = [line for line in lines if line.startswith("probed: `none` gave dR = 0.0")]
    assert "in another process" in line
    assert line.endswith("; the signal `Mistyped` had nothing to say")
    lines.clear()
    run(path, tmp_path / "study", notify=lines.append)
    assert not [line for line in lines if line.startswith("probed")]


def test_a_scope_or_a_checkpoint_that_is_not_accepted_is_said(tmp_path: Path) -> None:
    text = REGISTRATION.replace("AGENT", "linear_quadratic")
    trial = probe(parse(text.replace("window = 100", 'window = 100\nscope = "modle"')))
    assert "scope" in str(trial)
    assert not trial.passed
    with pytest.raises(WorldforkError, match="no checkpoint file"):
        probe(parse(text.replace("drift_scale", 'checkpoints = "nowhere-{checkpoint}.safetensors"\ndrift_scale')))


def test_what_comes_with_worldfork_is_tried_when_asked_every_arm_and_those_that_become_the_same_once() -> None:
    arms = """
[[arms]]
name = "few"
[[arms]]
name = "more"
mechanism = { steps = 50 }
[[arms]]
name = "one"
mechanism = { steps = 1 }
"""
    registration = parse(REGISTRATION.replace("AGENT", "linear_quadratic") + arms)
    assert outside_tasks(registration) == []  # `run` does not ask
    trial = probe(registration)
    assert isinstance(trial, Probe)
    assert trial.passed, str(trial)
    assert trial.forks == 3  # `none`, 2 steps, 1 step
