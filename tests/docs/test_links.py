"""Links lead somewhere, and files that the documentation names are there."""

import re
from pathlib import Path

import pytest
from pages import FENCE, PAGES, ROOT, SPAN

LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", flags=re.MULTILINE)
# What a page calls lab/run.py lies in the package; the others lie where the repository begins.
NAMED = re.compile(
    r"(?:(?:src/worldfork|tests|benchmarks|registrations|docs)/|(?:lab|analysis|ledger|executors)/)[\w./-]+"
)

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub and mkdocs give to headings."""
    headings = HEADING.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)|[`*]", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


@every_page
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        file, _, anchor = link.partition("#")
        target = page.parent / file if file else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


@every_page
def test_files_that_are_named_are_there(page: Path) -> None:
    spans = SPAN.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
    named = {match.rstrip("./") for span in spans for match in NAMED.findall(span) if not re.search(r"[<{*]", span)}
    missing = [
        name for name in named if not (ROOT / name).exists() and not (ROOT / "src/worldfork" / name).exists()
    ]
    assert not missing
