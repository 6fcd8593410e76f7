"""The attacks of benchmarks/attacks, at a size that a night can take; the scripts say what they do."""

import importlib.util
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


def test_a_failure_beside_busy_processes_is_counted_and_the_processes_end() -> None:
    """With commands that take no time: the suite itself is what the script is for."""
    found = importlib.util.spec_from_file_location("busy", ATTACKS / "busy.py")
    assert found is not None
    assert found.loader is not None
    busy = importlib.util.module_from_spec(found)
    found.loader.exec_module(busy)
    with busy.busy_processes(2) as processes:
        assert [process.poll() for process in processes] == [None, None]
    assert all(process.returncode is not None for process in processes)
    for code, failures in ((0, 0), (1, 2)):
        assert (
            busy.beside_others([sys.executable, "-S", "-c", f"raise SystemExit({code})"], times=2, busy=1)
            == failures
        )
