"""The page on agents that keep their state inside, followed to its end: from an agent to a score."""

import sys
from pathlib import Path

import pytest
from pages import FENCE, ROOT, python_blocks, write_modules
from typer.testing import CliRunner

import worldfork as wf
from worldfork.cli.main import app

PAGE = ROOT / "docs" / "stateful.md"
SMALLER = {
    "checkpoints = [0, 1, 2, 3, 4, 5]": "checkpoints = [0, 1]",
    "decision_points = 4": "decision_points = 1",
    "drift_period = 400": "drift_period = 50",
    "episodes = 4": "episodes = 1",
    "steps = 50": "steps = 2",
    "window = 200": "window = 20",
}
QUICKER = {"run": ["--no-probe"], "score": ["--permutations", "20"]}


def test_the_registration_of_the_page_runs_and_is_scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    write_modules(PAGE, tmp_path)
    train = next(block for block in python_blocks(PAGE) if "save_checkpoint(" in block)
    try:
        exec(train.replace("steps=2000", "steps=20"), {})
        (registration,) = (body for language, body in FENCE.findall(PAGE.read_text("utf-8")) if language == "toml")
        for registered, smaller in SMALLER.items():
            assert registered in registration
            registration = registration.replace(registered, smaller)
        (tmp_path / "study.toml").write_text(registration)
        (commands,) = (body for language, body in FENCE.findall(PAGE.read_text("utf-8")) if language == "bash")
        for command in commands.splitlines():
            words = command.split()[1:]
            done = CliRunner().invoke(app, [*words, *QUICKER.get(words[0], [])])
            assert done.exit_code == 0, f"{command}: {done.output}\n{done.exception!r}"
        assert len(wf.Study(tmp_path / "runs/sampler").forks()) == 2 * 2
    finally:
        sys.modules.pop("sampler", None)
