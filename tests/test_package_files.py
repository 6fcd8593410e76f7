"""Files that people and their tools expect beside a package say what is so."""

import os
import re
import subprocess
import tomllib
from pathlib import Path

import yaml

from worldfork import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_citation_is_of_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == __version__
    assert citation["license"] == PROJECT["license"]
    assert {"message", "title", "authors"} <= citation.keys()


def test_the_workflow_runs_what_a_contributor_runs() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    typed = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    assert ".ci/run" in typed
    typed += (ROOT / ".ci/run").read_text(encoding="utf-8").splitlines()
    made = {target for line in typed for target in re.findall(r"^make (\w+)", line)}
    assert {"test", "docs"} <= made <= targets
    assert workflow["permissions"] == {"contents": "read"}
    tested = set(workflow["jobs"]["test"]["strategy"]["matrix"]["python"])
    assert tested == {c.rpartition(" ")[2] for c in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d", c)}


def test_the_lowest_and_the_newest_versions_are_tried() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    tried = {
        entry["resolution"]: entry["python"]
        for entry in workflow["jobs"]["ranges"]["strategy"]["matrix"]["include"]
    }
    supported = workflow["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert tried == {"lowest-direct": supported[0], "highest": supported[-1]}
    assert PROJECT["requires-python"] == f">={supported[0]}"


def test_what_decides_whether_a_change_lands_needs_a_browser_and_a_renderer(tmp_path: Path) -> None:
    """The script in a system where nothing can be installed, and in one where everything is there."""
    script, tools = ROOT / ".ci/run", tmp_path / "tools"
    tools.mkdir()

    def ran(**commands: str) -> subprocess.CompletedProcess[str]:
        for name, text in commands.items():
            (tools / name).write_text(f"#!/bin/sh\n{text}\n")
            (tools / name).chmod(0o755)
        path = f"{tools}{os.pathsep}{os.environ['PATH']}"
        return subprocess.run(
            ["bash", str(script)], env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
        )

    tests = "echo graphics required: $WORLDFORK_REQUIRE_GRAPHICS; exit 7"
    refused = ran(id="echo 0", ldconfig="", **{"apt-get": "echo no route to the mirror; exit 100"}, make=tests)
    assert refused.returncode == 1
    assert "no route to the mirror" in refused.stderr
    assert "chromium, fonts-dejavu-core and libosmesa6 could not be installed" in refused.stderr
    there = ran(ldconfig="echo libOSMesa.so", chromium="")
    assert (there.returncode, there.stdout, there.stderr) == (7, "graphics required: 1\n", "")


def test_every_pin_has_hashes_and_names_no_host() -> None:
    pins = (ROOT / "requirements/dev.txt").read_text(encoding="utf-8")
    entries = re.split(r"\n(?=\S)", pins.strip())
    assert len(entries) > 100
    assert all(re.match(r"[\w.-]+==[\w.]+ ", entry) and "--hash=sha256:" in entry for entry in entries)
    assert "://" not in pins
    for name in ("Makefile", "Dockerfile"):
        assert "--require-hashes -r requirements/dev.txt" in (ROOT / name).read_text(encoding="utf-8")


def test_hooks_before_a_commit_are_the_tools_of_make_test() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert [repository["repo"] for repository in hooks] == ["local"], "nothing is downloaded"
    entries = {hook["entry"].split()[0].removeprefix(".venv/bin/") for hook in hooks[0]["hooks"]}
    assert entries == {"ruff", "mypy", "lint-imports"}


def test_the_image_installs_what_is_pinned() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    pins = (ROOT / "requirements/dev.txt").read_text(encoding="utf-8")
    assert re.search(r"^jax==[\d.]+ ; python_full_version >= '3.12' \\$", pins, flags=re.MULTILINE)
    base = re.search(r"^FROM python:(3\.\d+)", dockerfile, flags=re.MULTILINE)
    assert base is not None
    assert f"Programming Language :: Python :: {base[1]}" in PROJECT["classifiers"]
    copied = re.findall(r"^COPY (\S+)", dockerfile, flags=re.MULTILINE)
    assert all((ROOT / name).exists() for name in copied)


def test_extras_that_the_documentation_names_exist() -> None:
    extras = set(PROJECT["optional-dependencies"])
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for named in re.findall(r"(?:worldfork|\.)\[([a-z,]+)\]['\"]", page.read_text(encoding="utf-8")):
            assert set(named.split(",")) <= extras, page.name
