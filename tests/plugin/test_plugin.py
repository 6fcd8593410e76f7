"""A package of somebody else's: installed, named in a registration, run, scored, changed and refused."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kill_and_resume import chained
from typer.testing import CliRunner, Result

from worldfork import registry
from worldfork.cli.main import app
from worldfork.errors import WorldforkError

HERE = Path(__file__).parent
PARTS = """
from worldfork.testing import check_agent, check_environment, check_mechanism, check_signal, check_trigger

check_environment("sample-tank", settings={"spread": 0.4})
check_agent("sample-ensemble", "sample-tank", settings={"candidates": 6}, precision="float64")
check_mechanism("sample-blend")
check_signal("sample-disagreement", logged=["disagreement"])
check_trigger("sample-surge", settings={"factor": 1.5})
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the sample package is installed into, as pip does it, without a network."""
    folder = tmp_path_factory.mktemp("installed")
    copy = tmp_path_factory.mktemp("sample") / "package"  # hatchling would build in the source tree
    shutil.copytree(HERE, copy, ignore=shutil.ignore_patterns("test_*", "__pycache__"))
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--target", str(folder), str(copy)], check=True, capture_output=True, timeout=300)
    return folder


def python(folder: Path, *arguments: str, path: Path | None = None) -> "subprocess.CompletedProcess[str]":
    """A fresh interpreter in `folder`, which finds what is installed in `path`; the current folder is not searched,
    as it is not for a command that pip installed."""
    found = [str(path)] if path else []
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*found, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]),
    }
    return subprocess.run(
        [sys.executable, "-P", *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )


def worldfork(folder: Path, *arguments: str, path: Path | None = None) -> str:
    """A verb that succeeds."""
    done = python(folder, "-m", "worldfork.cli.main", *arguments, path=path)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def here(*arguments: str | Path) -> Result:
    """A verb in this process, where the sample package can not be imported: reading a study needs nobody's."""
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture(scope="module")
def study(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    output = worldfork(folder, "run", str(HERE / "study.toml"), "-o", "one", path=installed)
    assert "does not come with worldfork: agent `sample-ensemble`" in output
    assert "(worldfork-sample 1.2.0)" in output
    assert "probed: `none` gave dR = 0.0" in output
    return folder


def test_its_parts_keep_their_contracts(installed: Path, tmp_path: Path) -> None:
    done = python(tmp_path, "-c", PARTS, path=installed)
    assert done.returncode == 0, done.stderr


def test_one_and_two_workers_write_the_same_bytes_and_they_verify(installed: Path, study: Path) -> None:
    worldfork(study, "run", str(HERE / "study.toml"), "-o", "two", "--workers", "2", path=installed)
    assert chained(study / "one") == chained(study / "two")
    assert "16 forks in 4 cells, complete; 0 problems." in here("verify", study / "two").output


def test_what_made_the_rows_is_in_the_ledger(study: Path) -> None:
    cell = next((study / "one" / "cells").iterdir())
    configuration = json.loads((cell / "cell.json").read_text())
    assert configuration["code"]["agent"] == {
        "target": "worldfork_sample.agent:EnsemblePlugin",
        "distribution": "worldfork-sample",
        "version": "1.2.0",
    }
    assert {"environment", "mechanism", "signal sample-disagreement"} <= configuration["code"].keys()
    modules = json.loads((study / "one" / "sources" / f"{configuration['source']}.json").read_text())
    assert {f"worldfork_sample.{name}" for name in ("agent", "mechanism", "planning", "signal", "world")} <= set(
        modules
    )
    assert "worldfork_sample.trigger" not in modules, "a trigger makes no row"
    rows = [json.loads(line) for line in (cell / "forks.jsonl").read_text().splitlines()]
    assert all(row["signals"]["sample-disagreement"] > 0 for row in rows)
    assert {row["update"] == row["hold"] for row in rows} == {False}


def test_it_is_scored_with_the_outside_trigger(installed: Path, study: Path) -> None:
    names = "sample-surge,sample-disagreement,residual"
    output = python(
        study,
        *("-m", "worldfork.cli.main", "score", "one", "--json", "--triggers", names, "--permutations", "50"),
        path=installed,
    )
    assert output.returncode == 0, output.stderr
    triggers = json.loads(output.stdout)["arms"]["sample"]["tasks"]["tank"]["triggers"]
    assert list(triggers) == names.split(",")
    without = here("score", study / "one", "--triggers", "sample-surge")
    assert "No trigger is called `sample-surge`" in str(without.exception)


def test_a_change_of_the_package_is_refused_and_named(installed: Path, study: Path, tmp_path: Path) -> None:
    """Also of a module that the registration does not name, and that only the agent imports."""
    edited = tmp_path / "edited"
    shutil.copytree(installed, edited)
    planning = edited / "worldfork_sample" / "planning.py"
    planning.write_text(planning.read_text().replace("TARGET = 1.0", "TARGET = 1.0 + 1e-9"))
    before = chained(study / "one")
    rows = next((study / "one" / "cells").iterdir()) / "forks.jsonl"
    whole = rows.read_bytes()
    rows.write_bytes(b"".join(whole.splitlines(keepends=True)[:2]))  # something is left to do
    try:
        command = ("-m", "worldfork.cli.main", "run", str(HERE / "study.toml"), "-o", "one")
        refused = python(study, *command, path=edited)
        assert refused.returncode == 2
        assert "the module worldfork_sample.planning was changed" in refused.stderr
        assert "source:" not in refused.stderr
        assert "worldfork_sample.agent was changed" not in refused.stderr
        assert python(study, *command, path=installed).returncode == 0
        assert chained(study / "one") == before
    finally:
        rows.write_bytes(whole)


MODULE_NAMES = {
    '"sample-disagreement"': '"own_signal:Disagreement"',
    '"sample-blend"': '"own_mechanism:Blend"',
    '"sample-ensemble"': '"own.agent:EnsemblePlugin"',
    '"sample-tank"': '"own.world:TankPlugin"',
}


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Modules that are installed nowhere and lie where one works, and a registration that names them."""
    folder = tmp_path_factory.mktemp("beside")
    package = folder / "own"
    package.mkdir()
    for name in ("__init__", "agent", "planning", "world"):
        text = (HERE / "worldfork_sample" / f"{name}.py").read_text()
        (package / f"{name}.py").write_text(text.replace("worldfork_sample.", "own."))
    for name in ("mechanism", "signal", "trigger"):
        shutil.copy(HERE / "worldfork_sample" / f"{name}.py", folder / f"own_{name}.py")
    text = (HERE / "study.toml").read_text()
    for name, target in MODULE_NAMES.items():
        assert name in text
        text = text.replace(name, target)
    (folder / "study.toml").write_text(text)
    return folder


@pytest.mark.nightly
def test_modules_in_the_current_folder_are_named_without_being_installed(beside: Path) -> None:
    output = worldfork(beside, "run", "study.toml", "-o", "one")
    assert "agent `own.agent:EnsemblePlugin`: own.agent:EnsemblePlugin (a module on the path)" in output
    assert "probed" in output
    worldfork(beside, "run", "study.toml", "-o", "two", "--workers", "2")
    assert chained(beside / "one") == chained(beside / "two")
    (modules,) = (json.loads(path.read_text()) for path in (beside / "one" / "sources").iterdir())
    assert {"own.agent", "own.planning", "own.world", "own_mechanism", "own_signal"} <= set(modules)
    triggers = worldfork(beside, "score", "one", "--triggers", "own_trigger:Surge,Disagreement")
    assert "Surge" in triggers
    assert "Disagreement" in triggers
    planning = beside / "own" / "planning.py"
    planning.write_text(planning.read_text() + "\n# a remark\n")
    refused = python(beside, "-m", "worldfork.cli.main", "run", "study.toml", "-o", "one")
    assert refused.returncode == 2
    assert "the module own.planning was changed" in refused.stderr


def test_what_is_defined_in_the_running_script_has_no_name() -> None:
    """Neither would another process find it, nor would its source be known."""
    with pytest.raises(WorldforkError, match="put it into a file of its own, as in `my_module:Name`"):
        registry.locate("agents", "__main__:Agent")


def test_checkpoints_in_files_of_the_agents_own_kind(installed: Path, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    (tmp_path / "models").mkdir()
    for index in (0, 1):
        parameters: dict[str, Any] = {"keep": 0.95 + 0.01 * random.normal(size=3), "gain": np.full(3, 0.2)}
        np.savez(tmp_path / "models" / f"tank-{index}.npz", **parameters)
    text = (HERE / "study.toml").read_text()
    text = text.replace("drift_scale", 'checkpoints = "models/{task}-{checkpoint}.npz"\ndrift_scale')
    (tmp_path / "study.toml").write_text(text)
    worldfork(tmp_path, "run", "study.toml", "-o", "study", path=installed)
    assert sorted(path.name for path in (tmp_path / "study" / "checkpoints").iterdir()) == [
        "tank-0.npz",
        "tank-1.npz",
    ]
    verified = here("verify", tmp_path / "study").output
    assert "complete; 0 problems." in verified
    assert "not here" not in verified
    assert here("export", tmp_path / "study", "--publish", "-o", tmp_path / "copy.tar.xz").exit_code == 0
    with tarfile.open(tmp_path / "copy.tar.xz") as archive:
        assert not [name for name in archive.getnames() if name.endswith(".npz") and "/checkpoints/" in name]
    assert "complete; 0 problems." in here("verify", tmp_path / "copy.tar.xz").output
    (tmp_path / "study" / "checkpoints" / "tank-1.npz").write_bytes(b"another model")
    assert here("verify", tmp_path / "study").exit_code == 1
