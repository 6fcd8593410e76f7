"""What an agent or its checkpoints can not do is refused before anything runs, in words."""

import dataclasses
from pathlib import Path

import pytest

import worldfork as wf
from worldfork.errors import Failed, WorldforkError
from worldfork.lab.agents.linear_quadratic import LinearQuadraticPlugin
from worldfork.lab.forks.jobs import Describe, Setting, perform
from worldfork.registration import Registration, canonical, cells, parse

TEXT = """
schema = "worldfork.registration/1"
name = "refused"
[grid]
tasks = ["linear_quadratic"]
checkpoints = [0]
directions = ["away"]
[stream]
decision_points = 2
drift_period = 40
[evaluation]
episodes = 1
[mechanism]
steps = 3
window = 30
MECHANISM
[tasks.linear_quadratic]
agent = "linear_quadratic"
precision = "float64"
drift_scale = 2.0
SETTINGS
"""


def registered(mechanism: str, settings: str = "") -> Registration:
    return parse(TEXT.replace("MECHANISM", mechanism).replace("SETTINGS", settings))


def described(registration: Registration) -> object:
    spelled = canonical(registration.model_dump(mode="json", by_alias=True))
    return perform(Describe(Setting(spelled, ()), cells(registration)))


@pytest.mark.parametrize(
    ("mechanism", "settings", "words"),
    [
        (
            'name = "adapter"',
            'settings = { method = "least_squares" }',
            r"arm `refused`, linear_quadratic, mechanism `adapter`: .*adapters beside its weights can not",
        ),
        (
            'name = "partial"\nsettings = { groups = ["decoder"] }',
            "",
            r"no group of parameters 'decoder' here; the agent has dynamics, transition, control",
        ),
        ('name = "rehearsal"\nsettings = { share = 0.001 }', "", r"a share of 0\.001 of a minibatch of 16 is 0"),
        ('name = "anchor"', "", r"strength: it is missing"),
    ],
)
def test_by_check_and_before_the_first_block(tmp_path: Path, mechanism: str, settings: str, words: str) -> None:
    registration = registered(mechanism, settings)
    with pytest.raises(WorldforkError, match=words):
        wf.check(registration)
    with pytest.raises(WorldforkError, match=words):
        wf.run(registration, tmp_path / "study")
    assert not list(tmp_path.rglob("forks.jsonl"))


def test_a_checkpoint_that_keeps_no_replay_is_not_rehearsed_from(monkeypatch: pytest.MonkeyPatch) -> None:
    registration = registered('name = "rehearsal"')
    assert wf.check(registration, step=False).ready
    configuration = described(registration).configurations[0]  # type: ignore[attr-defined]
    assert len(configuration["checkpoint"]["replay"]) == 64
    plain = described(registered('name = "finetune"')).configurations[0]  # type: ignore[attr-defined]
    assert "replay" not in plain["checkpoint"]
    generate = LinearQuadraticPlugin.generate

    def forgetful(self, *given):  # type: ignore[no-untyped-def]
        return dataclasses.replace(generate(self, *given), replay=None)

    monkeypatch.setattr(LinearQuadraticPlugin, "generate", forgetful)
    words = r"keeps none. Pretrain it with `replay` in its recipe"
    with pytest.raises(WorldforkError, match=words):
        wf.check(registration, step=False)
    failed = described(registered('name = "anchor"\nsettings = { strength = 1.0, importance = "fisher" }'))
    assert isinstance(failed, Failed)
    assert "checkpoint 0 of linear_quadratic keeps none" in failed.reason


def test_check_says_what_every_arm_does() -> None:
    checked = wf.check(registered('name = "rehearsal"\nsettings = { share = 0.25, passes = 2.0 }'), step=False)
    settings = "steps 3, window 30, scope model, passes 2.0, share 0.25"
    assert checked.mechanisms == (f"refused: rehearsal ({settings})",)
    doses = [work.gradient_steps for work in checked.work]
    assert doses == [4 + 4]  # windows of 30 transitions in minibatches of 16, twice: at both decision points
