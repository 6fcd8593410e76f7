"""The examples keep the contract, and the published ledger verifies. The tiny study runs nightly."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import worldfork as wf

EXAMPLE = Path(__file__).parents[2] / "examples" / "pets"
SETTINGS = {"members": 2, "hidden": 8, "candidates": 16, "horizon": 2, "iterations": 1}


@pytest.mark.parametrize("example", ["pets", "tdmpc2"])
def test_a_published_ledger_is_whole_and_says_what_the_page_says(example: str) -> None:
    ledger = EXAMPLE.parent / example / "ledger"
    assert not wf.verify(ledger).problems
    effect = wf.score(ledger, permutations=50, triggers=("residual",))["reacher"].effect.all_attempted
    page = " ".join((EXAMPLE.parents[1] / "docs" / f"{example}.md").read_text(encoding="utf-8").split())
    assert f"the mean dR is {effect.mean:.2f} per episode" in page
    assert f"[{effect.student_t.low:.2f}, {effect.student_t.high:.2f}]" in page


@pytest.mark.parametrize(("example", "agent"), [("pets", "pets.py"), ("tdmpc2", "agent.py")])
def test_it_is_as_short_as_the_page_says(example: str, agent: str) -> None:
    page = (EXAMPLE.parents[1] / "docs" / f"{example}.md").read_text(encoding="utf-8")
    files = [EXAMPLE.parent / example / name for name in (agent, "study.toml", "main.py")]
    lines = {file.name: len(file.read_text("utf-8").splitlines()) for file in files}
    assert sum(lines.values()) < 300
    assert all(f"| `{name}` | {count} |" in page for name, count in lines.items())


@pytest.mark.nightly
def test_an_agent_that_is_not_ours_keeps_the_contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("stable_worldmodel", reason="it is the example's dependency, not worldfork's")
    from worldfork.lab.agents.stateful import save_checkpoint
    from worldfork.lab.environments import load
    from worldfork.testing import check_agent

    monkeypatch.syspath_prepend(str(EXAMPLE.parent / "tdmpc2"))
    from agent import TDMPC2Plugin  # type: ignore[import-not-found]

    world = load("gymnasium:Reacher-v5", scale=2.0, settings={"drift": "dof_damping[:2]"})
    plugin = TDMPC2Plugin(width=16, candidates=16, iterations=1)
    shim, path = plugin.build(world, precision="float32"), tmp_path / "reacher-0.safetensors"
    save_checkpoint(plugin.make(world).get_state(), path, agent=shim, environment=world, episodes=1)
    check_agent(plugin, world, checkpoints=[path])


@pytest.mark.nightly
def test_the_agent_keeps_the_contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="torch is the example's dependency, not worldfork's")
    from worldfork.lab.agents.stateful import save_checkpoint
    from worldfork.lab.environments import load
    from worldfork.testing import check_agent

    monkeypatch.syspath_prepend(str(EXAMPLE))
    from pets import PetsPlugin  # type: ignore[import-not-found]

    world = load("gymnasium:Reacher-v5", scale=2.0, settings={"drift": "dof_damping[:2]"})
    plugin = PetsPlugin(**SETTINGS)
    agent, pets = plugin.build(world, precision="float32"), plugin.make(world)
    path = tmp_path / "reacher-0.safetensors"
    save_checkpoint(pets.get_state(), path, agent=agent, environment=world, episodes=1)
    check_agent(plugin, world, checkpoints=[path])


@pytest.mark.nightly
def test_the_tiny_study_runs(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is the example's dependency, not worldfork's")
    for file in EXAMPLE.iterdir():
        if file.is_file():
            shutil.copy(file, tmp_path)
    source = os.pathsep.join([str(EXAMPLE.parents[1] / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "main.py", "--tiny"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": source},
    )
    assert done.returncode == 0, done.stderr
    assert len(wf.Study(tmp_path / "runs/pets").forks()) == 8
    assert (tmp_path / "runs/pets/report/index.html").is_file()
