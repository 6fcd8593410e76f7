"""Every figure of the score is computed again by code that shares nothing with the desk, and none is forgotten."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"


@pytest.fixture(scope="module")
def recompute():
    sys.path.insert(0, str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("recompute", BENCHMARKS / "recompute.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(BENCHMARKS))


def test_it_shares_nothing_with_the_desk():
    for path in BENCHMARKS.glob("recompute*.py"):
        imported = [line for line in path.read_text().splitlines() if line.lstrip().startswith(("import", "from"))]
        assert not any("worldfork" in line for line in imported), path


def test_a_figure_that_nobody_looked_at_is_named(recompute):
    """The same figure of another arm, task, trigger or checkpoint counts; another figure does not."""

    def task(**more):
        return {"triggers": {"kl": {"auc": 0.5, **more}}, "bins": [{"mean": 1.0}, {"mean": 2.0}]}

    printed = recompute.Watched({"arms": {"a": {"tasks": {"t": task(), "u": task(fresh=1.0)}}}})
    assert printed["arms"]["a"]["tasks"]["t"]["triggers"]["kl"]["auc"] == 0.5
    assert printed["arms"]["a"]["tasks"]["u"]["bins"][1]["mean"] == 2.0
    missed = recompute._kinds(printed.leaves()) - recompute._kinds(printed.seen)
    assert missed == {"arms.*.tasks.*.triggers.*.fresh"}


def test_a_figure_that_differs_is_noticed(recompute):
    book = recompute.Ledger()
    book.same("right", [1.0, 2.0, None, "held"], [1.0, 2.0 + 1e-12, None, "held"])
    assert (book.compared, book.wrong) == (4, [])
    book.same("wrong", [1.0, 2.0], [1.0, 2.001])
    book.same("short", [1.0], [1.0, 2.0])
    assert [where for where, _, _ in book.wrong] == ["wrong[1]", "short"]


@pytest.mark.nightly
def test_every_figure_of_the_corrected_study_agrees():
    command = [sys.executable, str(BENCHMARKS / "recompute.py"), str(ROOT / "results" / "corrected")]
    ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-3000:]
