"""Pictures in tests are made in processes of their own: the tests' has MUJOCO_GL=disabled.

Without a browser or a renderer the tests that need one are skipped, or fail if WORLDFORK_REQUIRE_GRAPHICS is 1.
"""

import functools
import os
import subprocess
import sys
from typing import NoReturn

import pytest


def run(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Python with these arguments, where rendering is not switched off."""
    environment = {name: value for name, value in os.environ.items() if name != "MUJOCO_GL"}
    return subprocess.run(
        [sys.executable, *arguments], env={**environment, **settings}, capture_output=True, text=True, check=False
    )


@functools.cache
def missing() -> str | None:
    """Why there is no renderer here, or None."""
    script = "from worldfork.lab.environments.rendering import find_backend; find_backend()"
    tried = run("-c", script)
    return None if tried.returncode == 0 else tried.stderr.strip()[-400:]


def need_renderer() -> None:
    """Skip the test, and say why, where no picture can be made; fail it where graphics are required."""
    if reason := missing():
        unavailable(f"no renderer: {reason}")


def unavailable(reason: str) -> NoReturn:
    """Skip the test for this reason, or fail it where graphics are required."""
    if os.environ.get("WORLDFORK_REQUIRE_GRAPHICS") == "1":
        pytest.fail(f"{reason} (WORLDFORK_REQUIRE_GRAPHICS is 1, so this is no skip)", pytrace=False)
    pytest.skip(reason)
