"""The page's code runs as it is printed."""

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "environments.md"


def test_the_code_on_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    page: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), page)
    assert len(blocks) == 6
    assert page["observation"].shape == (8, 24)
    assert page["record"]["read"] == page["record"]["nominal"]
    assert page["data"].body("torso").xpos[2] == pytest.approx(page["observation"][0, 14])
