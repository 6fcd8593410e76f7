"""The page on Stable-Baselines3, followed as a stranger would: from model.zip to a verified ledger."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pages import FENCE, ROOT, python_blocks, run_page

import worldfork as wf
from worldfork.registration import parse

PAGE = ROOT / "docs" / "sb3.md"
EXAMPLE = ROOT / "examples" / "sb3"
TOML = [body for language, body in FENCE.findall(PAGE.read_text(encoding="utf-8")) if language == "toml"]
SMALLER = {
    "checkpoints = [0, 1, 2, 3, 4, 5]": "checkpoints = [0, 1]",
    "decision_points = 4": "decision_points = 2",
    "episodes = 8": "episodes = 2",
    "steps = 200": "steps = 5",
}
TRAIN = """
from stable_baselines3 import SAC
for index in range(2):
    networks = {"net_arch": [64, 64]}
    model = SAC("MlpPolicy", "Pendulum-v1", learning_rate=1e-3, policy_kwargs=networks, seed=index)
    model.learn(150)
    model.save(f"models/sac-{index}")
"""


def test_the_example_is_what_the_page_shows() -> None:
    registration, line = TOML
    assert registration.replace('algorithm = "SAC"\n', f'algorithm = "SAC"\n{line}') == (
        EXAMPLE / "study.toml"
    ).read_text(encoding="utf-8")
    world = next(block for block in python_blocks(PAGE) if block.startswith("# pendulum.py"))
    assert world.removeprefix("# pendulum.py\n") == (EXAMPLE / "pendulum.py").read_text(encoding="utf-8")
    assert parse((EXAMPLE / "study.toml").read_text(encoding="utf-8")).tasks["pendulum"].agent == "sb3"


def test_a_stranger_comes_from_archives_to_a_verified_ledger(tmp_path: Path) -> None:
    pytest.importorskip("stable_baselines3", reason="SB3 comes with the extra `sb3`")
    (tmp_path / "models").mkdir()
    run_page(PAGE, tmp_path).check_returncode()  # writes pendulum.py, and packs a model
    subprocess.run([sys.executable, "-c", TRAIN], cwd=tmp_path, check=True, capture_output=True)
    registration = TOML[0]
    for registered, smaller in SMALLER.items():
        assert registered in registration
        registration = registration.replace(registered, smaller)
    (tmp_path / "study.toml").write_text(registration)
    refused = worldfork("check", "study.toml", at=tmp_path)
    assert refused.returncode == 1, "the registration is valid, and its models do not fit it"
    assert TOML[1].strip() in refused.stdout, "the page's line is the one that is printed"
    (tmp_path / "study.toml").write_text(registration.replace('"SAC"\n', f'"SAC"\n{TOML[1]}'))
    for words in (["run", "study.toml", "-o", "runs/pendulum", "--no-probe"], ["verify", "runs/pendulum"]):
        done = worldfork(*words, at=tmp_path)
        assert done.returncode == 0, done.stderr
    forks = wf.Study(tmp_path / "runs/pendulum").forks()
    assert len(forks) == 2 * 2 * 2
    assert forks["r_update"].is_finite().all()


def worldfork(*words: str, at: Path) -> subprocess.CompletedProcess[str]:
    source = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "worldfork.cli.main", *words]
    environment = {**os.environ, "PYTHONPATH": source}
    return subprocess.run(command, cwd=at, capture_output=True, text=True, check=False, env=environment)
