"""Digits belong to a version of jax: which versions were tried, and what a newer one changes.

tests/golden/digits.json keeps what `python tests/digits.py` printed under each version that was tried. Any other
version fails here and says what it changed: add its entry and raise the cap in pyproject.toml, or stay below it.
"""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
GOLDEN = json.loads((ROOT / "tests/golden/digits.json").read_text(encoding="utf-8"))
TRIED = GOLDEN["versions"]


@pytest.fixture(scope="module")
def here() -> dict[str, Any]:
    """What this version gives. A process of its own: tests compile with other flags than studies do."""
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    paths = {"PYTHONPATH": os.pathsep.join(sys.path), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, str(ROOT / "tests/digits.py")]
    finished = subprocess.run(command, env=environment | paths, check=True, capture_output=True, text=True)
    return json.loads(finished.stdout)


def test_the_installed_jax_was_tried(here: dict[str, Any]) -> None:
    version, newest = jax.__version__, max(TRIED, key=Version)
    entry = here["versions"][version]
    changed = [name for name, digest in entry["digests"].items() if digest != TRIED[newest]["digests"][name]]
    assert version in TRIED, (
        f"jax {version} was never tried. Beside jax {newest} other bits came in {changed or 'nothing'}. To take "
        f"it, add to 'versions' in tests/golden/digits.json: {json.dumps({version: entry})}"
    )


def test_the_lab_takes_no_older_and_no_newer_jax_than_was_tried() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lab = map(Requirement, project["optional-dependencies"]["lab"])
    [asked] = [requirement.specifier for requirement in lab if requirement.name == "jax"]
    major, minor = max(map(Version, TRIED)).release[:2]
    assert all(Version(version) in asked for version in TRIED)
    assert f">={min(TRIED, key=Version)}" in map(str, asked)
    assert Version(f"{major}.{minor + 1}") not in asked
    assert Version(f"{major + 1}.0") not in asked


def test_a_version_gives_the_digits_that_it_gave(here: dict[str, Any]) -> None:
    found, kept = here["versions"][jax.__version__], TRIED.get(jax.__version__)
    (processor,) = found["processors"]
    if kept is None or processor not in kept["processors"]:
        pytest.skip(f"jax {jax.__version__} was not tried on processor {processor}: bits belong to both")
    assert found["digests"] == kept["digests"]


def test_versions_and_processors_differ_by_rounding_alone(here: dict[str, Any]) -> None:
    for name, kept in GOLDEN["about"].items():
        np.testing.assert_allclose(here["about"][name], kept, rtol=2e-4, atol=1e-6, err_msg=name)
