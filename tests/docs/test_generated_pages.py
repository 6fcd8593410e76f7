"""Pages that are made from the code or from ledgers are what the code makes now."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import worldfork as wf
from worldfork.built_in import BUILT_IN

ROOT = Path(__file__).parents[2]


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / ".site" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.mark.parametrize("name", ["commands.md", "registration.md"])
def test_the_reference_is_what_the_code_says(name: str) -> None:
    written = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert written == module("reference").pages()[name], "run `make reference`"


def test_a_page_of_evidence_is_what_its_command_prints() -> None:
    evidence = module("evidence")
    assert {"demo", "power-cartpole"} <= set(evidence.studies())
    page = evidence.page("demo", "--permutations", "20")
    assert page.startswith("# demo\n\n`worldfork score results/demo --markdown --paper --permutations 20` prints")
    assert "| cartpole-swingup | " in page


def printed(study: str, arm: str, task: str) -> str:
    """Return the mean dR of all attempted forks with its interval, as the documents print it."""
    effect = wf.score(ROOT / "results" / study, arm=arm, permutations=1)[task].effect.all_attempted
    low, high = effect.student_t.low, effect.student_t.high
    return f"{effect.mean:+.1f} [{low:+.1f}, {high:+.1f}]"


@pytest.mark.parametrize(
    ("study", "arm", "task"),
    [
        ("power-cartpole", "corrected", "cartpole-swingup"),
        ("power-cartpole", "gentle", "cartpole-swingup"),
        ("power-locomotion", "corrected", "walker-walk"),
        ("power-locomotion", "gentle", "walker-walk"),
        ("power-locomotion", "corrected", "cheetah-run"),
        ("power-locomotion", "gentle", "cheetah-run"),
        ("judge-cartpole", "gentle-rehearsal", "cartpole-swingup"),
        ("judge-walker", "gentle-ewc", "walker-walk"),
        ("judge-cheetah", "gentle-ewc", "cheetah-run"),
    ],
)
def test_the_main_tables_say_what_the_ledgers_say(study: str, arm: str, task: str) -> None:
    figure = printed(study, arm, task)
    for page in ("docs/findings.md", "README.md"):
        lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
        assert any(figure in line for line in lines if line.startswith(f"| {task} ")), page


def test_readme_shows_what_its_first_command_prints() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    typed, shown = re.search(r"```bash\n(worldfork score .*?)\n```\n\n```text\n(.*?)```", text, re.DOTALL).groups()
    command = [sys.executable, "-m", *typed.replace("worldfork", "worldfork.cli.main", 1).split()]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "100"}
    )
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    for line in shown.replace("...\n", "").splitlines():
        assert line.rstrip() in lines


def test_every_built_in_trigger_is_on_its_page() -> None:
    text = (ROOT / "docs" / "triggers.md").read_text(encoding="utf-8")
    assert [name for name in BUILT_IN["triggers"] if f"`{name}`" not in text] == []
