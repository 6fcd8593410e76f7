"""Python that a page prints runs as it is printed, block after block, in a fresh clone."""

from pathlib import Path

import pytest
from pages import PAGES, ROOT, python_blocks, run_page
from studies import furnish

import worldfork as wf
from worldfork.registration.library import find

TESTED_ELSEWHERE = (
    "docs/environments.md",  # tests/lab/environments/test_environment_docs.py
    "docs/extending.md",  # tests/plugin/test_extending_page.py
)


def with_code() -> list[Path]:
    pages = [page for page in PAGES if python_blocks(page)]
    return [page for page in pages if str(page.relative_to(ROOT)) not in TESTED_ELSEWHERE]


SMALLER = {
    "decision_points = 24": "decision_points = 6",
    "episodes = 30": "episodes = 3",
    "steps = 200": "steps = 20",
}


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone in which the study that pages run by name is a smaller one: a file comes before a name."""
    folder = tmp_path_factory.mktemp("clone")
    furnish(folder, {})
    (folder / "runs").mkdir()
    text = find("linear-quadratic").read_text(encoding="utf-8")
    for registered, smaller in SMALLER.items():
        assert registered in text
        text = text.replace(registered, smaller)
    for place in (folder, folder / "runs"):
        (place / "linear-quadratic").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("page", with_code(), ids=lambda page: str(page.relative_to(ROOT)))
def test_the_code_of_a_page_runs(page: Path, clone: Path) -> None:
    done = run_page(page, clone)
    assert done.returncode == 0, done.stderr
    if page.stem == "quickstart":
        assert len(wf.Study(clone / "runs/quickstart").forks()) == 60
        gentle = wf.Study(clone / "runs/gentle").forks()
        assert (len(gentle), set(gentle["arm"])) == (120, {"full", "gentle"})


@pytest.mark.nightly
def test_the_first_page_runs_at_its_own_size(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    done = run_page(ROOT / "docs" / "quickstart.md", tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(wf.Study(tmp_path / "runs/quickstart").forks()) == 240
