"""The example on retraining: what it prints is what its page says, and nothing in it needs a simulator."""

import subprocess
import sys
from pathlib import Path

import pytest

from worldfork.ledger.verify import verify

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "retraining" / "retrain.py"
PAGE = ROOT / "docs" / "retraining.md"
PHYSICS = ("physics", "gravity", "friction", "simulator", "mujoco", "planner", "joint", "torque")


def test_the_page_prints_the_examples_loop() -> None:
    printed = PAGE.read_text(encoding="utf-8").split("```py\n")[1].split("```")[0]
    code = EXAMPLE.read_text(encoding="utf-8")
    assert printed in code
    assert sum(bool(line.strip()) for line in code.splitlines()) < 60


@pytest.mark.nightly
def test_the_example_finds_when_retraining_pays(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    command = [sys.executable, str(EXAMPLE), str(tmp_path / "retraining")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    free, paid = (" ".join(answer.split()) for answer in done.stdout.split("Larger is better")[1:])
    assert "Updating every time helps (resolved)" in free
    assert "Updating every time hurts (resolved)" in paid
    assert "Update only when error is 0.1417 or more" in paid
    verdict = verify(tmp_path / "retraining")
    assert (verdict.rows, verdict.cells, verdict.problems) == (160, 16, ())
    printed = PAGE.read_text(encoding="utf-8").split("```text\n")[1:]
    for answer, excerpt in zip((free, paid), printed, strict=True):
        assert " ".join(excerpt.split("```")[0].split()) in answer, "the page prints something else"
    assert not [word for word in PHYSICS if word in done.stdout.lower()]
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.stdout == done.stdout, "a run that was complete computes nothing"
