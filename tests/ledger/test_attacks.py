"""The attacks of benchmarks/attacks, at a size that a night can take; the scripts say what they do."""

import subprocess
import sys
from pathlib import Path

import pytest

ATTACKS = Path(__file__).parents[2] / "benchmarks" / "attacks"


def attack(name: str, *options: str) -> str:
    command = [sys.executable, str(ATTACKS / name), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_hundred_flipped_bits_are_named_or_listed() -> None:
    assert "100 flips: " in attack("flips.py", "--count", "100")


@pytest.mark.nightly
def test_ten_thousand_flipped_bits_are_named_or_listed() -> None:
    assert "10000 flips: " in attack("flips.py", "--count", "10000")


@pytest.mark.nightly
def test_kills_lose_nothing_whole_studies() -> None:
    assert "every one resumed" in attack("kills.py", "--count", "100", "--mujoco", "10")


@pytest.mark.nightly
def test_exits_have_the_right_code() -> None:
    assert "60 exits, 0 with another code" in attack("exits.py", "--count", "60")
