"""The documentation builds as a site without a warning, asks the network for nothing, and leaves no page out."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from pages import FENCE, PAGES, ROOT

# Languages of blocks that are not Python, and what stands for a test of each: commands are tried by test_commands,
# TOML is parsed below, and a text is meant to be read (it needs trackers that worldfork does not install).
NOT_PYTHON = {"bash", "toml", "text", "py"}  # py: an excerpt of a file that is tested itself


def test_the_site_builds_strictly_and_stands_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "properdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"})
    assert done.returncode == 0, done.stderr
    site = {page.stem for page in tmp_path.glob("*.html")}
    assert {page.stem for page in (ROOT / "docs").glob("*.md")} <= site
    api = (tmp_path / "api.html").read_text(encoding="utf-8")
    for name in ("check_environment", "RestorablePlugin", "StatefulPlugin", "fold_in"):
        assert f"{name}" in api
    for page in tmp_path.glob("*.html"):
        fetched = re.findall(
            r'<(?:script|img|link)[^>]+(?:src|href)="(https?:[^"]+)"', page.read_text(encoding="utf-8")
        )
        assert not fetched, page.name


def test_every_page_is_named_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    missing = [page.name for page in (ROOT / "docs").glob("*.md") if f" {page.name}\n" not in navigation]
    assert not missing, "add the page to nav in mkdocs.yml"


def test_every_block_of_code_is_fenced_with_a_language_that_is_known() -> None:
    languages = [(page.name, language) for page in PAGES for language, _ in FENCE.findall(page.read_text("utf-8"))]
    unknown = [(page, language) for page, language in languages if language not in {"python", *NOT_PYTHON}]
    assert not unknown
    for page in PAGES:
        for language, body in FENCE.findall(page.read_text("utf-8")):
            if language == "toml":
                assert tomllib.loads(body), page.name
        unfenced = re.findall(r"\n\n((?: {4}.*\S.*\n)+)", FENCE.sub("", page.read_text("utf-8")))
        assert not unfenced, (page.name, unfenced)
    assert sum(language == "python" for _, language in languages) > 25
