"""Python on a page runs as it stands there, block after block, in a fresh clone, and prints what the page says."""

from pathlib import Path

import pytest
from pages import MARK, PAGES, ROOT, printed_blocks, python_blocks, run_page
from studies import furnish

TESTED_ELSEWHERE = (
    "docs/extending.md",  # tests/plugin/test_extending_page.py
    "docs/sb3.md",  # tests/docs/test_sb3_page.py
)


def with_code() -> list[Path]:
    pages = [page for page in PAGES if python_blocks(page)]
    return [page for page in pages if str(page.relative_to(ROOT)) not in TESTED_ELSEWHERE]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clone")
    furnish(folder, {})
    (folder / "runs").mkdir(exist_ok=True)
    return folder


def trimmed(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


SLOW = ROOT / "docs" / "quickstart.md"


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.nightly if page == SLOW else ()) for page in with_code()],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_the_code_of_a_page_runs(page: Path, clone: Path) -> None:
    done = run_page(page, clone)
    assert done.returncode == 0, done.stderr
    outputs = done.stdout.split(f"{MARK}\n")
    for number, text in printed_blocks(page).items():
        assert trimmed(outputs[number]) == trimmed(text), f"block {number} prints something else"
