"""Every figure of the score is computed again by code that shares nothing with analysis, and none is forgotten."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import stopped
import tiny
from deployed import DEPLOYED

import worldfork as wf
from worldfork.analysis.score import score_ledger

ROOT = Path(__file__).parents[1]
FOLLOWED = (
    DEPLOYED.replace("checkpoints = [0, 1]", "checkpoints = [0, 1, 2, 3, 4, 5, 6]")
    .replace("threshold = 0.007", 'threshold = "fitted"')
    .replace('directions = ["away"]', 'directions = ["toward", "away"]')
    + """
[deployment.policies.matched]
trigger = "random"
matches = "residual"

[deployment.policies.running]
trigger = "residual"
threshold = "running"
rate = 0.4

[deployment.policies.adwin]
trigger = "adwin"

[deployment.policies.try]
trigger = "always"
trial = 2

[deployment.policies.try-running]
trigger = "residual"
threshold = "running"
rate = 0.4
arm = "many"
trial = 1
"""
)
BENCHMARKS = ROOT / "benchmarks"


@pytest.fixture(scope="module")
def recompute():
    sys.path.insert(0, str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("recompute", BENCHMARKS / "recompute.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(BENCHMARKS))


def test_it_shares_nothing_with_the_analysis():
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


class WrittenByHand:
    """A study of both directions and six decision points, whose returns and signals a test makes up."""

    def __init__(self, recompute, folder, *, checkpoints, made_up):
        def row(cell, k):
            hold, update, signals = made_up(cell, k)
            level = 0.1 * (k if cell.direction == "away" else 7 - k)
            means = {"r_hold": sum(hold) / 2, "r_update": sum(update) / 2, "delta": (sum(update) - sum(hold)) / 2}
            return {"hold": hold, "update": update, "level": level, "signals": signals, **means}

        authored = tiny.AUTHORED.replace('["away"]', '["away", "toward"]')
        authored = authored.replace("decision_points = 3", "decision_points = 6")
        authored = authored.replace("checkpoints = [0]", f"checkpoints = {list(range(checkpoints))}")
        study = tiny.write(folder, rows=6, authored=authored, of_cell=row)
        self.recompute, self.ledger = recompute, recompute.read(study.path)
        self.printed = score_ledger(study.path, triggers="residual,clock").to_json()
        (self.arm,) = self.ledger

    @property
    def task(self):
        """What is printed of its task; a test may change it."""
        return self.printed["arms"][self.arm]["tasks"]["linear_quadratic"]

    def checked(self):
        """The book of all figures, compared with what is printed now."""
        book, place = self.recompute.Ledger(), (self.arm, "linear_quadratic")
        scores = {place: self.recompute.Watched(self.printed)["arms"][self.arm]["tasks"]["linear_quadratic"]}
        forks, where = self.ledger[self.arm]["linear_quadratic"], "tiny linear_quadratic"
        means = {place: self.recompute.judge(forks, book, where, scores[place])}
        self.recompute.check_task(forks, book, where, scores[place])
        self.recompute.check_families(self.ledger, scores, means, self.recompute.PAPERS_CANDIDATES, book)
        return book


def test_what_is_undefined_where_one_checkpoint_alone_is_retained_is_derived(recompute, tmp_path):
    """Of three checkpoints two forks of one are retained, in one direction: every null is expected, and a figure
    in its place differs."""

    def made_up(cell, k):
        kept = (cell.checkpoint, cell.direction) == (1, "away") and k in (2, 5)
        update = (80.0 - 3 * k, 70.0) if kept else (0.3 * k, cell.checkpoint + 0.1 * k)
        signals = {"residual": k + 0.3 * cell.checkpoint, "clock": float(k)}
        return (100.0 + k + 7 * cell.checkpoint, 90.0 + k * k), update, signals

    study = WrittenByHand(recompute, tmp_path / "study", checkpoints=3, made_up=made_up)
    found, task = study.checked(), study.task
    assert (found.wrong, found.compared > 300) == ([], True)
    assert (task["forks"]["retained"], task["direction_contrast"]["retained"]) == (2, None)
    task["policies"]["earned"]["position_table"]["mean"] = 0.0
    task["triggers"]["residual"]["fires"] = 0
    task["triggers"]["residual"]["useful"] = {"useful": False, "does_not_beat": []}
    task["effect"]["retained"]["by_direction"]["toward"] = 0.0
    task["direction_contrast"]["retained"] = task["direction_contrast"]["all_attempted"]
    assert sorted({where.split(".", 1)[1] for where, _, _ in study.checked().wrong}) == [
        "directions.retained",
        "effect.retained.toward",
        "triggers.position_table.mean",
        "triggers.residual of one checkpoint[1]",
        "triggers.residual.useful[1]",
    ]


@pytest.mark.parametrize("checkpoints", [9, 18])
def test_what_the_analysis_draws_is_compared_within_the_error_of_drawing(recompute, tmp_path, checkpoints):
    """With 9 checkpoints resamples and orders are drawn, with 18 the patterns of signs too: all figures agree, and
    one that is off by more than drawing can explain is noticed."""
    random = np.random.default_rng(5)
    levels = random.normal(20.0, 15.0, checkpoints)

    def made_up(cell, k):
        hold = tuple(random.normal(100.0 + 3 * k, 5.0, 2).tolist())
        gain = levels[cell.checkpoint] - 6.0 * k + (2.0 if cell.direction == "away" else -2.0)
        update = tuple((one + gain + random.normal(0.0, 4.0)) for one in hold)
        return hold, update, {"residual": -gain + random.normal(0.0, 9.0), "clock": float(k)}

    study = WrittenByHand(recompute, tmp_path / "study", checkpoints=checkpoints, made_up=made_up)
    found, task = study.checked(), study.task
    assert (found.wrong, found.compared > 500) == ([], True)
    low, high = task["effect"]["all_attempted"]["bootstrap"]
    task["effect"]["all_attempted"]["bootstrap"] = [low + 0.1 * (high - low), high]
    task["triggers"]["residual"]["swapped"]["p"] += 0.05
    task["judgement"]["anytime"][0] += 1e-6
    assert sorted(where.split(".", 1)[1] for where, _, _ in study.checked().wrong) == [
        "anytime[0]",
        "effect.all_attempted.bootstrap[0]",
        "triggers.residual.swapped[0]",
    ]


def test_signs_in_two_halves_are_all_patterns(recompute):
    """The exact share, by listing patterns and by letting the sums of two halves meet; equal values tie."""
    from recompute_basics import _flipped_in_halves, flip_p

    random = np.random.default_rng(7)
    for values in (random.normal(0.4, 1.0, 11), np.ones(7), np.array([1.0, -1.0, 2.0, 0.0, 0.0]), np.zeros(6)):
        seen = abs(values.sum()) - 1e-9 * np.abs(values).sum()
        assert _flipped_in_halves(values, seen) == flip_p(values)


@pytest.mark.nightly
def test_policies_that_are_followed_are_computed_again(recompute, tmp_path):
    """Every figure agrees and is looked at, and a wrong one of each kind is noticed."""
    (tmp_path / "followed.toml").write_text(FOLLOWED)
    study = wf.run(tmp_path / "followed.toml", tmp_path / "study")
    stored = json.loads((study.path / "registration.json").read_text())["registration"]
    plain, ledger = score_ledger(study.path, permutations=20).to_json(), recompute.read(study.path)

    def checked(figures):
        book, printed = recompute.Ledger(), recompute.Watched(figures)
        recompute.check_deployments(study.path, stored, ledger, printed["deployment"], recompute.holm, book)
        return book, printed

    book, printed = checked(plain)
    assert (book.wrong, book.compared > 500) == ([], True)
    missed = recompute._kinds(printed.leaves()) - recompute._kinds(printed.seen)
    assert {one for one in missed if one.startswith("deployment")} == {"deployment.*.cautions"}
    shown = plain["deployment"]["linear_quadratic"]
    residual = shown["policies"]["residual"]
    residual["advantage"]["mean"] += 1e-6
    residual["ledger_value"] += 1e-6
    residual["fired_at"][1] += 0.5
    shown["policies"]["periodic"]["evaluation_at"][0]["k"] += 1
    shown["forecast"]["rank_correlation"] += 1e-3
    wrong, _ = checked(plain)
    assert [where for where, _, _ in wrong.wrong] == [
        "linear_quadratic periodic.evaluation_at[0]",
        "linear_quadratic residual.fired_at[1]",
        "linear_quadratic residual.ledger_value",
        "linear_quadratic residual.advantage.mean[0]",
        "linear_quadratic.forecast.rank_correlation",
    ]


def test_a_study_with_two_checkpoints_is_refused():
    ended = recomputed("mechanisms-demo")
    assert ended.returncode == 2
    assert "it has 2 checkpoints of a task" in ended.stdout


def recomputed(study):
    command = [sys.executable, str(BENCHMARKS / "recompute.py"), str(ROOT / "results" / study)]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "study",
    [
        *("corrected", "demo", "deployment-demo", "dose", "forward", "hopper-control", "legacy", "precision"),
        *("replication", "replication-gentle", "scope", "stochasticity", "window"),
        *("power-cartpole", "power-cartpole-earlier", "judge-cartpole"),
        *("power-locomotion", "judge-walker", "judge-cheetah", "severity-walker"),
    ],
)
def test_every_figure_of_a_published_study_agrees(study):
    ended = recomputed(study)
    assert ended.returncode == 0, ended.stdout[-3000:]


@pytest.mark.parametrize(
    ("checkpoints", "draws", "reason"), [(2, [0], "2 checkpoints of a task"), (5, [0, 1], "several draws")]
)
def test_a_study_that_it_does_not_fit_is_refused_with_the_reason(recompute, checkpoints, draws, reason):
    ledger = {"arm": {"task": {"c": list(range(checkpoints))}}}
    assert reason in recompute.not_repeatable(ledger, {"grid": {"update_seeds": draws}})
    assert recompute.not_repeatable({"arm": {"task": {"c": range(40)}}}, {"grid": {"update_seeds": [0]}}) is None


@pytest.mark.parametrize("null", ["mean", "symmetry"])
def test_a_study_that_stops_is_computed_again(recompute, tmp_path, null):
    """Looks, bounds, intervals and answers by other means, and the grades that follow; a wrong one is noticed."""
    authored = stopped.AUTHORED.replace("[stopping]", f'[stopping]\nnull = "{null}"')
    study = stopped.write(tmp_path / "study", authored)
    printed = recompute.Watched(score_ledger(study.path, permutations=20, triggers="residual").to_json())
    stored = json.loads((study.path / "registration.json").read_text())["registration"]
    book, ledger = recompute.Ledger(), recompute.read(study.path)
    recompute.check_stopping(ledger, stored, printed["stopping"], book)
    recompute.check_contrasts(printed, recompute.holm, recompute.more, book)
    recompute.check_doses(ledger, stored, printed["doses"], book, printed["stopping"])
    assert book.wrong == []
    looked_at = recompute._kinds(path for path in printed.seen if path[0] == "stopping")
    assert recompute._kinds(path for path in printed.leaves() if path[0] == "stopping") <= looked_at
    for arm, expected in (("few", ("resolved", "helpful")), ("spare", (None, None))):
        assert recompute.by_rule(printed["stopping"], "linear_quadratic", arm) == expected
    wrong, figures = recompute.Ledger(), json.loads(json.dumps(printed["stopping"]))
    figures["questions"][1]["looks"][0]["bound"] += 0.01
    recompute.check_stopping(ledger, stored, figures, wrong)
    assert len(wrong.wrong) == 1
