"""Every figure of the score is computed again by code that shares nothing with the desk, and none is forgotten."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
import tiny

from worldfork.desk.scoring import score_ledger

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


SWEPT = {
    "doses": [f"mechanism = {{ steps = {steps} }}" for steps in (100, 25, 400)],
    "noises": [f"stream = {{ action_noise = {sigma} }}" for sigma in (0.0, 0.3)],
}


@pytest.mark.parametrize("kind", SWEPT)
def test_arms_that_vary_one_setting_are_computed_again(recompute, tmp_path, kind):
    """Of a study written by hand: every figure agrees, every figure is looked at, and a wrong one is noticed."""
    registered = tiny.AUTHORED.replace("checkpoints = [0]", "checkpoints = [0, 1, 2]")
    registered += "".join(f'[[arms]]\nname = "a{place}"\n{arm}\n' for place, arm in enumerate(SWEPT[kind]))

    def row(cell, k):
        hold, delta = 10.0 + k + cell.checkpoint, (1 + int(cell.arm[1])) * (cell.checkpoint - 0.7) - 0.3 * k
        update = 0.5 if (cell.arm, cell.checkpoint, k) == ("a1", 0, 2) else hold + delta  # one diverges
        signals = {"residual": delta**2, "kl": None if k == 1 else delta}
        both = {"hold": (hold,), "update": (update,), "r_hold": hold, "r_update": update, "delta": update - hold}
        return {**both, "signals": signals}

    study = tiny.write(tmp_path / "study", authored=registered, of_cell=row)
    printed = recompute.Watched(score_ledger(study.path, permutations=20, triggers="residual").to_json())
    scores = {(arm, "linear_quadratic"): one["tasks"]["linear_quadratic"] for arm, one in printed["arms"].items()}
    stored = json.loads((study.path / "registration.json").read_text())["registration"]
    book, ledger = recompute.Ledger(), recompute.read(study.path)

    def check(figures, into):
        if kind == "doses":
            recompute.check_doses(ledger, stored, figures, into)
        else:
            recompute.check_noises(ledger, stored, figures, scores, into)

    check(printed[kind], book)
    assert book.wrong == []
    assert book.compared > 50
    looked_at = recompute._kinds(path for path in printed.seen if path[0] == kind)
    every = recompute._kinds(path for path in printed.leaves() if path[0] == kind)
    assert {one for one in every - looked_at if not any(seen.startswith(f"{one}.") for seen in looked_at)} == set()
    wrong, figures = recompute.Ledger(), json.loads(json.dumps(printed[kind]))
    figures["linear_quadratic"]["all"][kind]["a1"]["mean"] += 1e-3
    check(figures, wrong)
    assert [where for where, _, _ in wrong.wrong] == [f"{kind} linear_quadratic all.a1.mean[0]"]


def test_a_study_whose_tests_can_not_be_listed_is_refused():
    command = [sys.executable, str(BENCHMARKS / "recompute.py"), str(ROOT / "results" / "mechanisms-demo")]
    ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 2
    assert "has [2] checkpoints a task" in ended.stdout


def recomputed(study):
    command = [sys.executable, str(BENCHMARKS / "recompute.py"), str(ROOT / "results" / study)]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "study",
    ["corrected", "demo", "dose", "forward", "legacy", "precision", "replication", "scope", "stochasticity"],
)
def test_every_figure_of_a_published_study_agrees(study):
    ended = recomputed(study)
    assert ended.returncode == 0, ended.stdout[-3000:]


def registered(**changes):
    given = {"scoring": {"divergence_fraction": 0.3}, "grid": {"update_seeds": [0]}, "deployment": None}
    return given | changes


@pytest.mark.parametrize(
    ("checkpoints", "changes", "reason"),
    [
        (2, {}, "checkpoints a task"),
        (12, {}, "checkpoints a task"),
        (5, {"scoring": {"divergence_fraction": "off"}}, "rule of divergence"),
        (5, {"grid": {"update_seeds": [0, 1]}}, "several draws"),
        (5, {"deployment": {"policies": []}}, "follows policies"),
    ],
)
def test_a_study_that_it_does_not_fit_is_refused_with_the_reason(recompute, checkpoints, changes, reason):
    ledger = {"arm": {"task": {"c": list(range(checkpoints))}}}
    assert reason in recompute.not_repeatable(ledger, registered(**changes))
    assert recompute.not_repeatable({"arm": {"task": {"c": [0, 1, 2]}}}, registered()) is None
