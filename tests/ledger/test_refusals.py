"""A run that is refused has changed nothing, whoever refuses it and however late."""

import subprocess
import sys
from pathlib import Path

import pytest
from deployed import DEPLOYED
from kill_and_resume import REGISTRATION, chained

import worldfork as wf
from worldfork.errors import WorldforkError
from worldfork.lab.run import run
from worldfork.ledger.verify import verify


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ('checkpoints = "models/{checkpoint}.safetensors"', "There is no checkpoint file"),
        ("settings = { batchh = 3 }", "batchh"),
        ("competence_floor = 1e9", "below the registered floor"),
    ],
)
def test_a_refused_run_leaves_no_folder_behind(tmp_path: Path, change: str, message: str) -> None:
    (tmp_path / "small.toml").write_text(REGISTRATION + change)
    with pytest.raises(WorldforkError, match=message):
        run(tmp_path / "small.toml", tmp_path / "runs" / "study")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["small.toml"]


def test_a_run_without_the_lab_leaves_no_folder_behind(tmp_path: Path) -> None:
    script = "import sys; sys.modules['jax'] = None; from worldfork.cli.main import main; main()"
    command = [sys.executable, "-c", script, "run", "demo", "-o", "study"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "jax" in done.stderr
    assert list(tmp_path.iterdir()) == []


ANALYSIS_ONLY = ("polars", "matplotlib", "jinja2", "markupsafe", "threadpoolctl", "river", "PIL")
WITHOUT_THE_DESK = f"""
import sys
sys.modules.update(dict.fromkeys({ANALYSIS_ONLY}))  # an import of any of them now fails as if it were not installed
from worldfork.cli.main import main
main()
"""


# Thresholds that are fitted on the study's own forks, a policy that matches one of them, and every detector.
FITTED = (
    DEPLOYED.replace("threshold = 0.007", 'threshold = "fitted"')
    + """
[deployment.policies.matched]
trigger = "random"
matches = "residual"
"""
    + "".join(
        f'[deployment.policies.{name.replace("_", "-")}]\ntrigger = "{name}"\n'
        for name in ("adwin", "page_hinkley", "kswin", "conformal")
    )
)


def test_a_machine_with_the_labs_packages_alone_runs_a_study_and_follows_its_policies(tmp_path: Path) -> None:
    """With every byte of a machine that has the analysis' packages too, thresholds included."""
    (tmp_path / "small.toml").write_text(FITTED)
    done = _without_the_analysis("run", "small.toml", "-o", "study", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert verify(tmp_path / "study").problems == ()
    wf.run(tmp_path / "small.toml", tmp_path / "with-the-analysis")
    assert "deployments/thresholds.json" in chained(tmp_path / "study")
    assert chained(tmp_path / "study") == chained(tmp_path / "with-the-analysis")


def test_a_machine_with_the_labs_packages_alone_checks_a_registration(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(FITTED)
    done = _without_the_analysis("check", "small.toml", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "policies" in done.stdout


def _without_the_analysis(*arguments: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", WITHOUT_THE_DESK, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
