"""A study whose world or agent exits, stops or kills its process: a failed block, and never a silent end."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kill_and_resume import REGISTRATION, chained
from typer.testing import CliRunner
from waiting import PATIENCE

from worldfork.cli.main import app
from worldfork.errors import WorldforkError
from worldfork.lab.agents import linear_quadratic as lq
from worldfork.lab.agents.base import Fit
from worldfork.lab.environments.base import State
from worldfork.lab.environments.linear_quadratic import LinearQuadraticPlugin, World
from worldfork.lab.run import run
from worldfork.ledger.verify import verify


class Ending(World):
    """A world that ends otherwise than its contract says, where forks are evaluated."""

    def __init__(self, *, scale: float, fault: str) -> None:
        super().__init__(scale=scale)
        self.fault = fault

    def step(self, state: State, *given: Any, **named: Any) -> Any:
        # Its streams are 8, and what its checkpoint is fitted on are 60.
        if self.fault != "sys.exit at once" and not 8 < len(state.physics) <= 30:
            return super().step(state, *given, **named)
        if self.fault != "StopIteration":
            sys.exit(0)
        raise StopIteration("the recording is over")


class EndingPlugin(LinearQuadraticPlugin):
    """It, by name."""

    fault: str = ""

    def build(self, *, scale: float, threads: int) -> Ending:
        return Ending(scale=scale, fault=self.fault)


def with_world(fault: str, *, halves: int = 1) -> str:
    text = REGISTRATION.replace("[execution]", f"[execution]\nhalves = {halves}")
    return text + f'environment = "{__name__}:EndingPlugin"\nenvironment_settings = {{fault = "{fault}"}}\n'


@pytest.mark.parametrize("halves", [1, 2])
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("sys.exit", r"SystemExit: something called sys.exit\(0\)"),
        ("StopIteration", "StopIteration: the recording is over"),
    ],
)
def test_a_world_that_exits_or_stops_fails_with_its_reason(
    fault: str, reason: str, halves: int, tmp_path: Path
) -> None:
    path = tmp_path / "registration.toml"
    path.write_text(with_world(fault, halves=halves))
    with pytest.raises(WorldforkError, match=rf"of the study's tasks failed[\s\S]*{reason}"):
        run(path, tmp_path / "study", probe=False)
    assert ", in step\n" in (tmp_path / "study" / "failures.log").read_text()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_of_a_world_that_exits_well_does_not_exit_well(workers: int, tmp_path: Path) -> None:
    path = tmp_path / "registration.toml"
    path.write_text(with_world("sys.exit"))
    command = [sys.executable, "-m", "worldfork.cli.main", "run", str(path), "-o", str(tmp_path / "study")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [*command, "--no-probe", "--workers", str(workers)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env=environment,
    )
    assert done.returncode == 2, done.stderr
    assert "SystemExit: something called sys.exit(0)" in done.stderr


@pytest.mark.parametrize(
    ("verb", "told"),
    [
        (["check"], "^leaving.py, line 2, called sys.exit: nothing more was done"),
        (
            ["run", "-o", "study"],
            r"could not begin, and nothing was written:\s+SystemExit: something called sys.exit\(0\)",
        ),
    ],
)
def test_a_module_that_exits_when_it_is_imported_is_told(
    verb: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("leaving.py").write_text("import sys\nsys.exit(0)\n")
    Path("registration.toml").write_text(REGISTRATION + 'environment = "leaving:World"\n')
    with pytest.raises(WorldforkError, match=told):
        CliRunner().invoke(app, [*verb, "registration.toml"], catch_exceptions=False)


def test_check_of_a_world_that_exits_is_no_check_that_passed(tmp_path: Path) -> None:
    path = tmp_path / "registration.toml"
    path.write_text(with_world("sys.exit at once"))
    with pytest.raises(WorldforkError, match=r"called sys\.exit"):
        CliRunner().invoke(app, ["check", str(path)], catch_exceptions=False)


class Deadly(lq.LinearQuadratic):
    """An agent that kills its worker at a decision point while there is a file, or once and then removes it."""

    path: Path
    at: int
    once: bool

    def fit(self, parameters: Any, optimiser: Any, window: Any, **settings: Any) -> Fit:
        if (window.size == self.at).any() and self.path.exists() and os.environ["DRIVER"] != str(os.getpid()):
            if self.once:
                self.path.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().fit(parameters, optimiser, window, **settings)


class DeadlyPlugin(lq.LinearQuadraticPlugin):
    """It, by name."""

    def build(self, environment: Any, *, precision: str) -> Deadly:
        agent = Deadly(environment.matrices, **self.model_dump())
        object.__setattr__(agent, "path", Path(os.environ["DEADLY"]))
        object.__setattr__(agent, "at", int(os.environ["DEADLY_AT"]))
        object.__setattr__(agent, "once", "ONCE" in os.environ)
        return agent


@pytest.mark.parametrize("once", [True, pytest.param(False, marks=pytest.mark.nightly)])
def test_a_block_that_kills_its_worker_is_done_by_another_or_fails_alone(
    once: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRIVER", str(os.getpid()))
    monkeypatch.setenv("DEADLY", str(tmp_path / "deadly"))
    monkeypatch.setenv("DEADLY_AT", "150")  # the third
    if once:
        monkeypatch.setenv("ONCE", "1")
    text = REGISTRATION.replace("window = 100", "window = 1000").replace("per_block = 3", "per_block = 1")
    text = text.replace(', "away"', "").replace('[[arms]]\nname = "many"\nmechanism = {steps = 10}\n', "")
    path = tmp_path / "registration.toml"
    path.write_text(text.replace('agent = "linear_quadratic"', f'agent = "{__name__}:DeadlyPlugin"'))
    run(path, tmp_path / "expected", probe=False)
    (tmp_path / "deadly").touch()
    if not once:
        with pytest.raises(WorldforkError, match=r"2 workers were lost over it: .*SIGKILL") as caught:
            run(path, tmp_path / "study", workers=2, settings={"attempts": 2}, probe=False)
        assert "1 of the study's tasks failed" in str(caught.value)
        assert verify(tmp_path / "study").rows == 2  # the fourth is computed again: a chain has no holes
        (tmp_path / "deadly").unlink()
    run(path, tmp_path / "study", workers=2, settings={"attempts": 2}, probe=False)
    assert chained(tmp_path / "study") == chained(tmp_path / "expected")


def test_a_worker_that_dies_in_the_trial_before_a_study_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRIVER", str(os.getpid()))
    monkeypatch.setenv("DEADLY", str(tmp_path / "deadly"))
    monkeypatch.setenv("DEADLY_AT", "50")  # the only one of the trial
    (tmp_path / "deadly").touch()
    path = tmp_path / "registration.toml"
    path.write_text(REGISTRATION.replace('agent = "linear_quadratic"', f'agent = "{__name__}:DeadlyPlugin"'))
    with pytest.raises(
        WorldforkError, match=r"The trial before the study failed:\n- It can not be computed: .*SIGKILL"
    ):
        run(path, tmp_path / "study", workers=2, settings={"attempts": 1})
