"""Files that people and their tools expect beside a package say what is so."""

import re
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
    made = {target for line in typed for target in re.findall(r"^make (\w+)", line)}
    assert {"test", "docs"} <= made <= targets
    assert workflow["permissions"] == {"contents": "read"}
    tested = set(workflow["jobs"]["test"]["strategy"]["matrix"]["python"])
    assert tested == {c.rpartition(" ")[2] for c in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d", c)}


def test_hooks_before_a_commit_are_the_tools_of_make_test() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert [repository["repo"] for repository in hooks] == ["local"], "nothing is downloaded"
    entries = {hook["entry"].split()[0].removeprefix(".venv/bin/") for hook in hooks[0]["hooks"]}
    assert entries == {"ruff", "mypy", "lint-imports"}


def test_the_image_installs_what_is_pinned() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    pins = (ROOT / "requirements/dev.txt").read_text(encoding="utf-8")
    assert re.search(r"^jax==[\d.]+ ; python_full_version >= '3.12'$", pins, flags=re.MULTILINE)
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
