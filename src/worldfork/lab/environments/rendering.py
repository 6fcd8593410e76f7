"""Pictures of a world's states, off screen. Import it only where pictures are wanted: physics works without OpenGL.

The published model is rendered, textures and all, by its first camera: it follows the body, or, for cartpole, shows
the whole rail. Axes: S numbers of physical state, H by W pixels.
"""

import importlib
import os
import platform
import subprocess
import sys
from types import TracebackType
from typing import Any, Final

import mujoco
import numpy as np
from jaxtyping import Float64, UInt8

from worldfork.errors import WorldforkError
from worldfork.lab.environments.base import Environment
from worldfork.lab.environments.simulators import WHOLE_STATE
from worldfork.lab.environments.suite import SuiteEnvironment, compiled

WIDTH, HEIGHT = 320, 240
# In order of preference; software renderers are behind both of Linux's where there is no graphics card.
BACKENDS: Final = {"Linux": ("egl", "osmesa"), "Darwin": ("cgl",), "Windows": ("glfw",)}
NAMED: Final = ("egl", "osmesa", "cgl", "glfw")
OFF: Final = ("disable", "disabled", "off", "false", "0")
SHADOWS: Final = 1024  # the published 2048 doubles the time of a software renderer; at this size nobody can tell
PROBE: Final = """
import importlib, sys
context = importlib.import_module(f"mujoco.{sys.argv[1]}").GLContext(8, 8)
context.make_current()
context.free()
"""


class Camera:
    """Takes pictures of one task's states, within `with`: it holds an OpenGL context."""

    def __init__(
        self, environment: Environment | SuiteEnvironment, *, width: int = WIDTH, height: int = HEIGHT
    ) -> None:
        if not isinstance(environment, SuiteEnvironment):
            raise WorldforkError(
                f"{environment.name} has no picture: only the Control Suite's tasks are rendered. What its "
                "episodes returned is in the ledger: `worldfork export`."
            )
        self.seconds_per_step = environment.model.opt.timestep * environment.substeps * environment.action_repeat
        text, included = environment.model_xml()
        self._model: Any = compiled(mujoco.MjSpec.from_string(text, include=included))
        self._model.vis.quality.shadowsize = SHADOWS
        self._data: Any = mujoco.MjData(self._model)
        self._scene: Any = mujoco.MjvScene(self._model, maxgeom=1_000)
        self._view: Any = mujoco.MjvCamera()
        self._view.type, self._view.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, 0
        self._frame: Any = mujoco.MjrRect(0, 0, width, height)
        self._pixels: UInt8[np.ndarray, "H W 3"] = np.zeros((height, width, 3), np.uint8)

    def __enter__(self) -> "Camera":
        backend = importlib.import_module(f"mujoco.{find_backend()}")
        self._window = backend.GLContext(self._frame.width, self._frame.height)
        self._window.make_current()
        self._context: Any = mujoco.MjrContext(self._model, mujoco.mjtFontScale.mjFONTSCALE_100)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._context.free()
        self._window.free()

    def picture(self, physics: Float64[np.ndarray, " S"]) -> UInt8[np.ndarray, "H W 3"]:
        """Return the world in this state; of one that diverged, the last picture again."""
        if np.isfinite(physics).all():
            mujoco.mj_setState(self._model, self._data, physics, WHOLE_STATE)
            mujoco.mj_forward(self._model, self._data)
            mujoco.mjv_updateScene(
                self._model,
                self._data,
                mujoco.MjvOption(),
                None,
                self._view,
                mujoco.mjtCatBit.mjCAT_ALL,
                self._scene,
            )
            mujoco.mjr_render(self._frame, self._scene, self._context)
            mujoco.mjr_readPixels(self._pixels, None, self._frame, self._context)
        return self._pixels[::-1].copy()  # OpenGL's rows go upwards


def find_backend() -> str:
    """Return the way of rendering that works here: the one that MUJOCO_GL names, or the first that can.

    Each is tried in a process of its own: PyOpenGL can not change its mind within one, and a bad driver may crash.
    """
    asked = os.environ.get("MUJOCO_GL", "").strip().lower()
    if asked in OFF:
        raise WorldforkError(f"MUJOCO_GL={asked} switches rendering off. Unset it to make pictures.")
    failures = []
    for name in (asked,) if asked in NAMED else BACKENDS.get(platform.system(), ("glfw",)):
        command = [sys.executable, "-P", "-c", PROBE, name]
        tried = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        if tried.returncode == 0:
            return name
        reason = (tried.stderr.strip().splitlines() or [f"it ended with code {tried.returncode}"])[-1]
        failures.append(f"{name}: {reason[:150]}")
    raise WorldforkError(
        "There is no renderer on this machine, and pictures need one. On Debian or Ubuntu: "
        "apt-get install libosmesa6 (or, for EGL, libegl1 libopengl0 libgl1-mesa-dri); neither needs a display "
        "or a graphics card. What was tried:\n  " + "\n  ".join(failures)
    )
