"""The lab's verbs: what they print, what programs read, and the codes they exit with."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from kill_and_resume import REGISTRATION
from typer.testing import CliRunner
from waiting import PATIENCE, until

import worldfork as wf
from worldfork.cli.main import app, main
from worldfork.errors import WorldforkError
from worldfork.lab.agents.base import Fit
from worldfork.lab.agents.linear_quadratic import LinearQuadratic, LinearQuadraticPlugin

VERBS = ("check", "run", "verify", "export", "calibrate")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("verbs")
    (root / "killed.toml").write_text(REGISTRATION)
    done = CliRunner().invoke(app, ["run", str(root / "killed.toml"), "-o", str(root / "study")])
    assert done.exit_code == 0, done.output
    assert "16 forks in 4 cells. Next: worldfork score" in done.output
    return root


@pytest.mark.parametrize("verb", VERBS)
def test_help_shows_an_example(verb: str) -> None:
    shown = CliRunner().invoke(app, [verb, "--help"])
    assert shown.exit_code == 0
    assert f"Example: worldfork {verb}" in " ".join(shown.output.split())


def test_verify_passes_and_fails_by_exit_code(folder: Path, tmp_path: Path) -> None:
    passed = CliRunner().invoke(app, ["verify", str(folder / "study"), "--json"])
    assert passed.exit_code == 0
    assert json.loads(passed.stdout)["complete"] is True
    rows = next((folder / "study").glob("cells/*/forks.jsonl"))
    whole = rows.read_bytes()
    try:
        rows.write_bytes(whole.replace(b'"k":2', b'"k":3', 1))
        failed = CliRunner().invoke(app, ["verify", str(folder / "study")])
        assert failed.exit_code == 1
        assert "line 2" in failed.output
        rows.write_bytes(b"".join(whole.splitlines(keepends=True)[:-1]))
        assert CliRunner().invoke(app, ["verify", str(folder / "study")]).exit_code == 1
        assert CliRunner().invoke(app, ["verify", str(folder / "study"), "--partial"]).exit_code == 0
    finally:
        rows.write_bytes(whole)
    with pytest.raises(WorldforkError, match="not a study"):
        CliRunner().invoke(app, ["verify", str(tmp_path)], catch_exceptions=False)


def test_every_verb_that_writes_prints_one_json_object(folder: Path, tmp_path: Path) -> None:
    """With paths and counts, and nothing else on standard output."""

    def record(*words: object) -> dict[str, Any]:
        done = CliRunner().invoke(app, [*map(str, words), "--json"], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        found: dict[str, Any] = json.loads(done.stdout)
        assert found.pop("schema") == f"worldfork.{words[0]}/1"
        return found

    registration, study = folder / "killed.toml", folder / "study"
    assert record("run", registration, "-o", study) == {
        "study": str(study),
        "forks": 16,
        "registered": 16,
        "cells": 4,
        "episodes_of_deployments": 0,
        "complete": True,
    }
    table = tmp_path / "forks.csv"
    assert record("export", study, "-o", table) == {"path": str(table), "kind": "forks", "rows": 16}
    copy = tmp_path / "copy.tar.xz"
    written = record("export", study, "-o", copy, "--publish")
    assert written == {"path": str(copy), "kind": "copy", "bytes": copy.stat().st_size}
    page = tmp_path / "page.html"
    written = record("report", table, "-o", page, "--permutations", 50)
    assert written == {"ledgers": [str(table)], "written": [{"path": str(page), "bytes": page.stat().st_size}]}
    written = record("report", study, table, "-o", tmp_path / "pages", "--permutations", 50)
    names = [Path(each["path"]).name for each in written["written"]]
    assert names == ["index.html", "study.html", "forks.html"]
    written = record("reproduce", registration, "-o", tmp_path / "all")
    assert written.pop("seconds").keys() == {"run killed", "verify", "score", "page"}
    files = {"study": "study", "tables": "tables.md", "page": "index.html"}
    places = {key: str(tmp_path / "all" / name) for key, name in files.items()}
    assert written == {**places, "forks": 16, "cells": 4}


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_what_is_exported_can_be_scored(folder: Path, tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"forks.{kind}"
    assert CliRunner().invoke(app, ["export", str(folder / "study"), "-o", str(path)]).exit_code == 0
    from worldfork.analysis.read.table import read_table

    read = read_table(path)
    assert set(read.arms) == {"few", "many"}
    assert len(read.arms["few"]["linear_quadratic"]) == 8


def test_check_leaves_room_between_a_long_name_and_the_next_column(tmp_path: Path) -> None:
    name = "an-arm-with-a-longer-name-than-most"
    (tmp_path / "long.toml").write_text(REGISTRATION.replace('name = "many"', f'name = "{name}"'))
    shown = CliRunner().invoke(app, ["check", str(tmp_path / "long.toml")], catch_exceptions=False)
    header, few, many = (
        next(line for line in shown.output.splitlines() if line.split()[:2] == words)
        for words in (["arm", "task"], ["few", "linear_quadratic"], [name, "linear_quadratic"])
    )
    assert {line.index("linear_quadratic") for line in (few, many)} == {header.index("task")}
    assert len({len(line) for line in (header, few, many)}) == 1


def test_check_counts_shared_work_once_and_lists_cells(folder: Path) -> None:
    shown = CliRunner().invoke(app, ["check", str(folder / "killed.toml"), "--json", "--measure"])
    assert shown.exit_code == 0, shown.output
    found = json.loads(shown.stdout)
    few, many = found["work"]
    assert (few["streams"], many["streams"]) == (1, 0)
    assert (few["stream_steps"], many["stream_steps"]) == (2 * 4 * 50, 0)  # two directions, four episodes
    assert (few["evaluation_episodes"], many["evaluation_episodes"]) == (80, 40)
    assert few["gradient_steps"] * 2 == many["gradient_steps"] == 80
    assert len(found["cells"]) == 4
    assert all(spent["evaluations"] > 0 for spent in found["seconds"])
    assert found["seconds"][0]["episodes"][-1] == 6 * 5
    assert (
        "few-linear_quadratic-c0-away-s0"
        in CliRunner().invoke(app, ["check", str(folder / "killed.toml"), "--cells"]).output
    )


PREDICTED = """
[[predictions]]
name = "up"
task = "linear_quadratic"
figure = "effect.all_atempted.mean"
between = [0.0, 1.0]
"""


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "steps = 5",
            'steps = 5\nscope = "modle"',
            "scope of [mechanism] is 'modle', and the agent can train 'model'",
        ),
        (
            "steps = 5",
            "steps = 5\nsettings = {rat = 0.1}",
            "rat: not a known setting; known here: final, learning_rate",
        ),
        ('agent = "linear_quadratic"', 'agent = "lqr"', "no agent called 'lqr'"),
        ("[grid]", 'signals = ["surprise"]\n[grid]', "no signal called 'surprise'"),
        ("[execution]", PREDICTED + "[execution]", "no score has `effect.all_atempted.mean`"),
        (
            "[execution]",
            '[scoring]\ntriggers = ["residul"]\n[execution]',
            "no trigger is called `residul`. Known here: ",
        ),
        ("[grid]", 'signals = ["residual"]\nscoring.triggers = ["kl"]\n[grid]', "signal `kl` is not recorded"),
        ("[execution]", '[scoring]\ntriggers = ["json:Narow"]\n[execution]', "module `json` has no `Narow`"),
        ("drift_scale", 'checkpoints = "there-{checkpoint}.safetensors"\ndrift_scale', "no checkpoint file"),
    ],
)
def test_check_refuses_what_would_fail_in_every_block(tmp_path: Path, old: str, new: str, words: str) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(REGISTRATION.replace(old, new))
    shown = CliRunner().invoke(app, ["check", str(path)])
    assert shown.exit_code != 0
    assert words in (shown.output + str(shown.exception))


def test_a_registered_trigger_is_imported_and_listed_before_the_study_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "registered_trigger.py").write_text(
        "from worldfork.triggers.references import Clock\nfrom worldfork.lab.signals import Residual\n"
        "class Late(Clock):\n    pass\nclass Spread(Residual):\n    pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "own.toml"
    text = REGISTRATION.replace("[execution]", '[scoring]\ntriggers = ["residual", "NAME"]\n[execution]')
    path.write_text(text.replace("NAME", "registered_trigger:Late"))
    shown = CliRunner().invoke(app, ["check", str(path), "--no-step"], catch_exceptions=False)
    assert "code  trigger `registered_trigger:Late`: registered_trigger:Late (a module on the path)" in shown.output
    path.write_text(text.replace("NAME", "registered_trigger:Spread"))
    with pytest.raises(WorldforkError, match=r"is a signal, not a trigger\..* is called `Spread`: give that name"):
        wf.check(path)
    heard: list[tuple[str, bool]] = []
    sys.modules.pop("registered_trigger")
    path.write_text(text.replace("NAME", "registered_trigger:Lat"))
    with pytest.raises(WorldforkError, match="module `registered_trigger` has no `Lat`"):
        wf.run(path, tmp_path / "s", notify=lambda line: heard.append((line, "registered_trigger" in sys.modules)))
    assert "scored with code that does not come with worldfork: trigger `registered_trigger:Lat`" in heard[0][0]
    assert not heard[0][1]
    assert not (tmp_path / "s").exists()


def test_check_takes_a_real_step(tmp_path: Path) -> None:
    path = tmp_path / "fine.toml"
    path.write_text(REGISTRATION)
    taken = json.loads(CliRunner().invoke(app, ["check", str(path), "--json"]).stdout)["stepped"]
    assert taken == ["linear_quadratic in `few`"]  # the other arm differs in the number of its steps alone
    left_out = json.loads(CliRunner().invoke(app, ["check", str(path), "--json", "--no-step"]).stdout)["stepped"]
    assert left_out == []


def test_check_estimates_power_from_a_guess(tmp_path: Path) -> None:
    text = REGISTRATION.replace("checkpoints = [0]", "checkpoints = [0, 1, 2, 3, 4]")
    path = tmp_path / "guessed.toml"
    path.write_text(text + "[guess.linear_quadratic]\ncheckpoint = 10.0\nfork = 0.0\nepisode = 0.0\n")
    found = json.loads(CliRunner().invoke(app, ["check", str(path), "--json"], catch_exceptions=False).stdout)
    # (t(.975, 4) + z(.8)) * 10 / sqrt(5)
    assert found["power"][0]["detectable"] == pytest.approx((2.7764451 + 0.8416212) * 10 / 5**0.5, rel=1e-6)
    assert found["power"][0]["buys_most"] == "checkpoints"


def test_an_unknown_registration_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(WorldforkError, match="linear-quadratic"):
        CliRunner().invoke(app, ["run", "quadratic", "-o", str(tmp_path / "study")], catch_exceptions=False)


def test_calibrate_prints_draws_and_speaks_json(folder: Path, tmp_path: Path) -> None:
    figure = tmp_path / "calibration.svg"
    arguments = ["calibrate", str(folder / "killed.toml"), "--forks", "8", "--episodes", "10"]
    shown = CliRunner().invoke(app, [*arguments, "--figure", str(figure)])
    assert shown.exit_code == 0, shown.output
    assert shown.output.startswith("8 forks: mean dR ")
    assert "by the closed form" in shown.output.splitlines()[0]
    assert "Without common random numbers" in shown.output
    assert "off by" not in shown.output
    assert CliRunner().invoke(app, [*arguments, "--verbose"]).output.count("-c") == 8
    assert figure.read_text().lstrip().startswith("<?xml")
    found = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert len(found["rows"]) == found["forks"] == 8
    pinned = CliRunner().invoke(app, ["calibrate", "--pinning"])
    assert "10.800" in pinned.output


class Pausing(LinearQuadratic):
    """An agent that stops at its fourth decision point, says so in a file, and waits for whoever interrupts it."""

    def fit(self, parameters: Any, optimiser: Any, window: Any, **settings: Any) -> Fit:
        if (window.size == 4 * 50).any() and (reached := Path(os.environ.get("REACHED", ""))).name:
            reached.touch()
            threading.Event().wait(2 * PATIENCE)
        return super().fit(parameters, optimiser, window, **settings)


class PausingPlugin(LinearQuadraticPlugin):
    """It, by name."""

    def build(self, environment: Any, *, precision: str) -> Pausing:
        return Pausing(environment.matrices, **self.model_dump())


@pytest.mark.parametrize(
    ("number", "said", "status", "workers"),
    [
        (signal.SIGINT, "interrupted", 130, 1),
        (signal.SIGTERM, "ended by SIGTERM", 143, 2),
    ],
)
def test_a_signal_leaves_a_resumable_study_and_says_how(
    number: int, said: str, status: int, workers: int, tmp_path: Path
) -> None:
    study, path, reached = tmp_path / "study", tmp_path / "paused.toml", tmp_path / "reached"
    text = REGISTRATION.replace("window = 100", "window = 1000")
    path.write_text(text.replace('agent = "linear_quadratic"', f'agent = "{__name__}:PausingPlugin"'))
    again = ["run", str(path), "-o", str(study), "--workers", str(workers), "--no-probe", "--quiet"]
    command = [sys.executable, "-m", "worldfork.cli.main", *again]
    environment = {**os.environ, "REACHED": str(reached), "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as running:

        def stopped() -> bool:
            assert running.poll() is None, running.communicate()
            written = study.glob("cells/*/forks.jsonl")
            return reached.exists() and any(path.read_bytes().count(b"\n") == 3 for path in written)

        until(stopped, lambda: "that a block is written and the agent stopped in the next")
        running.send_signal(number)
        _, complaints = running.communicate(timeout=PATIENCE)
    assert running.returncode == status, complaints
    told = [line for line in complaints.splitlines() if "code that does not come with worldfork" not in line]
    assert told == [f"worldfork: {said}; every finished row is kept. To carry on: worldfork {' '.join(again)}"]
    verdict = json.loads(CliRunner().invoke(app, ["verify", str(study), "--partial", "--json"]).stdout)
    assert verdict["passes"]
    assert verdict["rows"] == 3  # a block of three forks was finished, and the next has the fourth in it
    assert CliRunner().invoke(app, ["run", str(path), "-o", str(study), "--quiet"]).exit_code == 0
    assert CliRunner().invoke(app, ["verify", str(study)]).exit_code == 0


def test_what_carries_an_interrupted_run_on_is_the_command_that_was_typed(tmp_path: Path) -> None:
    script = (
        "import sys, worldfork as wf\n"
        "def run(*arguments, **options): raise KeyboardInterrupt\n"
        "wf.run = run\n"
        "from worldfork.cli.main import main; main()\n"
    )
    typed = ["run", "linear-quadratic", "-o", "study", "--workers", "2", "--amend", "'too short'", "--no-probe"]
    done = subprocess.run(
        [sys.executable, "-c", script, *(word.strip("'") for word in typed)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 130
    assert done.stderr == (
        f"worldfork: interrupted; every finished row is kept. To carry on: worldfork {' '.join(typed)}\n"
    )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["verify", "nowhere"], "There is no study `nowhere`"),
        (["report", "nowhere"], "There is no `nowhere`"),
        (["check", "nowhere"], "nowhere"),
        (["export", "nowhere", "-o", "missing/forks.csv"], "There is no study `nowhere`"),
    ],
)
def test_an_error_is_the_first_thing_that_is_printed(
    words: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["worldfork", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("worldfork: ")
    assert told in printed.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "verb", [["evaluate", "x"], ["pretrain", "pretrain-demo", "-o", "y"], ["calibrate-drift", "x"]]
)
def test_without_the_lab_a_lab_verb_says_what_to_install(verb, tmp_path):
    """An installation without the lab has no jax: simulated by hiding it from the import system."""
    hidden = "import sys; sys.modules['jax'] = None; from worldfork.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", hidden, *verb], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 2
    assert "pip install '.[lab]'" in done.stderr


def test_a_ledger_of_other_tasks_estimates_no_power_and_says_so():
    like = Path(__file__).parents[2] / "results" / "judge-walker"
    shown = CliRunner().invoke(app, ["check", "linear-quadratic", "--no-step", "--like", str(like)]).output
    words = " ".join(shown.split())
    assert f"power: not estimated. `{like}` has no forks of linear_quadratic to learn it from" in words


def test_check_says_when_a_study_may_stop() -> None:
    shown = CliRunner().invoke(app, ["check", "known-answer-stopping", "--no-step", "-q"]).output
    assert "stop  2 questions, null mean: a look after 8 of 24 checkpoints and after every further one." in shown


def test_check_says_what_a_registered_design_wastes() -> None:
    like = ["--like", str(Path(__file__).parents[2] / "results" / "power-cartpole")]
    shown = CliRunner().invoke(app, ["check", "power-cartpole", "--no-step", "-q", *like]).output
    assert "design corrected, cartpole-swingup: a checkpoint costs 9.61 to train" in shown
    assert "about 18 forks a checkpoint are best (9 decision points in each of 2 deployments)" in shown
    assert "16% of the registered price buys nothing." in shown
