"""Compiled programs are kept, where the user wants it and only there."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import json, os, sys
{before}
import worldfork.lab
import jax
print(json.dumps([jax.config.jax_compilation_cache_dir, os.environ.get("JAX_COMPILATION_CACHE_DIR")]))
"""


def places(home: Path, *, before: str = "", **variables: str) -> tuple[str | None, str | None]:
    """Where JAX keeps programs in a process with these variables, and what its own processes would be told."""
    kept = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    environment = {**kept, "XDG_CACHE_HOME": str(home), **variables}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(before=before)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    configured, inherited = json.loads(done.stdout)
    return configured, inherited


def test_programs_are_kept_below_the_users_cache(tmp_path: Path) -> None:
    folder = tmp_path / "worldfork" / "compiled"
    assert places(tmp_path) == (str(folder), str(folder))
    assert folder.stat().st_mode & 0o077 == 0  # who can write there could have us run anything


def test_also_when_jax_was_imported_first(tmp_path: Path) -> None:
    folder = str(tmp_path / "worldfork" / "compiled")
    assert places(tmp_path, before="import jax") == (folder, folder)


def test_a_folder_that_the_user_named_stays(tmp_path: Path) -> None:
    named = str(tmp_path / "elsewhere")
    assert places(tmp_path, JAX_COMPILATION_CACHE_DIR=named) == (named, named)
    before = f"import jax; jax.config.update('jax_compilation_cache_dir', {named!r})"
    assert places(tmp_path, before=before)[0] == named


@pytest.mark.parametrize("home", ["off", "a file"])
def test_it_can_be_switched_off_and_does_without_a_home(tmp_path: Path, home: str) -> None:
    if home == "off":
        assert places(tmp_path, WORLDFORK_COMPILED="off") == (None, None)
        assert not (tmp_path / "worldfork").exists()
    else:
        (tmp_path / "worldfork").write_text("in the way")
        assert places(tmp_path) == (None, None)
