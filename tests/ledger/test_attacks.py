"""The attacks of benchmarks/attacks, at a size that a night can take; the scripts say what they do."""

import subprocess
import sys
from pathlib import Path

import pytest

ATTACKS = Path(__file__).parents[2] / "benchmarks" / "attacks"


@pytest.mark.parametrize(
    ("script", "options", "expected"),
    [
        ("flips.py", ["--count", "100"], "100 flips: "),
        pytest.param("flips.py", ["--count", "10000"], "10000 flips: ", marks=pytest.mark.nightly),
        pytest.param(
            "kills.py", ["--count", "100", "--mujoco", "10"], "every one resumed", marks=pytest.mark.nightly
        ),
    ],
)
def test_attacks(script: str, options: list[str], expected: str) -> None:
    command = [sys.executable, str(ATTACKS / script), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert expected in done.stdout
