"""What a package index and an installer are told."""

import subprocess
import tomllib
from pathlib import Path

import pytest
from pages import ROOT

IMPORTED_BY_OTHERS = {"imageio"}  # Gymnasium's worlds of MuJoCo begin with it, and do not ask for it themselves
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_it_says_for_whom_it_is() -> None:
    assert any(line.startswith("Programming Language :: Python") for line in PROJECT["project"]["classifiers"])
    assert (ROOT / "src/worldfork/py.typed").is_file()


def test_published_ledgers_are_not_in_the_source_distribution() -> None:
    assert "/results" in PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["exclude"]


@pytest.mark.nightly
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="this is no clone")
def test_a_clone_without_history_stays_below_70_mb(tmp_path: Path) -> None:
    """What `du` counts; results/README.md says so."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", "--depth", "1", ROOT.as_uri(), str(clone)], check=True)
    assert sum(path.lstat().st_blocks * 512 for path in clone.rglob("*")) < 70 * 2**20


def test_no_extra_installs_what_no_code_imports() -> None:
    """An extra for a cluster once installed a library that the source did not know."""
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    for extra, wanted in PROJECT["project"]["optional-dependencies"].items():
        for requirement in wanted if extra not in ("dev", "docs") else []:
            name = requirement.split("[")[0].split(">")[0].split("=")[0].split(";")[0].strip()
            if name not in {"worldfork", *IMPORTED_BY_OTHERS}:
                assert name.replace("-", "_") in sources, f"{extra}: {name}"
