"""Pictures: of the state that is given, for every task of the suite, or an error that says what to install."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from rendered import need_renderer, run

from worldfork.errors import WorldforkError
from worldfork.lab.environments import load, rendering

SCRIPT = """
import json
import numpy as np
from worldfork.lab.environments import load
from worldfork.lab.environments.rendering import Camera
from worldfork.registry import names
seen = {}
for task in names("environments"):
    if task == "linear_quadratic":
        continue
    environment = load(task, threads=1)
    state = environment.reset(np.arange(2))
    moved = state
    for _ in range(5):
        moved = environment.step(moved, np.ones((2, environment.action_size)))[0]
    with Camera(environment) as camera:
        one, other, later = (camera.picture(row) for row in (*state.physics, moved.physics[0]))
        again = camera.picture(state.physics[0])
        kept = camera.picture(np.full_like(state.physics[0], np.nan))
    body = one[:, :, 0].astype(int) - one[:, :, 2] > 40  # bodies are orange, the rest is blue
    seen[task] = {
        "shape": list(one.shape),
        "colours": len(np.unique(one.reshape(-1, 3), axis=0)),
        "same": bool((one == again).all()),
        "other": bool((one != other).any()),
        "later": bool((one != later).any()),
        "kept": bool((kept == again).all()),
        "body": float(body.mean()),
        "seconds": camera.seconds_per_step,
    }
print(json.dumps(seen))
"""


def test_every_task_of_the_suite_is_seen() -> None:
    need_renderer()
    done = run("-c", SCRIPT)
    assert done.returncode == 0, done.stderr
    seen: dict[str, dict[str, Any]] = json.loads(done.stdout)
    assert {task: found["seconds"] for task, found in seen.items()} == pytest.approx(
        {"cartpole-swingup": 0.04, "walker-walk": 0.1, "cheetah-run": 0.04, "hopper-hop": 0.08}
    )
    for task, found in seen.items():
        assert found["shape"] == [240, 320, 3], task
        assert found["colours"] > 100, task
        assert found["same"], task
        assert found["other"], task
        assert found["later"], task
        assert found["kept"], task
        assert 0.002 < found["body"] < 0.3, task


def test_a_world_without_a_picture_says_so() -> None:
    with pytest.raises(WorldforkError, match="linear_quadratic has no picture"):
        rendering.Camera(load("linear_quadratic"))


def test_rendering_that_is_switched_off_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUJOCO_GL", "disabled")
    with pytest.raises(WorldforkError, match="MUJOCO_GL=disabled switches rendering off"):
        rendering.find_backend()


def test_the_fallback_is_taken_and_without_any_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    working: set[str] = {"osmesa"}
    asked: list[str] = []

    def probe(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        asked.append(command[-1])
        failed = command[-1] not in working
        return subprocess.CompletedProcess(command, int(failed), "", "ImportError: no library" if failed else "")

    monkeypatch.setattr(rendering.subprocess, "run", probe)
    monkeypatch.setattr(rendering.platform, "system", lambda: "Linux")
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    assert rendering.find_backend() == "osmesa"
    assert asked == ["egl", "osmesa"]
    monkeypatch.setenv("MUJOCO_GL", "egl")  # what the user names is the only one tried
    with pytest.raises(WorldforkError, match=r"apt-get install libosmesa6 (.|\n)*egl: ImportError: no library"):
        rendering.find_backend()
    assert asked == ["egl", "osmesa", "egl"]


# What PyOpenGL does where the library that MUJOCO_GL names is not installed.
NO_LIBRARY = "raise AttributeError(\"'NoneType' object has no attribute 'glGetError'\")\n"
PHYSICS_AND_A_PICTURE = """
import numpy as np
from worldfork.errors import WorldforkError
from worldfork.lab.environments import load
environment = load("cartpole-swingup", threads=1)
print(environment.step(environment.reset(np.arange(2)), np.ones((2, 1)))[2].shape)
from worldfork.lab.environments.rendering import find_backend
try:
    find_backend()
except WorldforkError as error:
    print(error)
"""


def test_a_renderer_that_is_named_and_not_installed_stops_pictures_alone(tmp_path: Path) -> None:
    (tmp_path / "OpenGL").mkdir()
    (tmp_path / "OpenGL" / "__init__.py").write_text("")
    (tmp_path / "OpenGL" / "GL.py").write_text(NO_LIBRARY)
    path = os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", "")))
    done = run("-c", PHYSICS_AND_A_PICTURE, MUJOCO_GL="osmesa", PYTHONPATH=path)
    assert done.returncode == 0, done.stderr
    shape, *told = done.stdout.splitlines()
    assert shape == "(2,)"
    assert "apt-get install libosmesa6" in told[0]
    assert told[-1].startswith("  osmesa: AttributeError")
