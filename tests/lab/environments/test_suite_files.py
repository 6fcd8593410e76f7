"""Where the models come from: the installed package, or a bare folder; and which versions may be used."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import mujoco
import numpy as np
import pytest
from waiting import PATIENCE

import worldfork
from worldfork.errors import WorldforkError
from worldfork.lab.environments import load, suite
from worldfork.lab.environments.suite import SuiteEnvironment

SOURCE = Path(worldfork.__file__).parents[1]


def run_without_dm_control(tmp_path: Path, *, script: str, models: bool) -> subprocess.CompletedProcess[str]:
    """A Python whose packages are ours less dm_control, with or without a bare folder of its model files."""
    packages = tmp_path / "packages"
    packages.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.startswith("dm_control"):
            (packages / entry.name).symlink_to(entry)
    path = [str(packages), str(SOURCE)]
    if models:
        bare = tmp_path / "bare" / "dm_control" / "suite"
        (bare / "common").mkdir(parents=True)
        for name in ("walker.xml", *suite.COMMON):
            (bare / name).write_bytes((suite.suite_folder() / name).read_bytes())
        path.append(str(tmp_path / "bare"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    return subprocess.run(
        [sys.executable, "-S", "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_a_bare_folder_of_models_is_enough(tmp_path: Path) -> None:
    script = """
import importlib.metadata, sys
import numpy as np
from worldfork.lab.environments import load
print(load("walker-walk", threads=1).reset(np.array([5])).observation.tobytes().hex())
assert "dm_control" not in sys.modules
try:
    importlib.metadata.version("dm_control")
except importlib.metadata.PackageNotFoundError:
    print("bare")
"""
    result = run_without_dm_control(tmp_path, script=script, models=True)
    here = load("walker-walk", threads=1).reset(np.array([5])).observation.tobytes().hex()
    assert result.stdout.split() == [here, "bare"], result.stderr


def test_missing_models_say_what_to_install(tmp_path: Path) -> None:
    script = "from worldfork.lab.environments import load; load('walker-walk')"
    result = run_without_dm_control(tmp_path, script=script, models=False)
    assert "WorldforkError: The Control Suite's model files were not found" in result.stderr
    assert "pip install --no-deps dm_control==1.0.50" in result.stderr


def test_loading_a_task_does_not_import_dm_control() -> None:
    script = """
import sys
from worldfork.lab.environments import load
assert "mujoco" not in sys.modules, "the catalogue alone must not need MuJoCo"
load("cheetah-run", threads=1)
assert not {name for name in sys.modules if name.split(".")[0] in ("dm_control", "glfw", "OpenGL")}
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=PATIENCE)


def test_a_pair_that_does_not_work_together_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mujoco, "__version__", "4.0.0")
    with pytest.raises(
        WorldforkError, match=r"need mujoco 3\.17\.0 with dm_control 1\.0\.50; found mujoco 4\.0\.0"
    ):
        load("cartpole-swingup")


def test_another_dm_control_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda name: "1.0.49")
    with pytest.raises(WorldforkError, match=r"with dm_control 1\.0\.49"):
        load("cartpole-swingup")


def test_the_published_model_is_there_for_pictures() -> None:
    environment = load("walker-walk", threads=1)
    assert isinstance(environment, SuiteEnvironment)
    text, included = environment.model_xml()
    full = mujoco.MjSpec.from_string(text, include=included).compile()
    assert full.ntexdata > 1_000_000 > environment.model.ntexdata
    state = environment.reset(np.array([0]))
    data = mujoco.MjData(full)
    mujoco.mj_setState(full, data, state.physics[0], mujoco.mjtState.mjSTATE_INTEGRATION)
    mujoco.mj_forward(full, data)
    assert data.body("torso").xpos[2] == pytest.approx(state.observation[0, 14])
