"""Benchmarks are run by hand and seldom: what they import from worldfork must still be there."""

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
# They take a study and no options, or are modules of one that does.
OTHERS = {"mutation_operators.py", *(file.name for file in FOLDER.glob("recompute*.py"))}
SCRIPTS = sorted(file.name for file in FOLDER.glob("*.py") if file.name not in OTHERS)


@pytest.mark.nightly
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_benchmark_finds_what_it_imports(name: str) -> None:
    done = subprocess.run([sys.executable, FOLDER / name, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
