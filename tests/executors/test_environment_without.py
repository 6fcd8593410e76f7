"""The environment without jax and mujoco in which `benchmarks/cluster.py` runs a driver really is without them."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
DRIVER = "import importlib, sys; import worldfork; importlib.import_module(sys.argv[1])"


def test_a_package_that_pythonpath_names_is_missing_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    from cluster_faults import environment_without

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([*sys.path, sysconfig.get_path("purelib")]))
    python = environment_without(("jax",), tmp_path / "environment")
    without = subprocess.run([*python, "-c", DRIVER, "jax"], capture_output=True, text=True, check=False)
    assert "No module named 'jax'" in without.stderr, without.stderr
    subprocess.run([*python, "-c", DRIVER, "numpy"], check=True)


def test_a_package_that_is_there_all_the_same_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    from cluster_faults import environment_without

    with pytest.raises(SystemExit, match=r"was to be without json, and finds it at .*json"):
        environment_without(("json",), tmp_path / "environment")
