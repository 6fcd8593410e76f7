"""The studies that the attacks beside this file are made on, and the commands that make them."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from kill_and_resume import REGISTRATION, chained, in_a_child  # noqa: E402

__all__ = [
    "CARTPOLE",
    "LIGHT_CARTPOLE",
    "REGISTRATION",
    "ROOT",
    "chained",
    "command",
    "environment",
    "finish",
    "in_a_child",
    "variants",
]

# Two cells of a real simulator and a real world model, as small as they come.
CARTPOLE = """
extends = "demo"
name = "small"
[grid]
checkpoints = [0]
[stream]
decision_points = 2
drift_period = 2000
[evaluation]
episodes = 2
[mechanism]
steps = 5
[execution]
forks_per_block = 2
streams_per_batch = 2
"""
# The same simulator under an agent that needs a second, so that many runs of it can be killed.
LIGHT_CARTPOLE = """
schema = "worldfork.registration/1"
name = "light"
[grid]
tasks = ["cartpole-swingup"]
checkpoints = [0]
directions = ["toward", "away"]
[stream]
decision_points = 3
drift_period = 3000
[evaluation]
episodes = 2
[mechanism]
steps = 20
window = 500
[execution]
forks_per_block = 2
streams_per_batch = 1
[tasks.cartpole-swingup]
agent = "light_agent:LightPlugin"
drift_scale = 1.5
precision = "float64"
"""


def variants() -> list[str]:
    """Linear-quadratic studies of four seeds, with one arm and with two."""
    one_arm = REGISTRATION[: REGISTRATION.index("[[arms]]")] + REGISTRATION[REGISTRATION.index("[execution]") :]
    return [
        text.replace('name = "killed"', f'name = "killed"\nseed = {seed}')
        for text in (REGISTRATION, one_arm)
        for seed in range(4)
    ]


def command(*arguments: str | Path) -> list[str]:
    """The command line `worldfork ARGUMENTS`, of this checkout."""
    return [sys.executable, "-m", "worldfork.cli.main", *map(str, arguments)]


def environment(cache: Path | None = None) -> Mapping[str, str]:
    """Of a process of its own; compiled programs are kept in `cache`, so that the next starts in seconds."""
    kept = {"JAX_COMPILATION_CACHE_DIR": str(cache), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    path = os.pathsep.join(filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu", **(kept if cache else {})}


def finish(*arguments: str | Path, cache: Path | None = None) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end."""
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, check=False, env=environment(cache), cwd=ROOT
    )
