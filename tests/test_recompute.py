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


def test_what_is_undefined_where_one_checkpoint_alone_is_retained_is_derived(recompute, tmp_path):
    """Of three checkpoints two forks of one are retained, in one direction: every null is expected, and a figure
    in its place differs."""
    directed = tiny.AUTHORED.replace('["away"]', '["away", "toward"]').replace(
        "decision_points = 3", "decision_points = 6"
    )

    def row(cell, k):
        hold = (100.0 + k + 7 * cell.checkpoint, 90.0 + k * k)
        kept = (cell.checkpoint, cell.direction) == (1, "away") and k in (2, 5)
        update = (80.0 - 3 * k, 70.0) if kept else (0.3 * k, cell.checkpoint + 0.1 * k)
        level = 0.1 * (k if cell.direction == "away" else 7 - k)
        signals = {"residual": k + 0.3 * cell.checkpoint, "clock": float(k)}
        means = {"r_hold": sum(hold) / 2, "r_update": sum(update) / 2, "delta": (sum(update) - sum(hold)) / 2}
        return {"hold": hold, "update": update, "level": level, "signals": signals, **means}

    authored = directed.replace("checkpoints = [0]", "checkpoints = [0, 1, 2]")
    study = tiny.write(tmp_path / "study", rows=6, authored=authored, of_cell=row)
    ledger, plain = recompute.read(study.path), score_ledger(study.path, triggers="residual,clock").to_json()
    (arm,) = ledger

    def checked(figures):
        book, printed = recompute.Ledger(), recompute.Watched(figures)
        scores = {(arm, "linear_quadratic"): printed["arms"][arm]["tasks"]["linear_quadratic"]}
        forks, score = ledger[arm]["linear_quadratic"], scores[arm, "linear_quadratic"]
        means = {(arm, "linear_quadratic"): recompute.judge(forks, book, "tiny linear_quadratic", score)}
        recompute.check_task(forks, book, "tiny linear_quadratic", score)
        recompute.check_families(ledger, scores, means, recompute.PAPERS_CANDIDATES, book)
        return book

    found = checked(plain)
    assert (found.wrong, found.compared > 300) == ([], True)
    task = plain["arms"][arm]["tasks"]["linear_quadratic"]
    assert (task["forks"]["retained"], task["direction_contrast"]["retained"]) == (2, None)
    task["policies"]["earned"]["position_table"]["mean"] = 0.0
    task["triggers"]["residual"]["fires"] = 0
    task["triggers"]["residual"]["useful"] = {"useful": False, "does_not_beat": []}
    task["effect"]["retained"]["by_direction"]["toward"] = 0.0
    task["direction_contrast"]["retained"] = task["direction_contrast"]["all_attempted"]
    assert sorted({where.split(".", 1)[1] for where, _, _ in checked(plain).wrong}) == [
        "directions.retained",
        "effect.retained.toward",
        "triggers.position_table.mean",
        "triggers.residual of one checkpoint[1]",
        "triggers.residual.useful[1]",
    ]


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
    [
        *("corrected", "demo", "dose", "forward", "legacy", "precision"),
        *("replication", "scope", "stochasticity", "window"),
    ],
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
