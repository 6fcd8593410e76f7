"""A complete registration on a page is one: it can be read, and it names a model for each checkpoint."""

import re

import pytest
from pages import ROOT

from worldfork.registration import parse


@pytest.mark.parametrize("page", ["control-suite.md", "gymnasium.md", "sb3.md"])
def test_a_page_has_a_complete_registration(page: str) -> None:
    blocks = re.findall(r"^```toml\n(.*?)^```", (ROOT / "docs" / page).read_text(), flags=re.MULTILINE | re.DOTALL)
    (complete,) = [block for block in blocks if block.startswith("schema = ")]
    registration = parse(complete, name=page)
    assert len(registration.grid.checkpoints) >= 6
